package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/promo"
)

var (
	promoSampleAdd  = statement("promo_sample_add")
	promoSamples    = statement("promo_samples")
	promoForget     = statement("promo_samples_forget")
	promoReportKeep = statement("promo_report_keep")
	promoReport     = statement("promo_report")
	logTypes        = statement("log_types")
)

var _ promo.Store = Settings{}

// How long what is told of promos is kept.
const (
	promoSamplesFor = 7 * 24 * time.Hour // of a promo whose report was never made
	promoReportsFor = 2 * 366 * 24 * time.Hour
)

const promoSetting = "promo"

// Promo implements promo.Store.
func (s Settings) Promo(ctx context.Context) (string, error) {
	rows, err := s.read(ctx, promoSetting)
	return rows[promoSetting].value, err
}

// SwapPromo implements promo.Store.
func (s Settings) SwapPromo(ctx context.Context, swap promo.Swap) (bool, error) {
	return s.swap(ctx, swapped{
		name: promoSetting, old: swap.Old, new: swap.New, action: swap.Action, detail: swap.Detail, by: swap.Actor, reason: swap.Reason, at: swap.At,
	})
}

// AddSample implements promo.Store.
func (s Settings) AddSample(ctx context.Context, promoID string, slot time.Time, process string, sample promo.Sample) error {
	text, err := json.Marshal(sample)
	if err != nil {
		return fmt.Errorf("encode a sample: %w", err)
	}
	_, err = s.DB.pool.Exec(ctx, promoSampleAdd, promoID, slot, process, text)
	return unavailable(err)
}

// Samples implements promo.Store.
func (s Settings) Samples(ctx context.Context, promoID string, from time.Time, each func(time.Time, string, promo.Sample)) error {
	rows, err := s.DB.pool.Query(ctx, promoSamples, promoID, from)
	if err != nil {
		return unavailable(err)
	}
	var slot time.Time
	var process string
	var text []byte
	_, err = pgx.ForEachRow(rows, []any{&slot, &process, &text}, func() error {
		var sample promo.Sample
		if err := json.Unmarshal(text, &sample); err != nil {
			return fmt.Errorf("sample of %s: %w", process, err)
		}
		each(slot.UTC(), process, sample)
		return nil
	})
	return unavailable(err)
}

// ForgetSamples implements promo.Store.
func (s Settings) ForgetSamples(ctx context.Context, before time.Time) error {
	_, err := s.DB.pool.Exec(ctx, promoForget, before)
	return unavailable(err)
}

// KeepReport implements promo.Store.
func (s Settings) KeepReport(ctx context.Context, report promo.Report) error {
	text, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("encode a report: %w", err)
	}
	_, err = s.DB.pool.Exec(ctx, promoReportKeep, report.State.ID, report.State.Until, text, promoSamplesFor, promoReportsFor)
	return unavailable(err)
}

// Report implements promo.Store.
func (s Settings) Report(ctx context.Context, promoID string) (report promo.Report, there bool, err error) {
	var text []byte
	err = s.DB.pool.QueryRow(ctx, promoReport, promoID).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return report, false, nil
	}
	if err != nil {
		return report, false, unavailable(err)
	}
	return report, true, json.Unmarshal(text, &report)
}

// maxOrderPages bounds how much of the log is counted for a stretch of time.
const maxOrderPages = 100

// OrderEvents implements promo.Store.
func (s Settings) OrderEvents(ctx context.Context, from, until time.Time) (map[string]int64, error) {
	log := ChangeLog(s)
	after, err := log.Before(ctx, from)
	if err != nil {
		return nil, err
	}
	to, err := log.Before(ctx, until)
	if err != nil {
		return nil, err
	}
	counts := map[string]int64{}
	for range maxOrderPages {
		reached, err := s.DB.CountOrderEvents(ctx, after, to, counts)
		if err != nil || reached == after {
			return counts, err
		}
		after = reached
	}
	return nil, nil
}

// typesPage bounds how many events one statement counts.
const typesPage = 20_000

// orderEvents begin the names of what becomes of orders.
const orderEvents = "order."

// CountOrderEvents adds the next events of orders after a position, up to another one, to counts by type, and gives the
// position to which it came: the same one when there are no more. Only so many are counted at a time.
func (db *DB) CountOrderEvents(ctx context.Context, after, to int64, counts map[string]int64) (reached int64, err error) {
	rows, err := db.pool.Query(ctx, logTypes, shard, after, typesPage, to)
	if err != nil {
		return after, unavailable(err)
	}
	found := map[string]int64{}
	reached = after
	var kind string
	var count, position int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &count, &position}, func() error {
		if strings.HasPrefix(kind, orderEvents) {
			found[kind] = count
		}
		reached = max(reached, position)
		return nil
	})
	if err != nil {
		return after, unavailable(err)
	}
	for kind, count := range found {
		counts[kind] += count
	}
	return reached, nil
}

package polling

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"andes/eventstore"
)

// Rejected is a record in the ledger.
type Rejected struct {
	ID      string          `json:"id" doc:"As the feed names the record"`
	Version int64           `json:"version" doc:"Of the source; 0: it has none"`
	Code    eventstore.Code `json:"code" example:"PRICE_NOT_POSITIVE"`
	Detail  string          `json:"detail"`
	Times   int64           `json:"times" doc:"That it was refused"`
	First   time.Time       `json:"first"`
	Last    time.Time       `json:"last"`
	Again   bool            `json:"again" doc:"It is to be read once more"`
}

// FeedStanding is how a feed stands.
type FeedStanding struct {
	Feed     string    `json:"feed" example:"erp.prices"`
	SyncedAt time.Time `json:"syncedAt,omitzero" doc:"All that the source had then is known; absent: it was never in step"`
	Rejects  int64     `json:"rejects" doc:"Records that can't be used"`
}

// rejects is what happens to the records of a feed that can't be used.
type rejects struct {
	feed    string
	ledger  Ledger                              // nil: they are not kept
	told    func(ctx context.Context, r Reject) // nil: nobody is
	log     *slog.Logger
	metrics *Metrics
	now     func() time.Time

	mu   sync.Mutex
	seen memory
	open map[string]int64 // in the ledger, with their versions
	read time.Time        // when that was learnt
}

// openFor is how long what the ledger has is taken for known: other processes write there too.
const openFor = time.Minute

// add rejects a record, once per version.
func (j *rejects) add(ctx context.Context, r Refused) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := fmt.Sprintf("%s@%d", r.Item.ID, r.Item.Version)
	if j.seen.has(key) {
		return nil
	}
	reject := Reject{Feed: j.feed, ID: r.Item.ID, Version: r.Item.Version, Code: r.Refusal.Code, Detail: r.Refusal.Detail}
	if err := j.keep(ctx, reject); err != nil {
		return err
	}
	j.seen.add(key)
	j.metrics.rejected.WithLabelValues(j.feed, string(reject.Code)).Inc()
	j.log.WarnContext(ctx, "a record of a feed can't be used", "feed", reject.Feed, "id", brief(reject.ID),
		"version", reject.Version, "code", reject.Code, "detail", brief(reject.Detail))
	if j.told != nil {
		j.told(ctx, reject)
	}
	return nil
}

// maxBrief bounds what is logged and answered of a record's own words, in bytes.
const maxBrief = 200

func brief(text string) string {
	if len(text) <= maxBrief {
		return text
	}
	return strings.ToValidUTF8(text[:maxBrief], "") + "…"
}

// keep puts a record into the ledger, as long as there are not too many: then the source is to be put right,
// and not its records.
func (j *rejects) keep(ctx context.Context, reject Reject) error {
	if j.ledger == nil {
		return nil
	}
	if err := j.learn(ctx); err != nil {
		return err
	}
	if _, kept := j.open[reject.ID]; !kept && len(j.open) >= maxRemembered {
		return nil
	}
	if err := j.ledger.Reject(ctx, reject); err != nil {
		return fmt.Errorf("keep a record that can't be used: %w", err)
	}
	j.open[reject.ID] = reject.Version
	return nil
}

// learn reads what the ledger has.
func (j *rejects) learn(ctx context.Context) error {
	if j.open != nil && j.now().Sub(j.read) < openFor {
		return nil
	}
	open, err := j.ledger.Open(ctx, j.feed, maxRemembered)
	if err != nil {
		return fmt.Errorf("read which records can't be used: %w", err)
	}
	j.open, j.read = open, j.now()
	return nil
}

// applied strikes out those of the records that were rejected before, at no later version.
func (j *rejects) applied(ctx context.Context, items []Item) error {
	if j.ledger == nil || len(items) == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.learn(ctx); err != nil {
		return err
	}
	var mended []string
	for _, item := range items {
		if version, rejected := j.open[item.ID]; rejected && item.Version >= version {
			mended = append(mended, item.ID)
		}
	}
	if len(mended) == 0 {
		return nil
	}
	if err := j.ledger.Mend(ctx, j.feed, mended); err != nil {
		return fmt.Errorf("strike out records that were mended: %w", err)
	}
	for _, id := range mended {
		delete(j.open, id)
	}
	return nil
}

// memory remembers which records were reported. It forgets all when it is full: then some are reported twice.
type memory map[string]struct{}

const maxRemembered = 20_000

func (m memory) has(key string) bool {
	_, known := m[key]
	return known
}

func (m *memory) add(key string) {
	if *m == nil || len(*m) >= maxRemembered {
		*m = memory{}
	}
	(*m)[key] = struct{}{}
}

package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/commands/source"
	"andes/eventstore"
	"andes/polling"
)

var (
	feedReject       = statement("feed_reject")
	feedOpen         = statement("feed_open")
	feedMend         = statement("feed_mend")
	feedAgain        = statement("feed_again")
	feedRejects      = statement("feed_rejects")
	feedRejectCounts = statement("feed_reject_counts")
	feedReread       = statement("feed_reread")
	feedDiscard      = statement("feed_discard")
)

// Feeds keeps the records of legacy systems' feeds that can't be used, and tells how the feeds stand.
type Feeds struct{ DB *DB }

var _ polling.Ledger = Feeds{}

// Bounds of what is kept of a record, in bytes.
const (
	maxRejectID     = 500
	maxRejectDetail = 1000
)

// kept makes a text of a legacy system one that a column takes.
func kept(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// Reject implements polling.Ledger.
func (f Feeds) Reject(ctx context.Context, r polling.Reject) error {
	_, err := f.DB.pool.Exec(ctx, feedReject, r.Feed, kept(r.ID, maxRejectID), r.Version, string(r.Code), kept(r.Detail, maxRejectDetail))
	return unavailable(err)
}

// Open implements polling.Ledger.
func (f Feeds) Open(ctx context.Context, feed string, limit int) (map[string]int64, error) {
	rows, err := f.DB.pool.Query(ctx, feedOpen, feed, limit)
	if err != nil {
		return nil, unavailable(err)
	}
	open := map[string]int64{}
	var id string
	var version int64
	_, err = pgx.ForEachRow(rows, []any{&id, &version}, func() error {
		open[id] = version
		return nil
	})
	return open, unavailable(err)
}

// Mend implements polling.Ledger.
func (f Feeds) Mend(ctx context.Context, feed string, ids []string) error {
	_, err := f.DB.pool.Exec(ctx, feedMend, feed, ids)
	return unavailable(err)
}

// Again implements polling.Ledger.
func (f Feeds) Again(ctx context.Context, feed string, limit int) ([]string, error) {
	rows, err := f.DB.pool.Query(ctx, feedAgain, feed, limit)
	if err != nil {
		return nil, unavailable(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return ids, unavailable(err)
}

// Rejects lists a feed's records that can't be used, by their ids after one.
func (f Feeds) Rejects(ctx context.Context, feed, after string, limit int) ([]polling.Rejected, error) {
	rows, err := f.DB.pool.Query(ctx, feedRejects, feed, after, limit)
	if err != nil {
		return nil, unavailable(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[polling.Rejected])
	return list, unavailable(err)
}

// Reread has records read once more, and tells how many there are of them.
func (f Feeds) Reread(ctx context.Context, feed string, ids []string, actor, reason string) (count int, err error) {
	err = f.DB.pool.QueryRow(ctx, feedReread, feed, ids, actor, reason).Scan(&count)
	return count, unavailable(err)
}

// Discard strikes records out that their source no longer has, and tells how many there were of them.
func (f Feeds) Discard(ctx context.Context, feed string, ids []string, actor, reason string) (count int, err error) {
	err = f.DB.pool.QueryRow(ctx, feedDiscard, feed, ids, actor, reason).Scan(&count)
	return count, unavailable(err)
}

// Standings tells of each feed until when it is in step and how many of its records can't be used.
func (f Feeds) Standings(ctx context.Context) ([]polling.FeedStanding, error) {
	rows, err := f.DB.pool.Query(ctx, feedRejectCounts)
	if err != nil {
		return nil, unavailable(err)
	}
	counts := map[string]int64{}
	var feed string
	var count int64
	if _, err = pgx.ForEachRow(rows, []any{&feed, &count}, func() error { counts[feed] = count; return nil }); err != nil {
		return nil, unavailable(err)
	}
	streams := make([]eventstore.Stream, len(source.Feeds))
	for i, feed := range source.Feeds {
		streams[i] = source.Aggregate.Stream(feed)
	}
	states, err := f.DB.States(ctx, streams)
	if err != nil {
		return nil, err
	}
	standings := make([]polling.FeedStanding, len(streams))
	for i, stream := range streams {
		state, err := source.Aggregate.Decode(states[stream].State)
		if err != nil {
			return nil, err
		}
		standings[i] = polling.FeedStanding{Feed: stream.Key, SyncedAt: state.SyncedAt.UTC().Truncate(time.Millisecond), Rejects: counts[stream.Key]}
	}
	return standings, nil
}

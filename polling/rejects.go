package polling

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// rejects is what happens to the records of a feed that can't be used.
type rejects struct {
	feed    string
	ledger  Ledger                              // nil: they are not kept
	told    func(ctx context.Context, r Reject) // nil: nobody is
	log     *slog.Logger
	metrics *Metrics

	mu   sync.Mutex
	seen memory
	open map[string]int64 // in the ledger, with their versions; nil: not read yet
}

// add rejects a record, once per version.
func (j *rejects) add(ctx context.Context, r Refused) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := fmt.Sprintf("%s@%d", r.Item.ID, r.Item.Version)
	if j.seen.has(key) {
		return nil
	}
	reject := Reject{Feed: j.feed, ID: r.Item.ID, Version: r.Item.Version, Code: r.Refusal.Code, Detail: r.Refusal.Detail}
	if j.ledger != nil {
		if err := j.ledger.Reject(ctx, reject); err != nil {
			return fmt.Errorf("keep a record that can't be used: %w", err)
		}
		if j.open != nil && len(j.open) < maxRemembered {
			j.open[reject.ID] = reject.Version
		}
	}
	j.seen.add(key)
	j.metrics.rejected.WithLabelValues(j.feed, string(reject.Code)).Inc()
	j.log.WarnContext(ctx, "a record of a feed can't be used", "feed", reject.Feed, "id", reject.ID,
		"version", reject.Version, "code", reject.Code, "detail", reject.Detail)
	if j.told != nil {
		j.told(ctx, reject)
	}
	return nil
}

// applied strikes out those of the records that were rejected before, at no later version.
func (j *rejects) applied(ctx context.Context, items []Item) error {
	if j.ledger == nil || len(items) == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open == nil {
		open, err := j.ledger.Open(ctx, j.feed, maxRemembered)
		if err != nil {
			return fmt.Errorf("read which records can't be used: %w", err)
		}
		j.open = open
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

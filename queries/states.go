package queries

import (
	"context"
	"sync"
	"time"

	"andes/eventstore"
)

// states reads states with bounded concurrency, each stream once at a time, and puts them back where the
// copy is there to take them.
func (f *Fallback) states(ctx context.Context, streams []eventstore.Stream, putBack bool) (map[eventstore.Stream]eventstore.StateRecord, error) {
	detached := context.WithoutCancel(ctx)
	fetch := func(streams []eventstore.Stream) (map[eventstore.Stream]eventstore.StateRecord, error) {
		if !f.takeSlot() {
			f.metrics.saturated.Inc()
			return nil, ErrSaturated
		}
		defer func() { <-f.reads }()
		bounded, cancel := context.WithTimeout(detached, f.config.StatesTimeout)
		defer cancel()
		f.metrics.states.Inc()
		records, err := f.config.States.States(bounded, streams)
		if err != nil {
			return nil, err
		}
		all := make(map[eventstore.Stream]eventstore.StateRecord, len(streams))
		for _, stream := range streams {
			record := records[stream]
			record.Stream = stream // also of one without events
			all[stream] = record
		}
		return all, nil
	}
	return f.flights.get(ctx, streams, fetch, func(records map[eventstore.Stream]eventstore.StateRecord) {
		if putBack && f.config.PutBack != nil {
			f.putBack(detached, records)
		}
	})
}

func (f *Fallback) takeSlot() bool {
	select {
	case f.reads <- struct{}{}:
		return true
	default:
	}
	wait := time.NewTimer(f.config.SlotWait)
	defer wait.Stop()
	select {
	case f.reads <- struct{}{}:
		return true
	case <-wait.C:
		return false
	}
}

// putBack is best effort: what is not put back is read again.
func (f *Fallback) putBack(ctx context.Context, records map[eventstore.Stream]eventstore.StateRecord) {
	select {
	case f.puts <- struct{}{}:
	default:
		f.metrics.putsSkipped.Inc()
		return
	}
	defer func() { <-f.puts }()
	now := f.config.Now()
	list := make([]eventstore.StateRecord, 0, len(records))
	for _, record := range records {
		if record.Position > 0 || f.absents.take(now) {
			list = append(list, record)
		}
	}
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, f.config.PutTimeout)
	defer cancel()
	if err := f.config.PutBack(ctx, list); err != nil {
		f.metrics.putsFailed.Inc()
		f.config.Logger.DebugContext(ctx, "queries: states could not be put back", "records", len(list), "error", err)
		return
	}
	f.metrics.put.Add(float64(len(list)))
}

// budget bounds how many are taken in each second.
type budget struct {
	perSecond int

	mu     sync.Mutex
	second int64
	taken  int
}

func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if second := now.Unix(); second != b.second {
		b.second, b.taken = second, 0
	}
	if b.taken >= b.perSecond {
		return false
	}
	b.taken++
	return true
}

const (
	watermarkMemory = time.Second
	maxWatermarks   = 100
)

// watermarks remembers the last ones read, for a moment, and the last ones that the copy had.
type watermarks struct {
	mu   sync.Mutex
	kept map[string]watermark
	had  map[string]time.Time
}

// copied gives what the copy says of a feed: that of now, or the last one that it had, if it was emptied.
func (w *watermarks) copied(feed string, at time.Time, known bool) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !known {
		return w.had[feed]
	}
	if w.had == nil || len(w.had) >= maxWatermarks {
		w.had = make(map[string]time.Time)
	}
	w.had[feed] = at
	return at
}

// orLast gives what the copy has at hand of a feed, or the last one that it had.
func (w *watermarks) orLast(feed string, at time.Time) time.Time {
	if !at.IsZero() {
		return at
	}
	return w.copied(feed, at, false)
}

type watermark struct{ at, readAt time.Time }

func (w *watermarks) get(feed string, now time.Time) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, kept := w.kept[feed]
	return last.at, kept && now.Sub(last.readAt) < watermarkMemory
}

func (w *watermarks) put(feed string, at, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept == nil || len(w.kept) >= maxWatermarks {
		w.kept = make(map[string]watermark)
	}
	w.kept[feed] = watermark{at, now}
}

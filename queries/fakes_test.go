package queries_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"andes/eventstore"
	"andes/queries"
)

var errBroken = errors.New("broken")

// fakeCopy knows the stock that it is given; read, if set, is what asking costs.
type fakeCopy struct {
	read func(ctx context.Context) error

	mu     sync.Mutex
	asked  int
	found  map[string]queries.StockView
	absent []string
	synced map[string]time.Time // watermarks, by feed
}

func (c *fakeCopy) ask(ctx context.Context) error {
	c.mu.Lock()
	c.asked++
	read := c.read
	c.mu.Unlock()
	if read == nil {
		return nil
	}
	return read(ctx)
}

func (c *fakeCopy) behave(read func(ctx context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = read
}

func (c *fakeCopy) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *fakeCopy) Stock(ctx context.Context, skus []string) (queries.Copied[queries.StockView], error) {
	copied := queries.Copied[queries.StockView]{Found: map[string]queries.StockView{}}
	if err := c.ask(ctx); err != nil {
		return copied, err
	}
	for _, sku := range skus {
		if view, found := c.found[sku]; found {
			copied.Found[sku] = view
		} else if !slices.Contains(c.absent, sku) {
			copied.Lacking = append(copied.Lacking, sku)
		}
	}
	return copied, nil
}

func (c *fakeCopy) Prices(ctx context.Context, _ string, skus []string) (queries.Copied[queries.PriceView], error) {
	return queries.Copied[queries.PriceView]{Lacking: skus}, c.ask(ctx)
}

func (c *fakeCopy) Products(ctx context.Context, skus []string) (queries.Copied[queries.ProductView], error) {
	return queries.Copied[queries.ProductView]{Lacking: skus}, c.ask(ctx)
}

func (c *fakeCopy) Watermark(ctx context.Context, feed string) (time.Time, bool, error) {
	if err := c.ask(ctx); err != nil {
		return time.Time{}, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.synced[feed]
	return at, known, nil
}

// fakeStates counts its reads; read, if set, is what one costs.
type fakeStates struct {
	read func(ctx context.Context) error

	mu    sync.Mutex
	known map[eventstore.Stream]eventstore.StateRecord
	reads [][]eventstore.Stream
}

func (s *fakeStates) States(ctx context.Context, streams []eventstore.Stream) (map[eventstore.Stream]eventstore.StateRecord, error) {
	s.mu.Lock()
	s.reads = append(s.reads, slices.Clone(streams))
	found := map[eventstore.Stream]eventstore.StateRecord{}
	for _, stream := range streams {
		if record, exists := s.known[stream]; exists {
			found[stream] = record
		}
	}
	s.mu.Unlock()
	if s.read != nil {
		if err := s.read(ctx); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (s *fakeStates) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.reads)
}

// readsByKey tells how often each key was read.
func (s *fakeStates) readsByKey() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := map[string]int{}
	for _, streams := range s.reads {
		for _, stream := range streams {
			times[stream.Key]++
		}
	}
	return times
}

var changed = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func stateOf[S any](s *fakeStates, aggregate *eventstore.Aggregate[S], key string, state S) {
	data, err := json.Marshal(state)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[eventstore.Stream]eventstore.StateRecord{}
	}
	position := int64(len(s.known) + 1)
	s.known[aggregate.Stream(key)] = eventstore.StateRecord{Stream: aggregate.Stream(key), Version: 1, Position: position, State: data}
}

package projections

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
)

// Gate keeps a feed's watermark out of the read model until the values that it vouches for are in it. They
// come by other topics, and other projectors may be late with them: a watermark that is there first makes
// old values look recent.
//
//	watermark at position P ──► everything up to P is published ──► the topics of its values end here
//	                                    ──► all of that is applied, by whichever projector, and still there ──► let through
//
// A feed's watermarks wait side by side, each for what was published before it: a read model that is minutes behind
// is told minutes late how recent it is, and no later. The last one that was let through is put again now and then, as it
// holds on in a Redis that was emptied. Nobody else puts watermarks.
type Gate struct {
	config GateConfig
	steps  int

	mu      sync.Mutex
	held    map[string][]*heldMark // by feed, in the order of their positions
	through map[string]eventstore.StateRecord
}

// maxHeld bounds the watermarks of a feed that wait; then the latest takes the place of the one before it.
const maxHeld = 64

// GateConfig is what a Gate needs.
type GateConfig struct {
	Apply    func(ctx context.Context, records []eventstore.StateRecord) error // to the read model
	Progress Progress
	Whole    func(ctx context.Context) error // returns when the read model has all that was applied to it; nil: it always has
	Every    time.Duration                   // between two looks at the progress; 0: DefaultGateEvery
	// Marks gives the watermarks that the states have. Nil: they come by the feed alone, and none is put again.
	Marks  func(ctx context.Context) ([]eventstore.StateRecord, error)
	Again  int // every so many steps it looks at them; 0: DefaultGateAgain
	Logger *slog.Logger
}

// DefaultGateAgain makes it 2 s that a Redis that was emptied does without watermarks.
const DefaultGateAgain = 8

// DefaultGateEvery is how often a gate looks whether a watermark may pass.
const DefaultGateEvery = 250 * time.Millisecond

// Progress tells how far states have come on their way to the read model.
type Progress interface {
	// Published is the position up to which every state is in its topic.
	Published(ctx context.Context) (int64, error)
	// Parts tells of each part of the category's topic where it ends, and up to where it was applied by
	// whichever projector has it.
	Parts(ctx context.Context, category string) (map[string]Reached, error)
}

// Reached is how far a part is applied. The units are the topic's own.
type Reached struct{ Applied, End int64 }

// heldMark is what waits of a feed.
type heldMark struct {
	waits eventstore.StateRecord
	need  map[string]int64 // of the parts, to be applied first; nil: it is not known yet
}

// NewGate checks the configuration.
func NewGate(config GateConfig) (*Gate, error) {
	if config.Apply == nil || config.Progress == nil || config.Logger == nil {
		return nil, errors.New("gate: apply, progress and logger are needed")
	}
	if config.Every == 0 {
		config.Every = DefaultGateEvery
	}
	if config.Again == 0 {
		config.Again = DefaultGateAgain
	}
	return &Gate{config: config, held: map[string][]*heldMark{}, through: map[string]eventstore.StateRecord{}}, nil
}

// valuesOf is the category of the values that a feed's watermark vouches for; "": of none.
func valuesOf(feed string) string {
	switch feed {
	case source.WMSStock:
		return stock.Aggregate.Name
	case source.ERPPrices:
		return price.Aggregate.Name
	case source.ERPProducts:
		return product.Aggregate.Name
	}
	return ""
}

// Project applies records, and holds watermarks back. It is for the live feed of one projector.
func (g *Gate) Project(ctx context.Context, records []eventstore.StateRecord) error {
	kept := records
	if slices.ContainsFunc(records, isMark) {
		kept = make([]eventstore.StateRecord, 0, len(records))
		for _, record := range records {
			if !isMark(record) {
				kept = append(kept, record)
				continue
			}
			record.State = slices.Clone(record.State) // the feed uses the batch again
			g.hold(record)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return g.config.Apply(ctx, kept)
}

func isMark(record eventstore.StateRecord) bool {
	return record.Stream.Category == source.Aggregate.Name && valuesOf(record.Stream.Key) != ""
}

func (g *Gate) hold(record eventstore.StateRecord) {
	g.mu.Lock()
	defer g.mu.Unlock()
	feed := record.Stream.Key
	if record.Position <= g.through[feed].Position {
		return
	}
	held := g.held[feed]
	if len(held) == 0 {
		g.held[feed] = []*heldMark{{waits: record}}
		return
	}
	switch last := held[len(held)-1]; {
	case record.Position <= last.waits.Position:
	case last.need == nil || len(held) == maxHeld:
		*last = heldMark{waits: record}
	default:
		g.held[feed] = append(held, &heldMark{waits: record})
	}
}

// Run lets watermarks through until ctx ends.
func (g *Gate) Run(ctx context.Context) error {
	ticker := time.NewTicker(g.config.Every)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := g.Step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if (err != nil) != failing {
			failing = err != nil
			g.config.Logger.WarnContext(ctx, "watermarks: values look older than they are while this fails", "failing", failing, "error", err)
		}
	}
}

// Step looks once at the progress and lets through what may pass.
func (g *Gate) Step(ctx context.Context) error {
	through, unknown := g.again(ctx)
	passing, fault := g.ready(ctx)
	fault = errors.Join(unknown, fault)
	passing = append(through, passing...)
	if len(passing) == 0 {
		return fault
	}
	if g.config.Whole != nil {
		if err := g.config.Whole(ctx); err != nil {
			return err
		}
	}
	if err := g.config.Apply(ctx, passing); err != nil {
		return err
	}
	g.passed(passing)
	return fault
}

// ready gives what may pass by now.
func (g *Gate) ready(ctx context.Context) ([]eventstore.StateRecord, error) {
	categories := g.waiting()
	if len(categories) == 0 {
		return nil, nil
	}
	published, err := g.config.Progress.Published(ctx) // before the ends, which are to be behind it
	if err != nil {
		return nil, err
	}
	reached := make(map[string]map[string]Reached, len(categories))
	for _, category := range categories {
		if reached[category], err = g.config.Progress.Parts(ctx, category); err != nil {
			return nil, err
		}
	}
	return g.passing(published, reached), nil
}

// again looks now and then at what the states have, holds it, and gives what was let through before.
func (g *Gate) again(ctx context.Context) (through []eventstore.StateRecord, err error) {
	due := g.steps%g.config.Again == 0
	if g.steps++; g.config.Marks == nil || !due {
		return nil, nil
	}
	records, err := g.config.Marks(ctx)
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		if !isMark(record) || record.Position == 0 {
			continue
		}
		if passed, did := g.let(record); did {
			through = append(through, passed)
		}
		g.hold(record)
	}
	return through, nil
}

// let gives what was let through of the feed. If the states have less, the log was set back to an earlier time, and what
// was of the later one holds no more.
func (g *Gate) let(known eventstore.StateRecord) (eventstore.StateRecord, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	feed := known.Stream.Key
	passed, did := g.through[feed]
	if did && known.Position < passed.Position {
		delete(g.through, feed)
		delete(g.held, feed)
		return passed, false
	}
	return passed, did
}

func (g *Gate) waiting() (categories []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for feed := range g.held {
		categories = append(categories, valuesOf(feed))
	}
	slices.Sort(categories)
	return slices.Compact(categories)
}

// passing gives the watermarks whose values are in the read model.
func (g *Gate) passing(published int64, reached map[string]map[string]Reached) (passing []eventstore.StateRecord) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for feed, marks := range g.held {
		parts, looked := reached[valuesOf(feed)]
		if !looked {
			continue // it came after the look
		}
		var latest *heldMark
		for _, held := range marks {
			if held.ready(published, parts) {
				latest = held
			}
		}
		if latest != nil {
			passing = append(passing, latest.waits)
		}
	}
	return passing
}

// ready tells whether the values are in the read model. What has to be applied first is noted once they are published.
func (h *heldMark) ready(published int64, parts map[string]Reached) bool {
	if h.need == nil && published >= h.waits.Position {
		h.need = make(map[string]int64, len(parts))
		for part, at := range parts {
			h.need[part] = at.End
		}
	}
	ready := h.need != nil
	for part, end := range h.need {
		ready = ready && parts[part].Applied >= end
	}
	return ready
}

// passed keeps what was let through, and forgets that it waited and what waited before it.
func (g *Gate) passed(records []eventstore.StateRecord) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, record := range records {
		feed := record.Stream.Key
		g.through[feed] = record
		left := slices.DeleteFunc(g.held[feed], func(held *heldMark) bool { return held.waits.Position <= record.Position })
		if g.held[feed] = left; len(left) == 0 {
			delete(g.held, feed)
		}
	}
}

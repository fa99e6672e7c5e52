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
//	                                    ──► all of that is applied, by whichever projector ──► let through
//
// A feed's watermarks wait one at a time, and the latest follows. One that is lost with its process only
// makes values look a poll older than they are.
type Gate struct {
	config GateConfig

	mu   sync.Mutex
	held map[string]*heldMark // by feed
}

// GateConfig is what a Gate needs.
type GateConfig struct {
	Apply    func(ctx context.Context, records []eventstore.StateRecord) error // to the read model
	Progress Progress
	Every    time.Duration // between two looks at the progress; 0: DefaultGateEvery
	Logger   *slog.Logger
}

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
	next  *eventstore.StateRecord
}

// NewGate checks the configuration.
func NewGate(config GateConfig) (*Gate, error) {
	if config.Apply == nil || config.Progress == nil || config.Logger == nil {
		return nil, errors.New("gate: apply, progress and logger are needed")
	}
	if config.Every == 0 {
		config.Every = DefaultGateEvery
	}
	return &Gate{config: config, held: map[string]*heldMark{}}, nil
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
	held := g.held[record.Stream.Key]
	switch {
	case held == nil:
		g.held[record.Stream.Key] = &heldMark{waits: record}
	case held.need == nil && record.Position > held.waits.Position:
		held.waits = record
	case held.next == nil && record.Position > held.waits.Position || held.next != nil && record.Position > held.next.Position:
		held.next = &record
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
	categories := g.waiting()
	if len(categories) == 0 {
		return nil
	}
	published, err := g.config.Progress.Published(ctx) // before the ends, which are to be behind it
	if err != nil {
		return err
	}
	reached := make(map[string]map[string]Reached, len(categories))
	for _, category := range categories {
		if reached[category], err = g.config.Progress.Parts(ctx, category); err != nil {
			return err
		}
	}
	passing := g.passing(published, reached)
	if len(passing) == 0 {
		return nil
	}
	if err := g.config.Apply(ctx, passing); err != nil {
		return err
	}
	g.passed(passing)
	return nil
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
	for feed, held := range g.held {
		parts, looked := reached[valuesOf(feed)]
		if !looked {
			continue // it came after the look
		}
		if held.need == nil && published >= held.waits.Position {
			held.need = make(map[string]int64, len(parts))
			for part, at := range parts {
				held.need[part] = at.End
			}
		}
		ready := held.need != nil
		for part, end := range held.need {
			ready = ready && parts[part].Applied >= end
		}
		if ready {
			passing = append(passing, held.waits)
		}
	}
	return passing
}

// passed forgets what was let through and takes up what follows.
func (g *Gate) passed(records []eventstore.StateRecord) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, record := range records {
		held := g.held[record.Stream.Key]
		delete(g.held, record.Stream.Key)
		if held.next != nil {
			g.held[record.Stream.Key] = &heldMark{waits: *held.next}
		}
	}
}

package queries

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
)

// ErrSaturated: the copy can't answer and as many reads of the states are under way as may be. It passes
// soon: the caller should come back after a second. It is also an eventstore.ErrOverloaded.
var ErrSaturated error = saturated{}

type saturated struct{}

func (saturated) Error() string        { return "reads of the states are saturated" }
func (saturated) Is(target error) bool { return target == eventstore.ErrOverloaded }

// FallbackConfig is what a Fallback reads from, and its bounds.
type FallbackConfig struct {
	Copy   Copy   // asked first
	States States // asked for what the copy lacks, and for everything while it is away
	// PutBack gives the copy what it lacked, with the positions of the states: the copy refuses what is
	// older than it has by then. A record without position says that the stream has no events. May be nil.
	PutBack func(ctx context.Context, records []eventstore.StateRecord) error
	Now     func() time.Time

	CopyTimeout      time.Duration // of one read of the copy
	StatesTimeout    time.Duration // of one read of the states
	ConcurrentReads  int           // of the states
	SlotWait         time.Duration // for one of them, then ErrSaturated
	ConcurrentPuts   int           // beyond it a value is not put back
	PutTimeout       time.Duration
	AbsentsPerSecond int           // most streams without events that are put back, so that invented SKUs do not fill the copy
	RestAfter        int           // failed reads of the copy in a row
	Rest             time.Duration // how long the copy is left alone then

	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// DefaultFallbackConfig has the defaults of all bounds.
func DefaultFallbackConfig() FallbackConfig {
	return FallbackConfig{
		CopyTimeout: 200 * time.Millisecond, StatesTimeout: time.Second,
		ConcurrentReads: 16, SlotWait: 100 * time.Millisecond,
		ConcurrentPuts: 16, PutTimeout: time.Second, AbsentsPerSecond: 1000,
		RestAfter: 3, Rest: 500 * time.Millisecond,
	}
}

func (c FallbackConfig) withDefaults() FallbackConfig {
	d := DefaultFallbackConfig()
	setDefault(&c.CopyTimeout, d.CopyTimeout)
	setDefault(&c.StatesTimeout, d.StatesTimeout)
	setDefault(&c.ConcurrentReads, d.ConcurrentReads)
	setDefault(&c.SlotWait, d.SlotWait)
	setDefault(&c.ConcurrentPuts, d.ConcurrentPuts)
	setDefault(&c.PutTimeout, d.PutTimeout)
	setDefault(&c.AbsentsPerSecond, d.AbsentsPerSecond)
	setDefault(&c.RestAfter, d.RestAfter)
	setDefault(&c.Rest, d.Rest)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c FallbackConfig) validate() error {
	var faults []error
	if c.Copy == nil || c.States == nil || c.Now == nil {
		faults = append(faults, errors.New("fallback: Copy, States and Now are needed"))
	}
	if min(c.ConcurrentReads, c.ConcurrentPuts, c.AbsentsPerSecond, c.RestAfter) < 0 ||
		min(c.CopyTimeout, c.StatesTimeout, c.SlotWait, c.PutTimeout, c.Rest) < 0 {
		faults = append(faults, errors.New("fallback: a bound is negative"))
	}
	return errors.Join(faults...)
}

// Fallback is the Reader that the API asks: it answers from the copy, reads from the states what the
// copy lacks and puts it back, and reads everything from the states, with bounded concurrency, while
// the copy is away.
type Fallback struct {
	config  FallbackConfig
	quick   Glancer // the copy, if it is one
	holder  Holder  // likewise
	rest    rest
	flights flights[eventstore.Stream, eventstore.StateRecord]
	reads   chan struct{} // a slot for each read of the states
	puts    chan struct{}
	absents budget
	marks   watermarks
	metrics *fallbackMetrics
}

// NewFallback checks the configuration.
func NewFallback(config FallbackConfig) (*Fallback, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	metrics, err := newFallbackMetrics(config.Metrics)
	if err != nil {
		return nil, fmt.Errorf("fallback: metrics: %w", err)
	}
	quick, _ := config.Copy.(Glancer)
	holder, _ := config.Copy.(Holder)
	return &Fallback{
		config:  config,
		quick:   quick,
		holder:  holder,
		rest:    rest{failures: config.RestAfter, pause: config.Rest},
		reads:   make(chan struct{}, config.ConcurrentReads),
		flights: flights[eventstore.Stream, eventstore.StateRecord]{current: true},
		puts:    make(chan struct{}, config.ConcurrentPuts),
		absents: budget{perSecond: config.AbsentsPerSecond},
		metrics: metrics,
	}, nil
}

// Close waits for what is under way, which its timeouts bound. No read may begin after it.
func (f *Fallback) Close() { f.flights.wait() }

// Stock implements Reader.
func (f *Fallback) Stock(ctx context.Context, skus []string) (map[string]StockView, error) {
	return ask(ctx, f, skus, f.config.Copy.Stock, stock.Aggregate,
		func(sku string) string { return sku }, ViewOfStock)
}

// Prices implements Reader.
func (f *Fallback) Prices(ctx context.Context, list string, skus []string) (map[string]PriceView, error) {
	copied := func(ctx context.Context, skus []string) (Copied[PriceView], error) {
		return f.config.Copy.Prices(ctx, list, skus)
	}
	return ask(ctx, f, skus, copied, price.Aggregate,
		func(sku string) string { return price.Key(list, sku) }, ViewOfPrice)
}

// Products implements Reader.
func (f *Fallback) Products(ctx context.Context, skus []string) (map[string]ProductView, error) {
	return ask(ctx, f, skus, f.config.Copy.Products, product.Aggregate,
		func(sku string) string { return sku }, ViewOfProduct)
}

// ViewOfStock is what a query needs of the state, and whether it is shown.
func ViewOfStock(s stock.State) (StockView, bool) {
	return StockView{Net: s.Net(), ChangedAt: s.KnownAt(), DoubtedAt: s.Doubt.At}, !s.Delisted
}

// ViewOfPrice is what a query needs of the state, and whether it is shown.
func ViewOfPrice(s price.State) (PriceView, bool) {
	return PriceView{Price: s.Price, ChangedAt: s.ChangedAt, DoubtedAt: s.Doubt.At}, s.Shown()
}

// ViewOfProduct is what a query needs of the state, and whether it is shown.
func ViewOfProduct(s product.State) (ProductView, bool) {
	return ProductView{SKU: s.SKU, Name: s.Name, Segment: s.Segment, Attributes: s.Attributes, ChangedAt: s.ChangedAt}, !s.Removed
}

// Watermark implements Reader. The copy alone knows how far its values go: a watermark of the states would vouch for
// values that it does not have yet. So where it lacks one, the last one that it had holds, and none is put back: that is
// for whoever knows that the values are there (projections.Gate). While the copy rests, all comes from the states, and
// a watermark may be a second old: it is part of every query, and an older one only makes answers look less recent than
// they are.
func (f *Fallback) Watermark(ctx context.Context, feed string) (time.Time, error) {
	if f.rest.resting() {
		if at, kept := f.marks.get(feed, f.config.Now()); kept {
			return at, nil
		}
	}
	copied := func(ctx context.Context, feeds []string) (Copied[time.Time], error) {
		at, known, err := f.config.Copy.Watermark(ctx, feed)
		if err != nil {
			return Copied[time.Time]{Lacking: feeds}, err
		}
		return Copied[time.Time]{Found: map[string]time.Time{feed: f.marks.copied(feed, at, known)}}, nil
	}
	found, err := ask(ctx, f, []string{feed}, copied, source.Aggregate,
		func(feed string) string { return feed },
		func(s source.State) (time.Time, bool) { return s.SyncedAt, true })
	if err == nil {
		f.marks.put(feed, found[feed], f.config.Now())
	}
	return found[feed], err
}

// ask answers from the copy, and from the states what the copy does not know.
func ask[S, V any](
	ctx context.Context, f *Fallback, skus []string,
	copied func(ctx context.Context, skus []string) (Copied[V], error),
	aggregate *eventstore.Aggregate[S], key func(sku string) string, view func(S) (V, bool),
) (map[string]V, error) {
	answer, asked := fromCopy(ctx, f, skus, copied)
	if asked && len(answer.Lacking) == 0 {
		return answer.Found, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	streams := make([]eventstore.Stream, len(answer.Lacking))
	for i, sku := range answer.Lacking {
		streams[i] = aggregate.Stream(key(sku))
	}
	records, err := f.states(ctx, streams, asked)
	if err != nil {
		return nil, err
	}
	if answer.Found == nil {
		answer.Found = make(map[string]V, len(records))
	}
	for i, sku := range answer.Lacking {
		record := records[streams[i]]
		if record.State == nil {
			continue
		}
		state, err := aggregate.Decode(record.State)
		if err != nil {
			return nil, err
		}
		if v, visible := view(state); visible {
			answer.Found[sku] = v
		}
	}
	return answer.Found, nil
}

// fromCopy asks the copy; asked is false, and everything lacking, when it rests or fails.
func fromCopy[V any](ctx context.Context, f *Fallback, skus []string, copied func(context.Context, []string) (Copied[V], error)) (answer Copied[V], asked bool) {
	nothing := Copied[V]{Lacking: skus}
	if !f.rest.admit(f.config.Now()) {
		f.metrics.resting.Inc()
		return nothing, false
	}
	bounded, cancel := context.WithTimeout(ctx, f.config.CopyTimeout)
	defer cancel()
	answer, err := copied(bounded, skus)
	what := worked
	switch {
	case err != nil && ctx.Err() != nil:
		what = unknown
	case err != nil:
		what = failed
		f.metrics.failed.Inc()
	}
	if f.rest.report(f.config.Now(), what) {
		f.config.Logger.WarnContext(ctx, "queries: the read model changed", "answers", what == worked, "error", err)
	}
	if err != nil {
		return nothing, false
	}
	f.metrics.answered.Inc()
	return answer, true
}

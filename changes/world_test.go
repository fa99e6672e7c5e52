package changes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"andes/commands/money"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
)

var start = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

const (
	us        = "acme"
	ourList   = "retail"
	otherList = "wholesale"
)

// state is a stream's: the position of its last change, and a number that says which one it was.
type state struct {
	position int64
	number   int64
	removed  bool
}

// world is a log with its states, a read model that lags behind, and instances that follow them.
type world struct {
	now       time.Time
	log       []Change
	recorded  []time.Time // of each in the log, by the clock of who wrote it
	end       int64
	states    map[eventstore.Stream]state
	model     map[eventstore.Stream]state // in Redis
	earlier   map[eventstore.Stream]state // what some reader has kept of it
	policy    partner.State
	changedAt time.Time // the policy
	instances []*instance
	keptSince time.Time
	modelAway bool
	modelFull bool // takes nothing from readers
	logAway   bool
	coin      uint64
}

// toss gives the same sequence in each run.
func (w *world) toss() bool {
	w.coin = w.coin*6364136223846793005 + 1442695040888963407
	return w.coin>>63 == 1
}

// instance is an edge process with its own clock and its own memory of the policy.
type instance struct {
	*Feed
	world  *world
	skew   time.Duration
	policy partner.State
}

func newWorld(instances int) *world {
	w := &world{
		now: start, states: map[eventstore.Stream]state{}, model: map[eventstore.Stream]state{}, earlier: map[eventstore.Stream]state{},
		policy: partner.State{ID: us, Policy: partner.Policy{PriceList: ourList, Currency: "GBP"}}, changedAt: start.Add(-time.Hour),
	}
	for i := range instances {
		w.instances = append(w.instances, &instance{world: w, policy: w.policy, skew: time.Duration(i) * time.Second})
		w.instances[i].restart()
	}
	return w
}

// restart begins anew, with bounds so small that short runs reach them.
func (i *instance) restart() {
	config := DefaultConfig()
	config.Ring, config.Backfill, config.Horizon, config.Look, config.Scan, config.Confirm = 8, 6, 40, 3, 5, 4
	config.Welcome = 0
	i.start(config)
}

func (i *instance) start(config Config) {
	config.Log, config.Copy, config.Reader, config.Watermarks = i.world, modelReader{i.world}, stateReader{i.world}, i.world
	config.Now, config.Logger = i.clock, slog.New(slog.DiscardHandler)
	feed, err := New(config)
	if err != nil {
		panic(err)
	}
	i.Feed = feed
}

func (i *instance) clock() time.Time { return i.world.now.Add(i.skew) }

// question asks by the policy that the instance knows.
func (i *instance) question(kinds Kinds, limit int, skus ...string) Question {
	return Question{Partner: i.policy, Kinds: kinds, SKUs: skus, Limit: limit}
}

var errAway = errors.New("away")

func (w *world) End(context.Context) (end, published int64, err error) {
	if w.logAway {
		return 0, 0, errAway
	}
	published = w.end
	for stream, s := range w.states {
		if kept, there := w.model[stream]; there && kept.position < s.position {
			published = min(published, kept.position)
		}
	}
	return w.end, published, nil
}

func (w *world) Changed(context.Context, eventstore.Stream) (time.Time, error) {
	if w.logAway {
		return time.Time{}, errAway
	}
	return w.changedAt, nil
}

func (w *world) Before(_ context.Context, at time.Time) (position int64, err error) {
	if w.logAway {
		return 0, errAway
	}
	for n, change := range w.log {
		if w.recorded[n].Before(at) {
			position = change.Position // clocks differ: the latest is the hardest
		}
	}
	return position, nil
}

func (w *world) Listen(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }

func (w *world) Read(_ context.Context, after, to int64, limit int) (Slice, error) {
	part := Slice{Reached: after}
	if w.logAway {
		return part, errAway
	}
	count := 0
	for _, change := range w.log {
		if change.Position <= after || change.Position > to || count == limit {
			continue
		}
		count++
		if part.Reached = change.Position; Concerns(change.Stream) {
			part.Changes = append(part.Changes, change)
		}
	}
	part.More = count == limit
	return part, nil
}

func (w *world) Watermark(context.Context, string) (time.Time, error) { return start, nil }

// change appends an event.
func (w *world) change(stream eventstore.Stream, removed bool) {
	w.end += 1 + int64(len(w.log)%2) // some positions are burned
	w.log = append(w.log, Change{w.end, stream})
	clock := w.now
	if w.toss() {
		clock = clock.Add(-clockSkew - commitDelay + time.Second*time.Duration(len(w.instances)))
	}
	w.recorded = append(w.recorded, clock)
	if Concerns(stream) {
		w.states[stream] = state{w.end, w.end, removed}
	}
}

func (w *world) configure(change func(*partner.Policy)) {
	w.policy.Policy.Discounts = slices.Clone(w.policy.Policy.Discounts)
	change(&w.policy.Policy)
	w.changedAt = w.now
	w.change(partner.Aggregate.Stream(us), false)
}

// project brings one state, or all, into the read model.
func (w *world) project(stream eventstore.Stream) {
	if s, there := w.states[stream]; there {
		w.model[stream] = s
	}
}

func (w *world) projectAll() {
	for stream := range w.states {
		w.project(stream)
	}
}

// policyTTL is how long an instance keeps a policy.
const policyTTL = time.Minute

// pass lets time go by. Nobody goes by a policy, or by a kept value, for longer than may be.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	if w.now.Sub(w.changedAt) > policyTTL {
		for _, i := range w.instances {
			i.policy = w.policy
		}
	}
	if w.now.Sub(w.keptSince) >= DefaultConfig().Settled {
		clear(w.earlier)
	}
}

// remember is what some reader keeps from now on, for less than the margin.
func (w *world) remember() {
	w.keptSince = w.now
	w.earlier = maps.Clone(w.model)
}

// step has an instance look at the log once, whatever comes of it.
func (i *instance) look() { _ = i.step(context.Background()) }

// get is what GET /v1/stock and GET /v1/prices answer at an instance: from the read model, or from what the
// instance kept of it, or from the states.
func (i *instance) get(skus []string) map[string]string {
	w, answers := i.world, map[string]string{}
	view := func(stream eventstore.Stream) (state, bool) {
		kept, there := w.model[stream]
		if older, has := w.earlier[stream]; there && has && w.toss() {
			kept = older
		}
		if !there {
			kept, there = w.states[stream]
		}
		return kept, there && !kept.removed
	}
	for _, sku := range skus {
		if s, there := view(stock.Aggregate.Stream(sku)); there {
			answers["stock "+sku] = fmt.Sprint(i.policy.Policy.Available(s.number))
		}
		if s, there := view(price.Aggregate.Stream(price.Key(i.policy.Policy.PriceList, sku))); there {
			segment := ""
			if p, sold := view(product.Aggregate.Stream(sku)); sold {
				segment = segmentOf(p)
			}
			answers["price "+sku] = fmt.Sprint(i.policy.Policy.Price(gbp(s.number), sku, segment, i.clock()))
		}
	}
	return answers
}

func gbp(minor int64) money.Money { return money.Money{Minor: 1000 + minor, Currency: "GBP"} }

func segmentOf(s state) string { return fmt.Sprint("segment", s.number%2) }

// modelReader is the read model.
type modelReader struct{ *world }

// stateReader answers from the read model or, where that is too old, from the states.
type stateReader struct{ *world }

func copied[V any](w *world, least map[string]int64, orStates bool, stream func(string) eventstore.Stream, view func(state) V) (queries.Copied[V], error) {
	answer := queries.Copied[V]{Found: map[string]V{}}
	if w.modelAway && !orStates {
		return answer, errAway
	}
	for sku, position := range least {
		kept, there := w.model[stream(sku)]
		if !there || w.modelAway || kept.position < position {
			if !orStates {
				answer.Lacking = append(answer.Lacking, sku)
				continue
			}
			if kept, there = w.states[stream(sku)]; there && !w.modelAway && !w.modelFull {
				w.model[stream(sku)] = kept
			}
		}
		if there && !kept.removed {
			answer.Found[sku] = view(kept)
		}
	}
	return answer, nil
}

func stockView(s state) queries.StockView { return queries.StockView{Net: s.number, ChangedAt: start} }
func priceView(s state) queries.PriceView {
	return queries.PriceView{Price: gbp(s.number), ChangedAt: start}
}
func productView(s state) queries.ProductView { return queries.ProductView{Segment: segmentOf(s)} }

func onList(list string) func(string) eventstore.Stream {
	return func(sku string) eventstore.Stream { return price.Aggregate.Stream(price.Key(list, sku)) }
}

func (r modelReader) StockSince(_ context.Context, least map[string]int64) (queries.Copied[queries.StockView], error) {
	return copied(r.world, least, false, stock.Aggregate.Stream, stockView)
}

func (r modelReader) PricesSince(_ context.Context, list string, least map[string]int64) (queries.Copied[queries.PriceView], error) {
	return copied(r.world, least, false, onList(list), priceView)
}

func (r modelReader) ProductsSince(_ context.Context, least map[string]int64) (queries.Copied[queries.ProductView], error) {
	return copied(r.world, least, false, product.Aggregate.Stream, productView)
}

func (r stateReader) StockSince(_ context.Context, least map[string]int64) (queries.Copied[queries.StockView], error) {
	return copied(r.world, least, true, stock.Aggregate.Stream, stockView)
}

func (r stateReader) PricesSince(_ context.Context, list string, least map[string]int64) (queries.Copied[queries.PriceView], error) {
	return copied(r.world, least, true, onList(list), priceView)
}

func (r stateReader) ProductsSince(_ context.Context, least map[string]int64) (queries.Copied[queries.ProductView], error) {
	return copied(r.world, least, true, product.Aggregate.Stream, productView)
}

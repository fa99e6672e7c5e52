package reads

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"time"

	"andes/test/load"
)

// Options of a run.
type Options struct {
	Andes     string        // the binary
	Folder    string        // of the results
	Scenarios []int         // of All; empty: all of them
	Short     bool          // half a minute a scenario: to see that it works
	Down      time.Duration // of ERP and WMS in scenario 3; the staleness threshold is a third of it
	Tryton    *Tryton       // that takes the place of the simulators; nil: none
	Tell      func(Progress)
}

// The scenarios, by the numbers that they have in the specification.
const (
	Peak  = 1
	Slow  = 2
	Down  = 3
	Quota = 6
)

// All are the scenarios.
var All = []int{Peak, Slow, Down, Quota}

// playing is the order of playing. Andes leaves a slow ERP alone for half a minute at a time, and comes back to its
// usual pace step by step, so nothing follows that.
var playing = []int{Peak, Down, Quota, Slow}

// Names of the scenarios.
var Names = map[int]string{Peak: "1 peak", Slow: "2 slow ERP", Down: "3 ERP and WMS down", Quota: "6 quota"}

// The load: reads a second of stock, and as many of prices beside them.
const (
	baseReads = 20
	peakReads = 200

	stormReads = 1000 // of each, so 2,000 in all
	stormSKUs  = 10   // of each of them

	skus = 1000 // in the catalogue

	bronzeQuota = 20
	bronzeAsks  = 5 * bronzeQuota
	quotaTurns  = 3
)

// Settings of Andes for a run: the outage is shorter than the three minutes of the specification, and so are the
// times that go with it. The ERP has two feeds, so that it is called 0.8 times a second.
const (
	openFor = time.Second
	erpPoll = 2500 * time.Millisecond
)

// DefaultDown is how long ERP and WMS are away.
const DefaultDown = 30 * time.Second

const leastDown = 15 * time.Second

func (o Options) stale() time.Duration { return o.Down / 3 }

// Validate tells all that is wrong.
func (o Options) Validate() error {
	var faults []error
	for _, n := range o.Scenarios {
		if !slices.Contains(All, n) {
			faults = append(faults, fmt.Errorf("there is no scenario %d; there are %v", n, All))
		}
		if o.Tryton != nil && n != Peak {
			faults = append(faults, fmt.Errorf("scenario %d needs the simulators: a Tryton is only read from in scenario %d", n, Peak))
		}
	}
	if o.Down < leastDown {
		faults = append(faults, fmt.Errorf("an outage of %s is too short to see staleness begin and end: it takes %s", o.Down, leastDown))
	}
	if _, err := os.Stat(o.Andes); err != nil {
		faults = append(faults, fmt.Errorf("the binary of Andes: %w", err))
	}
	return errors.Join(faults...)
}

// pick is the longer or the shorter time.
func (o Options) pick(long, short time.Duration) time.Duration {
	if o.Short {
		return short
	}
	return long
}

// fill is how long the queue before an overloaded system takes to grow to the channels' patience.
const fill = 6 * time.Second

// reads of stock and prices, so many of each.
func (r reader) reads(perSecond, skus int) []load.Stream {
	stock, price := r.stock(skus), r.price(skus)
	stock.Rate, price.Rate = perSecond, perSecond
	return []load.Stream{stock, price}
}

// Names of the phases.
const (
	basePhase   = "base"
	peakPhase   = "10x"
	stormPhase  = "2,000/s x 10 SKUs"
	freshPhase  = "changes at base"
	beforePhase = "before"
	slowPhase   = "ERP slow"
	downPhase   = "down"
	afterPhase  = "after"
)

func (l *lab) peak(s *side) []phase {
	phases := []phase{
		{name: basePhase, lasts: l.o.pick(20*time.Second, 10*time.Second), settle: time.Second, enter: s.behind.well, streams: s.reader.reads(baseReads, 1)},
		{name: peakPhase, lasts: l.o.pick(30*time.Second, 14*time.Second), settle: fill, streams: s.reader.reads(peakReads, 1)},
	}
	if s.platform == nil || l.o.Tryton != nil {
		return phases
	}
	prober := &prober{behind: s.behind, platform: s.platform, token: l.gold, result: &l.result.Freshness, waiting: map[string]*change{}}
	return append(phases,
		phase{name: stormPhase, lasts: l.o.pick(15*time.Second, 6*time.Second), settle: time.Second, streams: s.reader.reads(stormReads, stormSKUs)},
		phase{name: freshPhase, lasts: l.o.pick(30*time.Second, 8*time.Second), settle: time.Second, streams: s.reader.reads(baseReads, 1), beside: prober.run})
}

func (l *lab) slow(s *side) []phase {
	streams := s.reader.reads(baseReads, 1)
	return []phase{
		{name: beforePhase, lasts: l.o.pick(8*time.Second, 5*time.Second), settle: time.Second, enter: s.behind.well, streams: streams},
		{name: slowPhase, lasts: l.o.pick(40*time.Second, 18*time.Second), settle: time.Second, fault: true, enter: s.behind.slow, streams: streams},
		{name: afterPhase, lasts: l.o.pick(8*time.Second, 4*time.Second), settle: time.Second, enter: s.behind.well, streams: streams},
	}
}

func (l *lab) down(s *side) []phase {
	streams := s.reader.reads(baseReads, 1)
	return []phase{
		{name: beforePhase, lasts: l.o.pick(6*time.Second, 4*time.Second), settle: time.Second, enter: s.behind.well, streams: streams},
		{name: downPhase, lasts: l.o.Down, fault: true, enter: s.behind.down, streams: streams},
		{name: afterPhase, lasts: l.o.pick(12*time.Second, 8*time.Second), enter: s.behind.well, streams: streams},
	}
}

func alone(turn int) string  { return fmt.Sprintf("gold alone %d", turn+1) }
func beside(turn int) string { return fmt.Sprintf("with bronze %d", turn+1) }

// quota: the neighbour alone, then with the flood, and again, so that both see the same weather.
func (l *lab) quota(s *side) []phase {
	gold, bronze := s.reader.stock(1), toBeReader(l.catalogue, s.platform.URL, l.bronze).stock(1)
	gold.Name, gold.Rate = goldStream, peakReads
	bronze.Name, bronze.Rate = bronzeStream, bronzeAsks
	phases := []phase{{name: "warm-up", lasts: 2 * time.Second, enter: s.behind.well, streams: []load.Stream{gold}}}
	for turn := range quotaTurns {
		lasts := l.o.pick(6*time.Second, 3*time.Second)
		phases = append(phases,
			phase{name: alone(turn), lasts: lasts, settle: time.Second, streams: []load.Stream{gold}},
			// The first second takes the burst.
			phase{name: beside(turn), lasts: lasts, settle: 1500 * time.Millisecond, fault: true, streams: []load.Stream{gold, bronze}})
	}
	return phases
}

// Result is all that a run gave.
type Result struct {
	Began       time.Time
	Options     Options
	Busy        float64  // processes that wanted a core before the run began, by the load average of the last minute
	Settings    []string // of Andes, that differ from the defaults
	Takes       []*Take
	Freshness   Freshness
	Interrupted bool
}

// lab is a run under way.
type lab struct {
	o            Options
	catalogue    catalogue
	gold, bronze string // tokens
	result       *Result
}

// maxStreams are the streams of reads of one phase. Each of them waits in the kernel for its time (load.Exactly) and holds one
// of the runtime's processors meanwhile: without these for themselves, answers that are there would be read late.
const maxStreams = 2

// Run plays the scenarios. When ctx ends it gives what was measured until then. The result is there even with
// an error.
func Run(ctx context.Context, o Options) (*Result, error) {
	if len(o.Scenarios) == 0 {
		o.Scenarios = All
		if o.Tryton != nil {
			o.Scenarios = []int{Peak}
		}
	}
	l := &lab{o: o, result: &Result{Began: time.Now(), Options: o, Busy: busy(), Settings: settingsOf(o)}}
	if err := o.Validate(); err != nil {
		return l.result, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + maxStreams))
	err := l.run(ctx)
	if ctx.Err() != nil {
		// What fails then fails because of it.
		l.result.Interrupted, err = true, nil
	}
	return l.result, err
}

func (l *lab) run(ctx context.Context) error {
	asIs, toBe, err := l.build(ctx)
	for _, s := range []*side{asIs, toBe} {
		defer s.close()
	}
	if err != nil {
		return err
	}
	order := []*side{asIs, toBe}
	if l.o.Tryton != nil {
		// Both ask the same one, and whoever asks it directly leaves it with work for a long time.
		slices.Reverse(order)
	}
	for _, n := range playing {
		if !slices.Contains(l.o.Scenarios, n) {
			continue
		}
		for _, s := range order {
			phases := l.phases(n, s)
			if len(phases) == 0 {
				continue
			}
			if s == toBe {
				// A scenario begins with values that are in step, whatever the one before left.
				if err := l.fresh(ctx, s); err != nil {
					return err
				}
			}
			take, err := play(ctx, s, Names[n], phases, l.o.Tell)
			l.result.Takes = append(l.result.Takes, take)
			if err != nil || ctx.Err() != nil {
				return err
			}
			if l.o.Tryton != nil && s == toBe {
				s.platform.stop() // it has had its turn
			}
		}
	}
	return nil
}

func (l *lab) phases(scenario int, s *side) []phase {
	switch scenario {
	case Peak:
		return l.peak(s)
	case Slow:
		return l.slow(s)
	case Down:
		return l.down(s)
	}
	if s.platform == nil {
		return nil // there are no quotas as it is
	}
	return l.quota(s)
}

// build opens both worlds.
func (l *lab) build(ctx context.Context) (asIs, toBe *side, err error) {
	asIs, toBe = &side{name: AsIs}, &side{name: ToBe}
	var systems []string
	if l.o.Tryton == nil {
		l.catalogue = madeUp(skus)
		direct, err := openSimulators(ctx, l.catalogue)
		asIs.behind = direct
		if err != nil {
			return asIs, toBe, err
		}
		asIs.reader = asIsReader(l.catalogue, direct)
		polled, err := openSimulators(ctx, newCatalogue(slices.Concat(l.catalogue.items, probeItems())))
		toBe.behind = polled
		if err != nil {
			return asIs, toBe, err
		}
		systems = []string{
			"ANDES_ERP_URL=" + polled.entries["erp"].URL, "ANDES_WMS_URL=" + polled.entries["wms"].URL,
			"ANDES_ERP_FEED_SECRET=" + labSecret, "ANDES_WMS_FEED_SECRET=" + labSecret,
		}
	} else if systems, err = l.buildTryton(ctx, asIs, toBe); err != nil {
		return asIs, toBe, err
	}
	if toBe.platform, err = startPlatform(ctx, l.o, systems); err != nil {
		return asIs, toBe, err
	}
	if l.gold, err = toBe.platform.partner(ctx, goldPartner, "gold"); err != nil {
		return asIs, toBe, err
	}
	if l.bronze, err = toBe.platform.partner(ctx, bronzePartner, "bronze"); err != nil {
		return asIs, toBe, err
	}
	toBe.reader = toBeReader(l.catalogue, toBe.platform.URL, l.gold)
	if polled, simulated := toBe.behind.(*simulators); simulated {
		if err := polled.tellTo(toBe.platform.URL); err != nil {
			return asIs, toBe, err
		}
	}
	return asIs, toBe, toBe.platform.awaitCatalogue(ctx, l.gold, l.catalogue)
}

// steadyFor is how long values have to be in step before a scenario begins, and how old they may be then.
const (
	steadyFor = 3 * time.Second
	inStep    = 2*erpPoll + time.Second
)

// fresh waits until stock and prices are polled at their usual pace.
func (l *lab) fresh(ctx context.Context, s *side) error {
	if err := s.behind.well(); err != nil {
		return err
	}
	since := time.Now()
	name := l.catalogue.items[0].sku
	return s.platform.until(ctx, "the values are in step", func() error {
		var stock, prices asOfAnswer
		err := errors.Join(
			s.platform.ask(ctx, http.MethodGet, "/v1/stock?sku="+url.QueryEscape(name), l.gold, nil, &stock),
			s.platform.ask(ctx, http.MethodGet, "/v1/prices?sku="+url.QueryEscape(name), l.gold, nil, &prices))
		if err == nil {
			err = errors.Join(stock.youngerThan(inStep), prices.youngerThan(inStep))
		}
		if err != nil {
			since = time.Now()
		}
		if steady := time.Since(since); err == nil && steady < steadyFor {
			err = fmt.Errorf("for %s now", steady)
		}
		return err
	})
}

// asOfAnswer is what an answer says of its age.
type asOfAnswer struct {
	Items []struct {
		AsOf time.Time `json:"asOf"`
	} `json:"items"`
}

func (a asOfAnswer) youngerThan(limit time.Duration) error {
	if len(a.Items) != 1 {
		return errors.New("there is no value")
	}
	if age := time.Since(a.Items[0].AsOf); age > limit {
		return fmt.Errorf("the value is %s old", age)
	}
	return nil
}

func (s *side) close() {
	if s.platform != nil {
		s.platform.stop()
	}
	if s.behind != nil {
		s.behind.close()
	}
}

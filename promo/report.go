package promo

import (
	"math"
	"slices"
	"time"
)

// Window is what all processes did in a span of time. Rates are a second, times of answers in milliseconds.
type Window struct {
	From      time.Time `json:"from"`
	Until     time.Time `json:"until"`
	Processes int       `json:"processes" doc:"That told what they did"`

	Reads     int64            `json:"reads" doc:"Answers about stock and prices"`
	ReadsRate float64          `json:"readsPerSecond"`
	P50       float64          `json:"p50ms"`
	P95       float64          `json:"p95ms"`
	P99       float64          `json:"p99ms"`
	Answers   map[string]int64 `json:"answers" doc:"About stock and prices, by status"`
	Failed    int64            `json:"failed" doc:"Of them, with a status of 500 and above"`
	Cache     map[string]int64 `json:"cache" doc:"How answers were found in the microcache"`
	CacheHits float64          `json:"cacheHitPercent"`
	Orders    map[string]int64 `json:"orders" doc:"Orders that were sent, by status of the answer"`
	Events    map[string]int64 `json:"orderEvents,omitzero" doc:"What became of orders; none: unknown"`
	Refused   int64            `json:"quotaRefusals" doc:"Requests that a quota refused"`
	Partners  map[string]int64 `json:"quotaRefusalsByPartner" doc:"Those with the most"`
	Legacy    map[string]Calls `json:"legacy" doc:"Calls to legacy systems"`
	Freshness map[string]Aged  `json:"freshness" doc:"By feed: how long ago it was known to be in step"`
	Peaks     Peaks            `json:"peaks"`
	Timeline  []Point          `json:"timeline,omitempty" doc:"In parts of equal length"`
}

// Calls are those to a system.
type Calls struct {
	Count     int64   `json:"count"`
	PerSecond float64 `json:"perSecond"`
	Peak      float64 `json:"peakPerSecond" doc:"In a slot of 10 s"`
}

// Aged is the age of a feed in seconds.
type Aged struct {
	Last  float64 `json:"lastSeconds"`
	P95   float64 `json:"p95Seconds"`
	Worst float64 `json:"worstSeconds"`
}

// Peaks are the worst slots of 10 s.
type Peaks struct {
	ReadsRate float64   `json:"readsPerSecond"`
	ReadsAt   time.Time `json:"readsAt,omitzero"`
	P95       float64   `json:"p95ms"`
	P95At     time.Time `json:"p95At,omitzero"`
}

// Point is a part of the time.
type Point struct {
	At        time.Time `json:"at"`
	ReadsRate float64   `json:"readsPerSecond"`
	P95       float64   `json:"p95ms"`
	Legacy    float64   `json:"legacyPerSecond"`
	Refused   int64     `json:"quotaRefusals"`
}

// Report is what is told of a promo.
type Report struct {
	State State `json:"promo"`
	Final bool  `json:"final" doc:"It is over, and nothing is added any more"`
	Window
	Before *Window `json:"before,omitempty" doc:"The same figures of as long a time right before it, to a slot of 10 s, without a timeline; none: unknown, as not all of that time was counted, or another promo was on"`
}

// maxPoints bounds a timeline.
const maxPoints = 60

// fold puts samples together, which come by slot.
type fold struct {
	total     Sample
	slots     []slotSum
	processes map[string]bool
	ages      map[string][]float64
}

// slotSum is what is kept of a slot.
type slotSum struct {
	at      time.Time
	seconds float64 // that it is about
	counted float64 // of them, those of which a process told
	reads   Latency
	legacy  map[string]int64
	refused int64
}

func newFold() *fold { return &fold{processes: map[string]bool{}, ages: map[string][]float64{}} }

func (f *fold) add(slot time.Time, process string, s Sample) {
	f.processes[process] = true
	f.total = f.total.Plus(s)
	if len(f.slots) == 0 || !f.slots[len(f.slots)-1].at.Equal(slot) {
		f.slots = append(f.slots, slotSum{at: slot, seconds: SlotLength.Seconds()})
	}
	last := &f.slots[len(f.slots)-1]
	last.seconds, last.counted = max(last.seconds, s.Seconds), max(last.counted, s.Seconds)
	last.reads, last.legacy, last.refused = last.reads.Plus(s.Reads), plus(last.legacy, s.Legacy), last.refused+s.Refused
	for feed, age := range s.Ages {
		f.ages[feed] = append(f.ages[feed], age)
	}
}

// counted is of how many seconds there are samples.
func (f *fold) counted() (seconds float64) {
	for _, slot := range f.slots {
		seconds += slot.counted
	}
	return seconds
}

// window sums the time between two moments up.
func (f *fold) window(from, until time.Time) Window {
	seconds := max(1, until.Sub(from).Seconds())
	w := Window{
		From: from, Until: until, Processes: len(f.processes),
		Reads: f.total.Reads.Total(), P50: f.total.Reads.quantileMS(.5), P95: f.total.Reads.quantileMS(.95), P99: f.total.Reads.quantileMS(.99),
		Answers: orEmpty(f.total.Answers), Cache: orEmpty(f.total.Cache), Orders: orEmpty(f.total.Orders), Events: orEmpty(f.total.Events),
		Refused: f.total.Refused, Partners: orEmpty(f.total.Partners), Legacy: map[string]Calls{}, Freshness: map[string]Aged{},
	}
	w.ReadsRate = rounded(float64(w.Reads) / seconds)
	for status, count := range w.Answers {
		if status >= "500" {
			w.Failed += count
		}
	}
	if found, asked := w.Cache["hit"]+w.Cache["shared"]+w.Cache["stale"], sum(w.Cache); asked > 0 {
		w.CacheHits = rounded(100 * float64(found) / float64(asked))
	}
	for system, count := range f.total.Legacy {
		w.Legacy[system] = Calls{Count: count, PerSecond: rounded(float64(count) / seconds)}
	}
	for feed, ages := range f.ages {
		aged := Aged{Last: rounded(ages[len(ages)-1])}
		slices.Sort(ages)
		aged.Worst, aged.P95 = rounded(ages[len(ages)-1]), rounded(ages[(len(ages)*95-1)/100])
		w.Freshness[feed] = aged
	}
	f.peaks(&w)
	return w
}

func (f *fold) peaks(w *Window) {
	for _, slot := range f.slots {
		if rate := rounded(float64(slot.reads.Total()) / slot.seconds); rate > w.Peaks.ReadsRate {
			w.Peaks.ReadsRate, w.Peaks.ReadsAt = rate, slot.at
		}
		if p95 := slot.reads.quantileMS(.95); p95 > w.Peaks.P95 {
			w.Peaks.P95, w.Peaks.P95At = p95, slot.at
		}
		for system, count := range slot.legacy {
			calls := w.Legacy[system]
			calls.Peak = max(calls.Peak, rounded(float64(count)/slot.seconds))
			w.Legacy[system] = calls
		}
	}
	each := (len(f.slots) + maxPoints - 1) / maxPoints
	for part := range slices.Chunk(f.slots, max(1, each)) {
		joined := slotSum{at: part[0].at}
		legacy := int64(0)
		for _, slot := range part {
			joined.seconds += slot.seconds
			joined.reads, joined.refused, legacy = joined.reads.Plus(slot.reads), joined.refused+slot.refused, legacy+sum(slot.legacy)
		}
		w.Timeline = append(w.Timeline, Point{
			At: joined.at, ReadsRate: rounded(float64(joined.reads.Total()) / joined.seconds), P95: joined.reads.quantileMS(.95), Legacy: rounded(float64(legacy) / joined.seconds), Refused: joined.refused,
		})
	}
}

func (l Latency) quantileMS(q float64) float64 { return rounded(1000 * l.Quantile(q)) }

// rounded gives three decimals: what is measured is no more exact.
func rounded(value float64) float64 {
	if math.IsInf(value, 0) || math.IsNaN(value) || math.Abs(value) > NeverInStep {
		return NeverInStep
	}
	return math.Round(value*1000) / 1000
}

// NeverInStep stands for the age of a feed that never was in step, and for whatever is beyond any measure: JSON has no infinity.
const NeverInStep = 1e9

func orEmpty(counts map[string]int64) map[string]int64 {
	if counts == nil {
		return map[string]int64{}
	}
	return counts
}

package reads

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"andes/test/load"
)

// Row is one line of the comparison.
type Row struct {
	Scenario string `json:"scenario"`
	Measure  string `json:"measure"`
	AsIs     string `json:"asIs"`
	ToBe     string `json:"toBe"`
	Wanted   string `json:"wanted"` // of the right column; empty: only told
	Broken   bool   `json:"broken"`

	// NotJudged: a latency that a busy machine measured, which says little.
	NotJudged bool `json:"notJudged,omitempty"`

	latency bool
}

// What is wanted of Andes: the criteria of success, then what is to be beaten.
const (
	peakLimit      = 300 * time.Millisecond
	errorLimit     = 0.001
	callsLimit     = 1.10
	stockObjective = 10 * time.Second
	priceObjective = time.Minute

	baseBeaten      = 3 * time.Millisecond
	peakBeaten      = 1600 * time.Microsecond
	stormBeaten     = 3 * time.Millisecond
	slowBeaten      = 1900 * time.Microsecond
	freshnessBeaten = 1200 * time.Millisecond
	timesBeaten     = 3000.0
	erpBeaten       = 0.9
	callsLeeway     = 0.05 // what rounding hides
	backWithin      = 5 * time.Second
	bronzeWithin    = 0.5 // reads/s
	goldLimit       = 1.2
)

// table builds rows.
type table struct {
	scenario string
	rows     []Row
}

func (t *table) add(measure, asIs, toBe, wanted string, holds bool) {
	t.rows = append(t.rows, Row{Scenario: t.scenario, Measure: measure, AsIs: asIs, ToBe: toBe, Wanted: wanted, Broken: wanted != "" && !holds})
}

// addLatency adds a row of how long something took, which other work of the machine makes longer.
func (t *table) addLatency(measure, asIs, toBe, wanted string, holds bool) {
	t.add(measure, asIs, toBe, wanted, holds)
	t.rows[len(t.rows)-1].latency = true
}

// none is what stands for a side that was not played or has no such thing.
const none = "–"

func (r *Result) take(scenario int, side string) *Take {
	i := slices.IndexFunc(r.Takes, func(t *Take) bool { return t.Scenario == Names[scenario] && t.Side == side })
	if i < 0 {
		return nil
	}
	return r.Takes[i]
}

// seen is a phase of both sides; a side without it is nil.
type seen struct {
	asIs, toBe         *Take
	asIsSpan, toBeSpan *Span
}

func (r *Result) seen(scenario int, phase string) seen {
	s := seen{asIs: r.take(scenario, AsIs), toBe: r.take(scenario, ToBe)}
	if s.asIs != nil {
		s.asIsSpan = s.asIs.Span(phase)
	}
	if s.toBe != nil {
		s.toBeSpan = s.toBe.Span(phase)
	}
	return s
}

// both gives a text of each side.
func (s seen) both(tell func(*Take, *Span) string) (asIs, toBe string) {
	asIs, toBe = none, none
	if s.asIsSpan != nil {
		asIs = tell(s.asIs, s.asIsSpan)
	}
	if s.toBeSpan != nil {
		toBe = tell(s.toBe, s.toBeSpan)
	}
	return asIs, toBe
}

// p95s of stock and prices.
func p95s(t *Take, s *Span) (stock, price time.Duration) {
	return t.Sum(stockStream, s).P95, t.Sum(priceStream, s).P95
}

func tellP95s(t *Take, s *Span) string {
	stock, price := p95s(t, s)
	return ms(stock) + ", " + ms(price)
}

func tellErrors(t *Take, s *Span) string { return percent(share(t, "", s)) }

func share(t *Take, stream string, s *Span) float64 {
	sum := t.Sum(stream, s)
	return sum.Share(sum.Errors())
}

func worst(t *Take, s *Span) time.Duration {
	stock, price := p95s(t, s)
	return max(stock, price)
}

// Rows compare what was measured with what is wanted. What was not measured has no row.
func (r *Result) Rows() []Row {
	rows := slices.Concat(r.peakRows(), r.freshRows(), r.slowRows(), r.downRows(), r.quotaRows())
	if r.Warning() == "" {
		return rows
	}
	for i := range rows {
		if row := &rows[i]; row.latency && row.Wanted != "" {
			row.Broken, row.NotJudged = false, true
		}
	}
	return rows
}

func (r *Result) peakRows() []Row {
	t := &table{scenario: Names[Peak]}
	base, peak, storm := r.seen(Peak, basePhase), r.seen(Peak, peakPhase), r.seen(Peak, stormPhase)
	if base.toBeSpan != nil {
		asIs, toBe := base.both(tellP95s)
		t.addLatency("p95 stock, price at base", asIs, toBe, "≤ "+ms(baseBeaten), worst(base.toBe, base.toBeSpan) <= baseBeaten)
	}
	if peak.toBeSpan != nil {
		asIs, toBe := peak.both(tellP95s)
		p95, wrong := worst(peak.toBe, peak.toBeSpan), share(peak.toBe, "", peak.toBeSpan)
		t.addLatency("p95 stock, price at 10x", asIs, toBe, "< "+ms(peakLimit), p95 < peakLimit)
		t.addLatency("the same, to be beaten", asIs, toBe, "≤ "+ms(peakBeaten), p95 <= peakBeaten)
		asIs, toBe = peak.both(tellErrors)
		t.add("errors at 10x", asIs, toBe, "< "+percent(errorLimit), wrong < errorLimit)
		if peak.asIsSpan != nil {
			times := float64(worst(peak.asIs, peak.asIsSpan)) / float64(max(p95, 1))
			t.addLatency("p95 AS-IS ÷ TO-BE at 10x", none, fmt.Sprintf("%.0f", times), fmt.Sprintf("≥ %.0f", timesBeaten), times >= timesBeaten)
		}
	}
	if base.toBeSpan != nil && peak.toBeSpan != nil {
		for _, system := range peak.toBe.systems() {
			asIs, toBe := peak.both(func(t *Take, s *Span) string { return rate(t.SteadyCalls(system, s)) })
			wanted, calls := "", peak.toBe.SteadyCalls(system, peak.toBeSpan)
			if system == "erp" && r.Options.Tryton == nil {
				wanted = "≤ " + rate(erpBeaten)
			}
			t.add(system+" calls/s at 10x", asIs, toBe, wanted, calls <= erpBeaten+callsLeeway)
		}
		ratio := callsRatio(base, peak)
		t.add("legacy calls at 10x ÷ base", asIsRatio(base, peak), fmt.Sprintf("%.2f", ratio), fmt.Sprintf("≤ %.2f", callsLimit), ratio <= callsLimit)
	}
	if storm.toBeSpan != nil {
		t.addLatency("p95 stock, price at "+stormPhase, none, tellP95s(storm.toBe, storm.toBeSpan), "≤ "+ms(stormBeaten), worst(storm.toBe, storm.toBeSpan) <= stormBeaten)
		t.add("errors at "+stormPhase, none, tellErrors(storm.toBe, storm.toBeSpan), "< "+percent(errorLimit), share(storm.toBe, "", storm.toBeSpan) < errorLimit)
	}
	return t.rows
}

func asIsRatio(base, peak seen) string {
	if base.asIsSpan == nil || peak.asIsSpan == nil {
		return none
	}
	return fmt.Sprintf("%.2f", peak.asIs.allCalls(peak.asIsSpan)/base.asIs.allCalls(base.asIsSpan))
}

// callsRatio is of Andes's calls to all legacy systems together.
func callsRatio(base, peak seen) float64 {
	return peak.toBe.allCalls(peak.toBeSpan) / base.toBe.allCalls(base.toBeSpan)
}

func (t *Take) systems() []string {
	var names []string
	for _, name := range []string{"erp", "wms"} {
		if t.Calls[name] != nil {
			names = append(names, name)
		}
	}
	return names
}

func (t *Take) allCalls(s *Span) float64 {
	sum := 0.0
	for _, system := range t.systems() {
		sum += t.SteadyCalls(system, s)
	}
	return sum
}

func (r *Result) freshRows() []Row {
	t := &table{scenario: Names[Peak]}
	f := &r.Freshness
	if len(f.Stock) == 0 || len(f.Prices) == 0 {
		return nil
	}
	stock, price := p95(f.Stock), p95(f.Prices)
	told := ms(stock) + ", " + ms(price)
	t.addLatency("freshness p95, stock and price", none, told, "≤ "+stockObjective.String()+", "+priceObjective.String(), stock <= stockObjective && price <= priceObjective)
	t.addLatency("the same, to be beaten", none, told, "≤ "+ms(freshnessBeaten), max(stock, price) <= freshnessBeaten)
	t.add("changes that were not shown", none, fmt.Sprint(f.Lost), "0", f.Lost == 0)
	return t.rows
}

func p95(values []time.Duration) time.Duration {
	return load.Quantile(slices.Sorted(slices.Values(values)), 0.95)
}

func (r *Result) slowRows() []Row {
	t := &table{scenario: Names[Slow]}
	before, slow := r.seen(Slow, beforePhase), r.seen(Slow, slowPhase)
	if slow.toBeSpan == nil {
		return nil
	}
	asIs, toBe := slow.both(tellP95s)
	t.addLatency("p95 stock, price with a slow ERP", asIs, toBe, "≤ "+ms(slowBeaten), worst(slow.toBe, slow.toBeSpan) <= slowBeaten)
	asIs, toBe = slow.both(func(t *Take, s *Span) string { return percent(share(t, priceStream, s)) })
	t.add("errors of prices with a slow ERP", asIs, toBe, "< "+percent(errorLimit), share(slow.toBe, "", slow.toBeSpan) < errorLimit)
	asIs, toBe = slow.both(func(t *Take, s *Span) string { return rate(t.CallsPerSecond("erp", s)) })
	was, is := before.toBe.CallsPerSecond("erp", before.toBeSpan), slow.toBe.CallsPerSecond("erp", slow.toBeSpan)
	t.add("erp calls/s with a slow ERP", asIs, toBe, "below "+rate(was)+", as before", is < was)
	return t.rows
}

func (r *Result) downRows() []Row {
	t := &table{scenario: Names[Down]}
	down := r.seen(Down, downPhase)
	if down.toBeSpan == nil {
		return nil
	}
	right := func(t *Take, s *Span) string {
		sum := t.Sum(priceStream, s)
		return percent(sum.Share(sum.Outcomes[load.Right]))
	}
	asIs, toBe := down.both(right)
	sum := down.toBe.Sum("", down.toBeSpan)
	t.add("right prices while ERP and WMS are down", asIs, toBe, "100%", sum.Outcomes[load.Right] == sum.Sent)
	stale := staleness(down.toBe, down.toBeSpan)
	threshold := r.Options.stale()
	t.add("stale from, after the outage began", none, told(stale.first), "≈ "+ms(threshold)+", the threshold",
		stale.first > threshold-staleLeeway && stale.first < threshold+staleLeeway && stale.gaps == 0)
	if after := r.seen(Down, afterPhase); after.toBeSpan != nil {
		t.add("not stale any more, after they were back", none, told(stale.back), "≤ "+ms(backWithin), stale.back <= backWithin && stale.ended)
	}
	return t.rows
}

// staleLeeway: a value was right at the last poll, not when the outage began, and that is known a little later.
const staleLeeway = erpPoll + 1500*time.Millisecond

// marks are when answers were marked as stale.
type marks struct {
	first time.Duration // from the begin of the outage
	gaps  int           // answers of the outage without the mark, after the first ones with it by more than the leeway
	back  time.Duration // the last one, from the end of the outage
	ended bool          // answers without the mark came after it
}

func staleness(t *Take, outage *Span) marks {
	m := marks{first: -1}
	for _, shot := range t.Recording.Shots("", outage.From, t.Spans[len(t.Spans)-1].To) {
		answered := shot.Due + shot.Took
		switch {
		case shot.Outcome.Err():
		case shot.Stale:
			if m.first < 0 {
				m.first = answered - outage.From
			}
			m.back, m.ended = max(0, answered-outage.To), false
		case m.first >= 0 && shot.Due > outage.From+m.first+staleLeeway && answered < outage.To:
			m.gaps++
		default:
			m.ended = true
		}
	}
	return m
}

func told(d time.Duration) string {
	if d < 0 {
		return "never"
	}
	return ms(d)
}

func (r *Result) quotaRows() []Row {
	t := &table{scenario: Names[Quota]}
	take := r.take(Quota, ToBe)
	if take == nil || take.Span(beside(quotaTurns-1)) == nil {
		return nil
	}
	q := r.quota(take)
	t.add("accepted of a bronze partner at 5x its quota", none, rate(q.accepted)+"/s", fmt.Sprintf("%d ± %.1f/s", bronzeQuota, bronzeWithin),
		q.accepted >= bronzeQuota-bronzeWithin && q.accepted <= bronzeQuota+bronzeWithin)
	t.add("refused of it (429)", none, percent(q.refused), "", true)
	t.add("errors of a gold partner beside it", none, percent(q.goldErrors), "0%", q.goldErrors == 0)
	t.addLatency("p95 of the gold partner, beside it ÷ alone", none, fmt.Sprintf("%.2f (%s ÷ %s)", q.ratio(), ms(q.goldBeside), ms(q.goldAlone)),
		fmt.Sprintf("≤ %.1f", goldLimit), q.ratio() <= goldLimit)
	return t.rows
}

// quotas of all turns together.
type quotas struct {
	accepted, refused, goldErrors float64
	goldAlone, goldBeside         time.Duration
}

func (q quotas) ratio() float64 { return float64(q.goldBeside) / float64(max(q.goldAlone, 1)) }

func (r *Result) quota(take *Take) quotas {
	var goldAlone, goldBeside, flood []load.Shot
	intervals, steady := 0, time.Duration(0)
	for turn := range quotaTurns {
		by, with := take.Span(alone(turn)), take.Span(beside(turn))
		goldAlone = append(goldAlone, take.Recording.Shots(goldStream, by.Counts, by.To)...)
		goldBeside = append(goldBeside, take.Recording.Shots(goldStream, with.Counts, with.To)...)
		bronze := take.Recording.Shots(bronzeStream, with.Counts, with.To)
		flood = append(flood, bronze...)
		// From the first accepted one to the last, so that it does not matter where the turn happens to end.
		accepted := slices.DeleteFunc(bronze, func(s load.Shot) bool { return s.Outcome != load.Right })
		if len(accepted) > 1 {
			intervals += len(accepted) - 1
			steady += accepted[len(accepted)-1].Due - accepted[0].Due
		}
	}
	before, with, all := load.Summarise(goldAlone), load.Summarise(goldBeside), load.Summarise(flood)
	q := quotas{goldAlone: before.P95, goldBeside: with.P95, refused: all.Share(all.Outcomes[load.Refused])}
	if steady > 0 {
		q.accepted = float64(intervals) / steady.Seconds()
	}
	gold := load.Summarise(slices.Concat(goldAlone, goldBeside))
	q.goldErrors = gold.Share(gold.Errors() + gold.Outcomes[load.Refused])
	return q
}

func ms(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// percent with two decimals at most.
func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*100*100)/100, 'f', -1, 64) + "%"
}

func rate(perSecond float64) string { return fmt.Sprintf("%.1f", perSecond) }

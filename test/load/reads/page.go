package reads

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"andes/test/load"
	"andes/test/load/report"
)

// Page is the report for people.
func (r *Result) Page() report.Page {
	p := report.Page{
		Title: "Reads as they are, and with Andes",
		Lead: []string{
			fmt.Sprintf("The same open-loop load on both sides: channels that ask the ERP and the WMS themselves (AS-IS), and channels that ask Andes (TO-BE). "+
				"Latency counts from when a read was due, and ends when it was answered or the channel gave up after %s.", Patience),
			fmt.Sprintf("%s, %d cores for everything: load, legacy systems, Andes, PostgreSQL, Redis and Kafka. %s",
				r.Began.UTC().Format("2006-01-02 15:04 MST"), runtime.NumCPU(), r.behind()),
		},
	}
	if warning := r.Warning(); warning != "" {
		p.Lead = append(p.Lead, warning)
	}
	if r.Interrupted {
		p.Lead = append(p.Lead, "The run was interrupted: what is here is what was measured until then.")
	}
	for _, t := range r.Takes {
		if beyond := t.Recording.Beyond(); beyond > 0 {
			p.Lead = append(p.Lead, fmt.Sprintf("%d reads of %s, %s are not counted: the recording was full.", beyond, t.Scenario, t.Side))
		}
	}
	p.Sections = append(p.Sections, r.comparison())
	for _, n := range All {
		if section, any := r.section(n); any {
			p.Sections = append(p.Sections, section)
		}
	}
	p.Sections = append(p.Sections, r.method())
	return p
}

// Warning tells that the machine had other work when the run began; "" if it had not.
func (r *Result) Warning() string {
	if r.Busy < float64(runtime.NumCPU()) {
		return ""
	}
	return fmt.Sprintf("The machine was busy already when the run began (%.0f processes wanted one of its %d cores), so latencies say little.", r.Busy, runtime.NumCPU())
}

func (r *Result) behind() string {
	if r.Options.Tryton != nil {
		return "ERP and WMS are a real Tryton."
	}
	return fmt.Sprintf("ERP and WMS are simulators: the ERP's ten workers take 150 ms for a call, the WMS does %.0f calls/s.", capacity)
}

func (r *Result) comparison() report.Section {
	table := report.Table{Head: []string{"scenario", "measure", "AS-IS", "TO-BE", "wanted"}}
	for _, row := range r.Rows() {
		mark := report.Good
		if row.Broken {
			mark = report.Bad
		}
		wanted := row.Wanted
		if row.NotJudged {
			wanted += " (not judged)"
		}
		if row.Wanted == "" || row.NotJudged {
			mark = report.Neutral
		}
		table.Rows = append(table.Rows, report.Row{Cells: []string{row.Scenario, row.Measure, row.AsIs, row.ToBe, wanted}, Mark: mark})
	}
	return report.Section{Title: "Compared", Tables: []report.Table{table}}
}

// texts say what happens in a scenario.
var texts = map[int]string{
	Peak: fmt.Sprintf("%d reads/s of stock and as many of prices, then ten times as many. Andes is also asked %d times a second for %d SKUs at once, "+
		"and how fast a change in ERP and WMS shows in its answers.", baseReads, 2*stormReads, stormSKUs),
	Slow:  "The ERP takes 3 s for a call, so that its ten workers do 3.3 calls a second.",
	Down:  "ERP and WMS cut every connection, and come back.",
	Quota: fmt.Sprintf("A bronze partner asks %d times a second, five times its quota, beside a gold one that asks %d times; in turns with the gold one alone.", bronzeAsks, peakReads),
}

func (r *Result) section(scenario int) (section report.Section, any bool) {
	asIs, toBe := r.take(scenario, AsIs), r.take(scenario, ToBe)
	var takes []*Take
	for _, t := range []*Take{asIs, toBe} {
		if t != nil && len(t.Spans) > 0 {
			takes = append(takes, t)
		}
	}
	if len(takes) == 0 {
		return section, false
	}
	section = report.Section{Title: "Scenario " + Names[scenario], Text: []string{texts[scenario]}, Tables: []report.Table{phaseTable(takes)}}
	section.Charts = append(section.Charts, overTime("p95 of each second", "Logarithmic. Reads that failed count with the time that the channel was kept.",
		report.Axis{Name: "ms", Log: true, Least: 0.1}, takes, func(s load.Summary) float64 { return millis(s.P95) }))
	if scenario == Quota {
		return r.quotaCharts(section, toBe), true
	}
	if scenario == Peak {
		section.Charts = append(section.Charts, percentiles(takes, peakPhase))
	}
	section.Charts = append(section.Charts,
		overTime("Reads in error", "", report.Axis{Name: "% of a second's reads", Most: 100}, takes, func(s load.Summary) float64 { return 100 * s.Share(s.Errors()) }),
		callsOverTime(takes))
	if scenario != Peak && toBe != nil {
		section.Charts = append(section.Charts, overTime("Answers that say that they are stale", fmt.Sprintf("Of Andes. The threshold is set to %s.", r.Options.stale()),
			report.Axis{Name: "% of a second's reads", Most: 100}, []*Take{toBe}, func(s load.Summary) float64 { return 100 * s.Share(s.Stale) }))
	}
	if scenario == Peak && len(r.Freshness.Stock) > 0 {
		section.Charts = append(section.Charts, r.freshnessChart())
	}
	return section, true
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func phaseTable(takes []*Take) report.Table {
	table := report.Table{Head: []string{"side", "phase", "stream", "reads", "p50", "p95", "p99", "longest", "errors", "stale", "generator late p99", "cores: generator, Andes"}}
	for _, t := range takes {
		for i := range t.Spans {
			span := &t.Spans[i]
			for _, stream := range streams {
				sum := t.Sum(stream, span)
				if sum.Sent == 0 {
					continue
				}
				errors := percent(sum.Share(sum.Errors()))
				if refused := sum.Outcomes[load.Refused]; refused > 0 {
					errors += ", " + percent(sum.Share(refused)) + " refused"
				}
				table.Rows = append(table.Rows, report.Row{Cells: []string{
					t.Side, span.Name, stream, fmt.Sprint(sum.Sent), ms(sum.P50), ms(sum.P95), ms(sum.P99), ms(sum.Max), errors, percent(sum.Share(sum.Stale)),
					ms(sum.LateP99), fmt.Sprintf("%.2f, %.2f", span.Generator, span.Platform),
				}})
			}
		}
	}
	return table
}

// look of a series: the side gives the colour.
func look(side, stream string) (report.Tone, bool) {
	second := stream == priceStream || stream == bronzeStream || stream == "wms"
	switch {
	case side == AsIs && second:
		return report.Warm2, true
	case side == AsIs:
		return report.Warm, false
	case second:
		return report.Cool2, true
	}
	return report.Cool, false
}

// overTime draws a value of each second, for each stream of each side.
func overTime(title, note string, y report.Axis, takes []*Take, value func(load.Summary) float64) report.Chart {
	c := report.Chart{Title: title, Note: note, X: report.Axis{Name: "seconds of the scenario"}, Y: y, Bands: bands(takes)}
	for _, t := range takes {
		for _, stream := range streams {
			line := report.Line{Name: t.Side + " " + stream}
			line.Tone, line.Dashed = look(t.Side, stream)
			for second, sum := range t.seconds(stream) {
				y := value(sum)
				if sum.Sent == 0 {
					y = math.NaN() // a gap
				}
				line.Points = append(line.Points, report.Point{X: float64(second) + 0.5, Y: y})
			}
			if len(line.Points) > 0 {
				c.Lines = append(c.Lines, line)
			}
		}
	}
	return c
}

// bands are the phases of the side that has more of them.
func bands(takes []*Take) []report.Band {
	longest := slices.MaxFunc(takes, func(a, b *Take) int { return len(a.Spans) - len(b.Spans) })
	var found []report.Band
	for _, span := range longest.Spans {
		found = append(found, report.Band{From: span.From.Seconds(), To: span.To.Seconds(), Text: span.Name, Shaded: span.Fault})
	}
	return found
}

// seconds sums each second of a take up.
func (t *Take) seconds(stream string) []load.Summary {
	var sums []load.Summary
	shots := t.Recording.Shots(stream, 0, time.Hour)
	for from := time.Duration(0); len(shots) > 0; from += time.Second {
		end := slices.IndexFunc(shots, func(s load.Shot) bool { return s.Due >= from+time.Second })
		if end < 0 {
			end = len(shots)
		}
		sums = append(sums, load.Summarise(shots[:end]))
		shots = shots[end:]
	}
	return sums
}

func callsOverTime(takes []*Take) report.Chart {
	c := report.Chart{
		Title: "Calls of the legacy systems", Note: "Logarithmic; no call at all lies on the axis.", Bands: bands(takes),
		X: report.Axis{Name: "seconds of the scenario"}, Y: report.Axis{Name: "calls/s", Log: true, Least: 0.5, Most: 200},
	}
	for _, t := range takes {
		for _, system := range t.systems() {
			line := report.Line{Name: t.Side + " " + system}
			line.Tone, line.Dashed = look(t.Side, system)
			for second, n := range t.callsBySecond(system) {
				line.Points = append(line.Points, report.Point{X: float64(second) + 0.5, Y: float64(n)})
			}
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}

func (t *Take) callsBySecond(system string) []int {
	counts := make([]int, 1+int(t.Spans[len(t.Spans)-1].To.Seconds()))
	for _, call := range t.Calls[system] {
		if second := int(call.At.Seconds()); second >= 0 && second < len(counts) {
			counts[second]++
		}
	}
	return counts
}

// percentileTicks are spread as the number of nines grows.
var percentileTicks = []float64{0, 0.5, 0.9, 0.95, 0.99, 0.999}

func nines(share float64) float64 { return -math.Log10(1 - share) }

// percentiles draws how long the share of reads took that a percentile names.
func percentiles(takes []*Take, phase string) report.Chart {
	c := report.Chart{
		Title: "Percentiles at " + phase, Note: "A share of reads, on the left, took no longer than the line says. Both axes are logarithmic.",
		X: report.Axis{Name: "percentile"}, Y: report.Axis{Name: "ms", Log: true, Least: 0.1},
	}
	for _, share := range percentileTicks {
		c.X.Ticks = append(c.X.Ticks, report.Tick{At: nines(share), Text: fmt.Sprintf("%g", 100*share)})
	}
	for _, t := range takes {
		span := t.Span(phase)
		if span == nil {
			continue
		}
		for _, stream := range []string{stockStream, priceStream} {
			line := report.Line{Name: t.Side + " " + stream, Points: curve(t.Recording.Shots(stream, span.Counts, span.To))}
			line.Tone, line.Dashed = look(t.Side, stream)
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}

func curve(shots []load.Shot) []report.Point {
	const steps = 200
	took := make([]time.Duration, len(shots))
	for i, shot := range shots {
		took[i] = shot.Took
	}
	slices.Sort(took)
	most := nines(percentileTicks[len(percentileTicks)-1])
	var points []report.Point
	for i := range steps + 1 {
		x := most * float64(i) / steps
		if len(took) > 0 {
			points = append(points, report.Point{X: x, Y: millis(load.Quantile(took, 1-math.Pow(10, -x)))})
		}
	}
	return points
}

func (r *Result) freshnessChart() report.Chart {
	c := report.Chart{
		Title: "From a change in ERP or WMS to Andes's answer", Note: "They tell Andes by themselves; polls find what was not told.",
		X: report.Axis{Name: "ms"}, Y: report.Axis{Name: "% of changes", Most: 100},
	}
	for _, series := range []struct {
		name   string
		values []time.Duration
	}{{stockStream, r.Freshness.Stock}, {priceStream, r.Freshness.Prices}} {
		line := report.Line{Name: series.name, Points: []report.Point{{}}}
		line.Tone, line.Dashed = look(ToBe, series.name)
		sorted := slices.Sorted(slices.Values(series.values))
		for i, value := range sorted {
			line.Points = append(line.Points, report.Point{X: millis(value), Y: 100 * float64(i+1) / float64(len(sorted))})
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

func (r *Result) quotaCharts(section report.Section, t *Take) report.Section {
	count := func(title string, of load.Outcome) report.Chart {
		return overTime(title, "", report.Axis{Name: "reads of a second"}, []*Take{t}, func(s load.Summary) float64 { return float64(s.Outcomes[of]) })
	}
	section.Charts = append(section.Charts, count("Accepted", load.Right), count("Refused with 429", load.Refused))
	return section
}

func (r *Result) method() report.Section {
	s := report.Section{Title: "How it was measured", Text: []string{
		"Each side plays alone, behind legacy systems of its own. The generator sends a read when it is due, whatever became of those before it (up to " +
			fmt.Sprint(load.MaxWorkers) + " of a stream may be under way); how late it was itself is in the tables, and part of the latency. " +
			"Its cores contain the simulators.",
		"Legacy calls are counted where they arrive. Rates of polls are taken from the first to the last call of each route in a phase.",
		"The first seconds of a phase do not count in the tables: at 10x those in which the queue before the ERP grows.",
	}}
	table := report.Table{Head: []string{"setting of Andes that differs from the default"}}
	for _, setting := range r.Settings {
		table.Rows = append(table.Rows, report.Row{Cells: []string{setting}})
	}
	s.Tables = []report.Table{table}
	return s
}

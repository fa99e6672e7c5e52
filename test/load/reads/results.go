package reads

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"andes/test/load"
	"andes/test/load/report"
)

// Files of a run, in its folder. Their sizes depend on how long the run was, not on how many reads there were.
const (
	ReportFile    = "report.html"
	secondsFile   = "seconds.jsonl"
	histogramFile = "histogram.jsonl"
	resultFile    = "result.json"
)

// secondLine is a second of a stream.
type secondLine struct {
	Scenario string       `json:"scenario"`
	Side     string       `json:"side"`
	Stream   string       `json:"stream"`
	Second   int          `json:"second"` // of the take
	Reads    load.Summary `json:"reads"`
}

// callsLine is a second of a legacy system.
type callsLine struct {
	Scenario string `json:"scenario"`
	Side     string `json:"side"`
	System   string `json:"system"`
	Second   int    `json:"second"`
	Calls    int    `json:"calls"`
}

// phaseLine is a stream in a phase, with what counts of it.
type phaseLine struct {
	Scenario  string        `json:"scenario"`
	Side      string        `json:"side"`
	Phase     Span          `json:"phase"`
	Stream    string        `json:"stream"`
	Reads     load.Summary  `json:"reads"`
	Histogram []load.Bucket `json:"histogram"`
}

// Write writes the report and the raw results.
func (r *Result) Write() error {
	write := func(name string, content func(io.Writer) error) error {
		file, err := os.Create(filepath.Join(r.Options.Folder, name))
		if err != nil {
			return err
		}
		buffered := bufio.NewWriter(file)
		if err := content(buffered); err != nil {
			_ = file.Close()
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := buffered.Flush(); err != nil {
			_ = file.Close()
			return err
		}
		return file.Close()
	}
	for _, file := range []struct {
		name    string
		content func(io.Writer) error
	}{
		{ReportFile, func(w io.Writer) error { return report.Write(w, r.Page()) }},
		{secondsFile, r.writeSeconds},
		{histogramFile, r.writeHistograms},
		{resultFile, r.writeResult},
	} {
		if err := write(file.name, file.content); err != nil {
			return err
		}
	}
	return nil
}

var streams = []string{stockStream, priceStream, goldStream, bronzeStream}

func (r *Result) writeSeconds(w io.Writer) error {
	lines := json.NewEncoder(w)
	for _, t := range r.Takes {
		for _, stream := range streams {
			for second, sum := range t.seconds(stream) {
				if err := lines.Encode(secondLine{t.Scenario, t.Side, stream, second, sum}); err != nil {
					return err
				}
			}
		}
		for _, system := range t.systems() {
			for second, calls := range t.callsBySecond(system) {
				if err := lines.Encode(callsLine{t.Scenario, t.Side, system, second, calls}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *Result) writeHistograms(w io.Writer) error {
	lines := json.NewEncoder(w)
	for _, t := range r.Takes {
		for i := range t.Spans {
			span := &t.Spans[i]
			for _, stream := range streams {
				shots := t.Recording.Shots(stream, span.Counts, span.To)
				if len(shots) == 0 {
					continue
				}
				if err := lines.Encode(phaseLine{t.Scenario, t.Side, *span, stream, load.Summarise(shots), load.Histogram(shots)}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *Result) writeResult(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Began       time.Time       `json:"began"`
		Interrupted bool            `json:"interrupted"`
		Settings    []string        `json:"settings"`
		Rows        []Row           `json:"rows"`
		Figures     []Figure        `json:"figures"`
		Stock       []time.Duration `json:"freshnessStockNs"`
		Prices      []time.Duration `json:"freshnessPricesNs"`
	}{r.Began, r.Interrupted, r.Settings, r.Rows(), r.Figures(), r.Freshness.Stock, r.Freshness.Prices})
}

// Figure is a RESULT line.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Note  string  `json:"note,omitempty"`
}

// Figures are the numbers for scripts. What was not measured is not there.
func (r *Result) Figures() []Figure {
	var all []Figure
	base, peak, storm := r.seen(Peak, basePhase), r.seen(Peak, peakPhase), r.seen(Peak, stormPhase)
	if peak.toBeSpan != nil {
		p95 := worst(peak.toBe, peak.toBeSpan)
		all = append(all, Figure{"peak_p95_ms", millis(p95), "ms", generatorNote(peak.toBe, peak.toBeSpan)})
		if peak.asIsSpan != nil {
			all = append(all, Figure{"asis_vs_tobe", float64(worst(peak.asIs, peak.asIsSpan)) / float64(max(p95, 1)), "x", "p95 at 10x"})
		}
		if base.toBeSpan != nil {
			all = append(all, Figure{"legacy_calls_ratio", callsRatio(base, peak), "x", "ERP and WMS, 10x ÷ base"})
		}
	}
	if storm.toBeSpan != nil {
		all = append(all, Figure{"peak_p95_2000_ms", millis(worst(storm.toBe, storm.toBeSpan)), "ms", generatorNote(storm.toBe, storm.toBeSpan)})
	}
	if len(r.Freshness.Stock) > 0 && len(r.Freshness.Prices) > 0 {
		note := fmt.Sprintf("told by WMS and ERP, signed; %d changes, looked for every %s", len(r.Freshness.Stock), lookPause)
		all = append(all, Figure{"freshness_stock_p95_ms", millis(p95(r.Freshness.Stock)), "ms", note}, Figure{"freshness_price_p95_ms", millis(p95(r.Freshness.Prices)), "ms", note})
	}
	if take := r.take(Quota, ToBe); take != nil && take.Span(beside(quotaTurns-1)) != nil {
		q := r.quota(take)
		all = append(all, Figure{"gold_p95_ratio", q.ratio(), "x", "with a bronze partner at 5x ÷ alone, one instance"}, Figure{"bronze_accepted_per_s", q.accepted, "reads/s", "at 5x its quota of 20"})
	}
	return all
}

func generatorNote(t *Take, span *Span) string {
	sum := t.Sum("", span)
	return fmt.Sprintf("one run; generator late by %s, p99 %s, %.2f cores; Andes %.2f cores", ms(sum.LateP50), ms(sum.LateP99), span.Generator, span.Platform)
}

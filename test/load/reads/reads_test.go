package reads

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"andes/test/load"
)

// taken is a take of made-up shots.
func taken(scenario int, side string, spans []Span, shots map[string][]load.Shot) *Take {
	recording := load.NewRecording(time.Time{})
	for stream, list := range shots {
		for _, shot := range list {
			recording.Add(stream, shot)
		}
	}
	return &Take{Scenario: Names[scenario], Side: side, Spans: spans, Recording: recording, Calls: map[string][]Call{}}
}

// every makes a shot each step of a span.
func every(step time.Duration, from, to time.Duration, shot func(due time.Duration) load.Shot) (shots []load.Shot) {
	for due := from; due < to; due += step {
		s := shot(due)
		s.Due = due
		shots = append(shots, s)
	}
	return shots
}

const second = time.Second

func TestWhenAnswersAreStale(t *testing.T) {
	spans := []Span{{Name: beforePhase, To: 5 * second}, {Name: downPhase, From: 5 * second, To: 35 * second, Fault: true}, {Name: afterPhase, From: 35 * second, To: 45 * second}}
	for name, c := range map[string]struct {
		stale func(due time.Duration) bool
		want  marks
	}{
		"from the threshold until just after the return": {func(d time.Duration) bool { return d >= 15*second && d < 37*second }, marks{first: 10 * second, back: 1900 * time.Millisecond, ended: true}},
		"never":        {func(time.Duration) bool { return false }, marks{first: -1, ended: true}},
		"and for ever": {func(d time.Duration) bool { return d >= 15*second }, marks{first: 10 * second, back: 9900 * time.Millisecond}},
		"with a gap": {func(d time.Duration) bool {
			return d >= 15*second && d < 37*second && (d < 25*second || d >= 26*second)
		},
			marks{first: 10 * second, gaps: 10, back: 1900 * time.Millisecond, ended: true}},
	} {
		t.Run(name, func(t *testing.T) {
			take := taken(Down, ToBe, spans, map[string][]load.Shot{stockStream: every(100*time.Millisecond, 0, 45*second, func(due time.Duration) load.Shot {
				return load.Shot{Verdict: load.Verdict{Stale: c.stale(due)}}
			})})
			if got := staleness(take, &spans[1]); got != c.want {
				t.Errorf("%+v, not %+v", got, c.want)
			}
		})
	}
}

func TestTheRateOfPollsDoesNotDependOnWhereAPhaseCutsThem(t *testing.T) {
	for offset := range 20 {
		take := &Take{Calls: map[string][]Call{}}
		for n := range 12 {
			at := time.Duration(offset)*100*time.Millisecond + time.Duration(n)*2*second
			take.Calls["erp"] = append(take.Calls["erp"], Call{At: at, Route: "prices"}, Call{At: at + 300*time.Millisecond, Route: "products"})
		}
		if got := take.SteadyCalls("erp", &Span{To: 20 * second}); got < 0.999 || got > 1.001 {
			t.Errorf("offset %d: %g", offset, got)
		}
	}
	take := &Take{Calls: map[string][]Call{"erp": {{At: second}, {At: second + 1}}}}
	if got := take.SteadyCalls("erp", &Span{To: 20 * second}); got != 0.1 {
		t.Errorf("of two calls: %g", got)
	}
}

// measuredPeak is scenario 1 of a side whose reads all take as long.
func measuredPeak(side string, took time.Duration, outcome load.Outcome, calls time.Duration) *Take {
	spans := []Span{{Name: basePhase, To: 20 * second}, {Name: peakPhase, From: 20 * second, To: 40 * second}}
	shots := every(50*time.Millisecond, 0, 40*second, func(time.Duration) load.Shot {
		return load.Shot{Took: took, Verdict: load.Verdict{Outcome: outcome}}
	})
	take := taken(Peak, side, spans, map[string][]load.Shot{stockStream: shots, priceStream: shots})
	for at := time.Duration(0); at < 40*second; at += calls {
		take.Calls["erp"] = append(take.Calls["erp"], Call{At: at, Route: "prices"})
	}
	return take
}

func TestWhatIsNotAsWantedIsBroken(t *testing.T) {
	options := Options{Down: DefaultDown}
	good := &Result{Options: options, Takes: []*Take{
		measuredPeak(AsIs, Patience, load.TimedOut, 5*time.Millisecond), measuredPeak(ToBe, time.Millisecond, load.Right, 2*second),
	}}
	if broken := brokenOf(good); len(broken) > 0 {
		t.Errorf("broken: %v", broken)
	}
	figures := map[string]float64{}
	for _, figure := range good.Figures() {
		figures[figure.Name] = figure.Value
	}
	if figures["peak_p95_ms"] != 1 || figures["asis_vs_tobe"] != 5000 || figures["legacy_calls_ratio"] != 1 {
		t.Errorf("%v", figures)
	}
	for name, c := range map[string]struct {
		take *Take
		want []string
	}{
		"slow":   {measuredPeak(ToBe, 400*time.Millisecond, load.Right, 2*second), []string{"p95 stock, price at base", "p95 stock, price at 10x", "the same, to be beaten", "p95 AS-IS ÷ TO-BE at 10x"}},
		"failed": {measuredPeak(ToBe, time.Millisecond, load.Failed, 2*second), []string{"errors at 10x"}},
		"wrong":  {measuredPeak(ToBe, time.Millisecond, load.Wrong, 2*second), []string{"errors at 10x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := brokenOf(&Result{Options: options, Takes: []*Take{good.Takes[0], c.take}}); !slices.Equal(got, c.want) {
				t.Errorf("broken: %v", got)
			}
		})
	}
	more := measuredPeak(ToBe, time.Millisecond, load.Right, 2*second)
	more.Calls["erp"] = slices.DeleteFunc(more.Calls["erp"], func(c Call) bool { return c.At < 20*second && int(c.At.Seconds())%4 == 2 })
	if got := brokenOf(&Result{Options: options, Takes: []*Take{good.Takes[0], more}}); !slices.Equal(got, []string{"legacy calls at 10x ÷ base"}) {
		t.Errorf("broken: %v", got)
	}
}

func TestLatenciesOfABusyMachineAreNotJudgedAndTheRestIs(t *testing.T) {
	r := &Result{Options: Options{Down: DefaultDown}, Busy: 1e6, Takes: []*Take{
		measuredPeak(AsIs, Patience, load.TimedOut, 5*time.Millisecond), measuredPeak(ToBe, 400*time.Millisecond, load.Failed, 2*second),
	}}
	if broken := brokenOf(r); !slices.Equal(broken, []string{"errors at 10x"}) {
		t.Errorf("broken: %v", broken)
	}
	var spared []string
	for _, row := range r.Rows() {
		if row.NotJudged {
			spared = append(spared, row.Measure)
		}
	}
	if want := []string{"p95 stock, price at base", "p95 stock, price at 10x", "the same, to be beaten", "p95 AS-IS ÷ TO-BE at 10x"}; !slices.Equal(spared, want) {
		t.Errorf("not judged: %v, want %v", spared, want)
	}
	r.Busy = 0
	if broken := brokenOf(r); len(broken) < 2 {
		t.Errorf("broken on a machine that is not busy: %v", broken)
	}
}

func brokenOf(r *Result) (measures []string) {
	for _, row := range r.Rows() {
		if row.Broken {
			measures = append(measures, row.Measure)
		}
	}
	return measures
}

func TestWhatAnInterruptedRunMeasuredIsWritten(t *testing.T) {
	take := measuredPeak(ToBe, time.Millisecond, load.Right, 2*second)
	take.Lost = true
	r := &Result{Options: Options{Down: DefaultDown, Folder: t.TempDir()}, Takes: []*Take{take}, Interrupted: true}
	if err := r.Write(); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(r.Options.Folder, ReportFile))
	if err != nil || !strings.Contains(string(page), "interrupted") || !strings.Contains(string(page), basePhase) {
		t.Errorf("%v: %.300s", err, page)
	}
	for _, name := range []string{secondsFile, histogramFile} {
		text, err := os.ReadFile(filepath.Join(r.Options.Folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !json.Valid([]byte(line)) {
				t.Fatalf("%s: %s", name, line)
			}
		}
	}
	for _, row := range r.Rows() {
		if strings.Contains(row.Measure, "10x") {
			t.Errorf("a phase that was not played to its end has the row %q", row.Measure)
		}
	}
}

func TestARightAnswerIsTheOneOfTheCatalogue(t *testing.T) {
	c := newCatalogue([]item{{"A", 5, "2.50"}, {"B", 0, "1.00"}})
	direct := asIsReader(c, &simulators{entries: map[string]*door{"erp": {}, "wms": {}}})
	partner := toBeReader(c, "http://andes", "token")
	for name, got := range map[string]struct {
		verdict load.Verdict
		want    load.Verdict
	}{
		"a level":                {direct.stock(1).Judge(200, []byte(`{"sku":"A","onHand":5}`)), load.Verdict{Outcome: load.Right}},
		"another level":          {direct.stock(1).Judge(200, []byte(`{"sku":"A","onHand":4}`)), load.Verdict{Outcome: load.Wrong}},
		"a level of nothing":     {direct.stock(1).Judge(200, []byte(`{}`)), load.Verdict{Outcome: load.Wrong}},
		"a price":                {direct.price(1).Judge(200, []byte(`{"sku":"A","amount":"2.5000"}`)), load.Verdict{Outcome: load.Right}},
		"no JSON":                {direct.price(1).Judge(200, []byte(`<html>`)), load.Verdict{Outcome: load.Wrong}},
		"Andes's levels":         {partner.stock(2).Judge(200, []byte(`{"items":[{"sku":"A","available":5,"stale":false},{"sku":"B","available":0,"stale":true}]}`)), load.Verdict{Outcome: load.Right, Stale: true}},
		"one level is missing":   {partner.stock(2).Judge(200, []byte(`{"items":[{"sku":"A","available":5}],"notFound":["B"]}`)), load.Verdict{Outcome: load.Wrong}},
		"Andes's price":          {partner.price(1).Judge(200, []byte(`{"items":[{"sku":"A","price":{"amount":"2.50","currency":"GBP"},"stale":false}]}`)), load.Verdict{Outcome: load.Right}},
		"another price of Andes": {partner.price(1).Judge(200, []byte(`{"items":[{"sku":"A","price":{"amount":"2.51","currency":"GBP"},"stale":false}]}`)), load.Verdict{Outcome: load.Wrong}},
	} {
		if got.verdict != got.want {
			t.Errorf("%s: %+v", name, got.verdict)
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "andes")
	if err := os.WriteFile(binary, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	good := Options{Andes: binary, Down: DefaultDown, Scenarios: All}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(o *Options){
		"an unknown scenario":          func(o *Options) { o.Scenarios = []int{1, 4} },
		"a short outage":               func(o *Options) { o.Down = second },
		"no binary":                    func(o *Options) { o.Andes += "-not" },
		"a Tryton that is broken":      func(o *Options) { o.Tryton, o.Scenarios = &Tryton{}, []int{Peak, Down} },
		"an unknown scenario and more": func(o *Options) { o.Scenarios, o.Down = []int{0}, 0 },
	} {
		o := good
		if change(&o); o.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// The AS-IS side for real: simulators behind their doors, read without a break while they go down.
func TestASideIsPlayedThroughItsPhases(t *testing.T) {
	c := madeUp(20)
	systems, err := openSimulators(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer systems.close()
	s := &side{name: AsIs, behind: systems, reader: asIsReader(c, systems)}
	streams := s.reader.reads(10, 1)
	told := 0
	take, err := play(t.Context(), s, Names[Down], []phase{
		{name: beforePhase, lasts: second, enter: systems.well, streams: streams},
		{name: downPhase, lasts: 2 * second, fault: true, enter: systems.down, streams: streams},
	}, func(Progress) { told++ })
	if err != nil || take.Lost || len(take.Spans) != 2 {
		t.Fatalf("%v, %+v", err, take)
	}
	if sum := load.Summarise(take.Recording.Shots("", 0, time.Hour)); sum.Sent != 60 || sum.Outcomes[load.Wrong] > 0 {
		t.Errorf("%+v", sum)
	}
	if down := take.Sum("", take.Span(downPhase)); down.Errors() < down.Sent || down.Sent == 0 {
		t.Errorf("while they are down: %+v", down)
	}
	if calls := len(take.Calls["erp"]) + len(take.Calls["wms"]); calls < 60 {
		t.Errorf("%d calls of 60 reads", calls)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	take, err = play(ctx, s, Names[Down], []phase{{name: beforePhase, lasts: time.Hour, streams: streams}}, func(Progress) {})
	if err != nil || !take.Lost || take.Span(beforePhase) != nil {
		t.Errorf("interrupted: %v, %+v", err, take)
	}
}

func TestABusyMachineIsTold(t *testing.T) {
	if (&Result{Busy: 0.5}).Warning() != "" || (&Result{Busy: 1e6}).Warning() == "" {
		t.Error("it is not told, or where it need not be")
	}
}

func TestATrytonAnswersItsErrorsWithStatus200(t *testing.T) {
	c := newCatalogue([]item{{"A", 5, "2.50"}})
	s := &session{tryton: &Tryton{Database: "d"}}
	price := s.reader("http://tryton", c).price(1)
	for text, want := range map[string]load.Outcome{
		`{"id":1,"result":[{"code":"A","list_price":{"__class__":"Decimal","decimal":"2.5000"}}]}`: load.Right,
		`{"id":1,"error":["UserError",["busy"]]}`:                                                  load.Wrong,
		`{"id":1,"result":[]}`: load.Wrong,
	} {
		if got := price.Judge(http.StatusOK, []byte(text)); got.Outcome != want {
			t.Errorf("%s: %s", text, got.Outcome)
		}
	}
	if target := price.Next(3); target.Method != http.MethodPost || target.URL != "http://tryton/d/" || !json.Valid(target.Body) {
		t.Errorf("%+v", target)
	}
}

package reads

import (
	"context"
	"net/http"
	"sync"
	"time"

	"andes/test/bench/andes"
	"andes/test/load"
)

// Patience is how long a channel waits for an answer.
const Patience = 5 * time.Second

// side is one of the two worlds.
type side struct {
	name     string
	behind   legacy
	reader   reader
	platform *platform // nil: there is none
}

// Names of the sides.
const (
	AsIs = "AS-IS"
	ToBe = "TO-BE"
)

// phase is a part of a scenario.
type phase struct {
	name    string
	lasts   time.Duration
	settle  time.Duration // at its begin, that does not count
	fault   bool          // something is broken
	enter   func() error  // nil: nothing changes
	streams []load.Stream
	beside  func(ctx context.Context) // runs for as long; nil: nothing does
}

// Span is a phase as it was.
type Span struct {
	Name      string        `json:"name"`
	From      time.Duration `json:"fromNs"` // since the take's begin
	Counts    time.Duration `json:"countsFromNs"`
	To        time.Duration `json:"toNs"`
	Fault     bool          `json:"fault"`
	Generator float64       `json:"generatorCores"` // what this process used, the simulators included
	Platform  float64       `json:"platformCores"`
}

// Take is what one side gave in one scenario.
type Take struct {
	Scenario  string
	Side      string
	Spans     []Span
	Recording *load.Recording
	Calls     map[string][]Call // by system
	Lost      bool              // the run was interrupted in it
}

// Call of a legacy system.
type Call struct {
	At    time.Duration // since the take's begin
	Route string
}

// Progress is told about once a second.
type Progress struct {
	Scenario, Side, Phase string
	Done, Lasts           time.Duration // of the phase
	Last                  load.Summary  // of the last reads
}

const (
	tellEvery = time.Second
	tellOf    = 200 // reads of each stream
)

// play takes one side through the phases. When ctx ends it gives what there is.
func play(ctx context.Context, s *side, scenario string, phases []phase, tell func(Progress)) (*Take, error) {
	client := &http.Client{Timeout: Patience, Transport: &http.Transport{MaxIdleConnsPerHost: load.MaxWorkers, DisableCompression: true}}
	defer client.CloseIdleConnections()
	take := &Take{Scenario: scenario, Side: s.name, Recording: load.NewRecording(time.Now()), Calls: map[string][]Call{}}
	var all sync.WaitGroup
	var failed error
	for _, p := range phases {
		if p.enter != nil {
			if failed = p.enter(); failed != nil {
				break
			}
		}
		take.Spans = append(take.Spans, playPhase(ctx, s, take, p, client, &all, tell))
		if ctx.Err() != nil {
			take.Lost = true
			break
		}
	}
	all.Wait() // for the last answers
	for name, entry := range s.behind.doors() {
		for _, c := range entry.since(take.Recording.Began) {
			take.Calls[name] = append(take.Calls[name], Call{At: c.at.Sub(take.Recording.Began), Route: c.route})
		}
	}
	return take, failed
}

// playPhase begins the phase's load and returns when the phase is over; answers may still come then.
func playPhase(ctx context.Context, s *side, take *Take, p phase, client *http.Client, all *sync.WaitGroup, tell func(Progress)) Span {
	span := Span{Name: p.name, From: time.Since(take.Recording.Began), Fault: p.fault}
	span.Counts = span.From + p.settle
	own, platforms := andes.OwnCPU(), s.cpu()
	lasting, over := context.WithTimeout(ctx, p.lasts)
	defer over()
	all.Go(func() { load.Run(ctx, client, take.Recording, load.Exactly, p.lasts, p.streams...) })
	if p.beside != nil {
		all.Go(func() { p.beside(lasting) })
	}
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	for lasting.Err() == nil {
		select {
		case <-lasting.Done():
		case <-ticker.C:
			tell(Progress{
				Scenario: take.Scenario, Side: take.Side, Phase: p.name, Done: time.Since(take.Recording.Began) - span.From, Lasts: p.lasts,
				Last: load.Summarise(take.Recording.Last(tellOf)),
			})
		}
	}
	span.To = time.Since(take.Recording.Began)
	seconds := (span.To - span.From).Seconds()
	span.Generator, span.Platform = (andes.OwnCPU()-own).Seconds()/seconds, (s.cpu()-platforms).Seconds()/seconds
	return span
}

func (s *side) cpu() time.Duration {
	if s.platform == nil {
		return 0
	}
	return s.platform.cpu()
}

// Span gives a phase by its name; nil if it was not played to its end.
func (t *Take) Span(name string) *Span {
	for i := range t.Spans {
		if t.Spans[i].Name == name && !(t.Lost && i == len(t.Spans)-1) {
			return &t.Spans[i]
		}
	}
	return nil
}

// Sum sums up what counts of a phase, of one stream or of all.
func (t *Take) Sum(stream string, span *Span) load.Summary {
	return load.Summarise(t.Recording.Shots(stream, span.Counts, span.To))
}

// CallsPerSecond counts the calls of a system from the whole phase, without its begin that does not count.
func (t *Take) CallsPerSecond(system string, span *Span) float64 {
	n := 0
	for _, c := range t.Calls[system] {
		if c.At >= span.Counts && c.At < span.To {
			n++
		}
	}
	return float64(n) / (span.To - span.Counts).Seconds()
}

// SteadyCalls is the rate of calls that come at regular intervals, as polls do: of each route, from its first
// call in the phase to its last one. So it does not depend on where the phase cuts the intervals.
func (t *Take) SteadyCalls(system string, span *Span) float64 {
	const few = 3 // of fewer calls the intervals say nothing
	routes := map[string][]time.Duration{}
	for _, c := range t.Calls[system] {
		if c.At >= span.Counts && c.At < span.To {
			routes[c.Route] = append(routes[c.Route], c.At)
		}
	}
	rate := 0.0
	for _, at := range routes {
		if len(at) < few {
			rate += float64(len(at)) / (span.To - span.Counts).Seconds()
			continue
		}
		rate += float64(len(at)-1) / (at[len(at)-1] - at[0]).Seconds()
	}
	return rate
}

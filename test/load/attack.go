// Package load sends reads at a fixed rate, whatever becomes of them (open loop), and keeps what came back.
//
// A closed loop that waits for each answer asks a slow system less often and so hides how slow it is. Here a
// read has a due time that is fixed before the run, and its latency counts from then:
//
//	due ──(late: the generator's own fault)──▶ sent ──────▶ answered
//	└──────────────────────── Took ───────────────────────────┘
//
// The requests are sent by vegeta, which begins a worker whenever all are waiting. It measures from the moment
// of sending and so leaves out what a read waited for its worker; due times are added here.
package load

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// Bounds of the generator.
const (
	// MaxWorkers is how many reads of a stream may be under way. Those that are due beyond wait, and their
	// latency says so.
	MaxWorkers = 10_000

	maxAnswerBytes = 4 << 20
	waitedFor      = 200 // reads a second
	firstWorkers   = 16
)

// Target is one request.
type Target = vegeta.Target

// Stream is reads of one kind.
type Stream struct {
	Name string
	Rate int // a second
	Next func(n uint64) Target
	// Judge looks at an answer. It is called by one goroutine of the stream.
	Judge   func(status int, body []byte) Verdict
	Workers uint64 // at most; 0: MaxWorkers
}

// Verdict is what an answer was worth.
type Verdict struct {
	Outcome Outcome
	Stale   bool // a value of it was marked so
}

// Outcome of a read.
type Outcome uint8

// The outcomes. All but Right and Refused are errors.
const (
	Right    Outcome = iota // the values that are wanted
	Refused                 // told to come later: 429
	TimedOut                // no answer within the client's patience
	Failed                  // no connection, or another status
	Wrong                   // an answer with other values, or without some
)

var outcomeNames = [...]string{"right", "refused", "timed out", "failed", "wrong"}

func (o Outcome) String() string { return outcomeNames[o] }

// MarshalText implements encoding.TextMarshaler.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Err tells whether whoever asked went away without what was asked for.
func (o Outcome) Err() bool { return o != Right && o != Refused }

// Shot is one read.
type Shot struct {
	Due  time.Duration // since the recording began
	Late time.Duration // from due to sent
	Took time.Duration // from due to the end of the answer, or to giving up
	Verdict
}

// Run sends the reads of all streams for the duration and records them. It returns when the last one is
// answered or given up, which the client's timeout bounds, or soon after ctx is done; reads that are under way
// then are not recorded. It waits by wait for the time when a read is due, or by the runtime's timers if that is nil, or if the reads are
// so many that waiting in the kernel would cost more than the timers are late.
func Run(ctx context.Context, client *http.Client, to *Recording, wait func(time.Duration), duration time.Duration, streams ...Stream) {
	var all sync.WaitGroup
	began := time.Now()
	for i, stream := range streams {
		if stream.Rate <= 0 {
			continue
		}
		p := pace{wait: wait, rate: stream.Rate, total: uint64(float64(stream.Rate) * duration.Seconds())}
		if stream.Rate > waitedFor {
			p.wait = nil
		}
		// Streams of the same rate take turns.
		p.first = time.Second / time.Duration(stream.Rate) * time.Duration(i) / time.Duration(len(streams))
		all.Go(func() { attack(ctx, client, to, began, p, stream) })
	}
	all.Wait()
}

// pace says when the reads of a stream are due. It implements vegeta's Pacer.
type pace struct {
	wait  func(time.Duration) // nil: as vegeta does
	first time.Duration
	rate  int
	total uint64
}

func (p pace) due(n uint64) time.Duration {
	return p.first + time.Duration(n/uint64(p.rate))*time.Second + time.Duration(n%uint64(p.rate))*time.Second/time.Duration(p.rate)
}

// Pace implements vegeta.Pacer.
func (p pace) Pace(elapsed time.Duration, hits uint64) (rest time.Duration, stop bool) {
	if hits >= p.total {
		return 0, true
	}
	rest = p.due(hits) - elapsed
	if p.wait == nil {
		return rest, false
	}
	p.wait(rest)
	return 0, false
}

// Rate implements vegeta.Pacer.
func (p pace) Rate(time.Duration) float64 { return float64(p.rate) }

func attack(ctx context.Context, client *http.Client, to *Recording, began time.Time, p pace, stream Stream) {
	workers := stream.Workers
	if workers == 0 {
		workers = MaxWorkers
	}
	attacker := vegeta.NewAttacker(vegeta.Client(client), vegeta.Workers(min(firstWorkers, workers)), vegeta.MaxWorkers(workers), vegeta.MaxBody(maxAnswerBytes))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()
	var count atomic.Uint64
	next := func(target *vegeta.Target) error {
		*target = stream.Next(count.Add(1) - 1)
		return nil
	}
	for result := range attacker.Attack(next, p, 0, stream.Name) {
		if ctx.Err() != nil {
			continue // vegeta's workers wait until all results are taken
		}
		due := began.Add(p.due(result.Seq))
		to.Add(stream.Name, Shot{
			Due: due.Sub(to.Began), Late: result.Timestamp.Sub(due), Took: result.End().Sub(due), Verdict: stream.verdict(client.Timeout, result),
		})
	}
}

// verdict: vegeta gives what went wrong as text only, but a timeout is known by how long it took.
func (s *Stream) verdict(patience time.Duration, result *vegeta.Result) Verdict {
	switch {
	case result.Code == 0 && patience > 0 && result.Latency >= patience:
		return Verdict{Outcome: TimedOut}
	case result.Code == http.StatusTooManyRequests:
		return Verdict{Outcome: Refused}
	case result.Code != http.StatusOK:
		return Verdict{Outcome: Failed}
	}
	return s.Judge(int(result.Code), result.Body)
}

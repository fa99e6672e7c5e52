package polling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"andes/eventstore"
)

// Kind is what may be pushed: records of a feed, in the form in which the feed has them.
type Kind struct {
	Feed string // as in package source
	Read func(record json.RawMessage) Item
}

// Pushed is a record that a legacy system tells of by itself.
type Pushed struct {
	Kind   string
	Record json.RawMessage
}

// Outcomes of pushed records.
const (
	Applied = "applied" // it was news
	Known   = "known"   // it, or a later version, was known
	Dropped = "refused" // it can't be used; it is in the ledger
	Failed  = "failed"  // our side could not apply it; it may be sent again
)

// Verdict is what became of a pushed record.
type Verdict struct {
	ID      string // as its feed names it; "": it could not be read that far
	Outcome string
	Code    eventstore.Code // of one that was refused or failed
	Detail  string
}

// CodeKindUnknown refuses a record of a kind that the system does not have.
const CodeKindUnknown eventstore.Code = "KIND_UNKNOWN"

// IntakeConfig is what an Intake needs.
type IntakeConfig struct {
	Kinds    map[string]Kind // by the name that a record gives
	Executor eventstore.Executor
	Now      func() time.Time
	Log      *slog.Logger
	Metrics  *Metrics                            // nil: counted, but not shown
	Ledger   Ledger                              // as Config has it
	Rejects  func(ctx context.Context, r Reject) // as Config has it
	InFlight int                                 // commands at once; 0: DefaultInFlight
}

// Intake applies what a legacy system pushes, by the same commands as its polled feed: they tell by the
// record's version whether it is news, so a record may come twice, late, and by both ways. It moves no
// cursor and no watermark: one change is no proof that nothing else changed.
type Intake struct {
	cfg     IntakeConfig
	applier *applier
	rejects map[string]*rejects // by feed
}

// NewIntake reports all that is missing.
func NewIntake(cfg IntakeConfig) (*Intake, error) {
	if len(cfg.Kinds) == 0 || cfg.Executor == nil || cfg.Now == nil || cfg.Log == nil {
		return nil, errors.New("intake: kinds, executor, clock and log are needed")
	}
	if cfg.Metrics == nil {
		cfg.Metrics = unregistered()
	}
	if cfg.InFlight == 0 {
		cfg.InFlight = DefaultInFlight
	}
	intake := &Intake{cfg: cfg, applier: &applier{executor: cfg.Executor, inFlight: cfg.InFlight}, rejects: map[string]*rejects{}}
	for _, kind := range cfg.Kinds {
		intake.rejects[kind.Feed] = &rejects{feed: kind.Feed, ledger: cfg.Ledger, told: cfg.Rejects, log: cfg.Log, metrics: cfg.Metrics, now: cfg.Now}
	}
	return intake, nil
}

// Take applies records, each by itself, and gives a verdict for each. from says by which request they came.
// The error is one of our own side, about all of them: whoever sent them may send them again.
func (k *Intake) Take(ctx context.Context, from eventstore.Metadata, records []Pushed) ([]Verdict, error) {
	items, feeds := make([]Item, len(records)), make([]string, len(records))
	for i, record := range records {
		kind, known := k.cfg.Kinds[record.Kind]
		if !known {
			kinds := strings.Join(slices.Sorted(maps.Keys(k.cfg.Kinds)), ", ")
			items[i].Fault = eventstore.Refuse(CodeKindUnknown, "the kinds here are: %s", kinds)
			continue
		}
		items[i], feeds[i] = kind.Read(record.Record), kind.Feed
		items[i].Meta.CorrelationID, items[i].Meta.CausationID, items[i].Meta.TraceParent = from.CorrelationID, from.CausationID, from.TraceParent
	}
	results, err := k.applier.run(ctx, items)
	if err != nil {
		return nil, err
	}
	verdicts := make([]Verdict, len(items))
	var refused []Refused
	done := map[string][]Item{}
	for i, r := range results {
		verdicts[i] = verdictOf(items[i], r)
		if feeds[i] == "" {
			continue
		}
		k.cfg.Metrics.pushed.WithLabelValues(feeds[i], verdicts[i].Outcome).Inc()
		switch verdicts[i].Outcome {
		case Dropped:
			one := Refused{Item: items[i], Refusal: r.refusal}
			if err := k.rejects[feeds[i]].add(ctx, one); err != nil {
				return nil, err
			}
			refused = append(refused, one)
		case Applied, Known:
			done[feeds[i]] = append(done[feeds[i]], items[i])
		}
	}
	if err := k.applier.doubt(ctx, refused); err != nil {
		return nil, fmt.Errorf("doubt what pushed records replace: %w", err)
	}
	for feed, items := range done {
		if err := k.rejects[feed].applied(ctx, items); err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

func verdictOf(item Item, r result) Verdict {
	verdict := Verdict{ID: brief(item.ID), Outcome: Known}
	switch {
	case r.refusal != nil:
		verdict.Outcome, verdict.Code, verdict.Detail = Dropped, r.refusal.Code, brief(r.refusal.Detail)
	case r.fault != nil:
		verdict.Outcome, verdict.Code, verdict.Detail = Failed, CodeFailed, "it could not be recorded; send it again"
	case r.changed:
		verdict.Outcome = Applied
	}
	return verdict
}

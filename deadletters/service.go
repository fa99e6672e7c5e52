package deadletters

import (
	"context"
	"errors"
	"strings"
	"time"

	"andes/eventstore"
)

// Config of the Service.
type Config struct {
	Consumers []Consumer
	Log       Log
	Ledger    Ledger
	Events    Events
	Registry  *eventstore.Registry
	// Rehearse begins a rehearsal; an error says why that consumer can't be rehearsed. Nil: none can.
	Rehearse   func(ctx context.Context, consumer string) (Rehearsal, error)
	Now        func() time.Time
	NewID      func() string
	MaxReplays int           // a letter that came back so often is not replayed without force: 5
	StepTime   time.Duration // how long one step of a run goes on: 2 s
	FollowTime time.Duration // how long a run waits for the consumer before it looks for those parked behind: 30 s
}

// DefaultMaxReplays is how often a letter may come back.
const DefaultMaxReplays = 5

// Bounds of one operation.
const (
	defaultStepTime   = 2 * time.Second
	defaultFollowTime = 30 * time.Second
	maxFollowRounds   = 10 // of looking for letters that were parked behind during the run
	maxScanned        = 50_000
	maxPage           = 500
	maxPlans          = 4
)

// Service implements the operations. It is safe for concurrent use.
type Service struct {
	Config
	plans plans
}

// New makes a Service and reports all that is missing.
func New(config Config) (*Service, error) {
	var faults []error
	need := func(there bool, what string) {
		if !there {
			faults = append(faults, errors.New("dead letters: "+what))
		}
	}
	need(len(config.Consumers) > 0, "no consumers")
	need(config.Log != nil && config.Ledger != nil && config.Events != nil && config.Registry != nil, "log, ledger, events and registry are needed")
	need(config.Now != nil && config.NewID != nil, "clock and ids are needed")
	if config.MaxReplays == 0 {
		config.MaxReplays = DefaultMaxReplays
	}
	if config.StepTime == 0 {
		config.StepTime = defaultStepTime
	}
	if config.FollowTime == 0 {
		config.FollowTime = defaultFollowTime
	}
	return &Service{Config: config}, errors.Join(faults...)
}

// consumer finds a consumer and the bounds of its DLQ.
func (s *Service) consumer(ctx context.Context, name string) (Consumer, []Bounds, error) {
	for _, known := range s.Consumers {
		if known.Name == name {
			bounds, err := s.Log.Bounds(ctx, name)
			if err == nil && len(bounds) == 0 {
				err = eventstore.Refuse(CodeConsumerUnknown, "the DLQ of %s is not there: run `andes migrate`", name)
			}
			return known, bounds, err
		}
	}
	return Consumer{}, nil, eventstore.Refuse(CodeConsumerUnknown, "there is no consumer %q; the consumers are %s", name, strings.Join(s.names(), ", "))
}

// names lists the consumers.
func (s *Service) names() []string {
	names := make([]string, len(s.Consumers))
	for i, known := range s.Consumers {
		names[i] = known.Name
	}
	return names
}

// milliseconds is how times are told.
func milliseconds(at time.Time) time.Time { return at.UTC().Truncate(time.Millisecond) }

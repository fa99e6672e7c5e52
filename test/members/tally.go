package members

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"andes/adapters/postgres"
	"andes/eventstore"
)

// tally is what an event of the load leads to: the platform's own kind of effect. It is decided on the event store
// and committed there, and is idempotent as process managers are, by the state that it is decided on.
type tally struct {
	UpTo int64 `json:"upTo"`
}

// counted is one effect.
type counted struct {
	Version int64  `json:"version"` // of the event that it follows from
	Cause   string `json:"cause"`   // its id
}

var tallies = eventstore.NewAggregate(eventstore.Category[tally]{Name: "tally", Events: []eventstore.Definition[tally]{
	eventstore.Define("tally.counted", func(s *tally, e counted) { s.UpTo = max(s.UpTo, e.Version) }),
}})

// count follows from an event. It has happened if a later one's has: the event's key is in order.
type count struct {
	record    eventstore.Record
	unguarded bool
}

// Needs implements eventstore.Command.
func (c count) Needs() []eventstore.Stream {
	return []eventstore.Stream{tallies.Stream(c.record.Stream.Key)}
}

// Decide implements eventstore.Command.
func (c count) Decide(u *eventstore.Unit) (any, error) {
	key := c.record.Stream.Key
	if state, _ := tallies.Load(u, key); state.UpTo < c.record.Version || c.unguarded {
		tallies.Append(u, key, counted{Version: c.record.Version, Cause: c.record.ID})
	}
	return nil, nil
}

// openEffects opens the event store that the effects are in. It is closed when ctx ends.
func openEffects(ctx context.Context, config postgres.Config, registry *eventstore.Registry) (eventstore.Executor, error) {
	db, err := postgres.Open(ctx, config, registry)
	if err != nil {
		return nil, err
	}
	settings := postgres.DefaultExecutorConfig()
	settings.Now, settings.NewID = time.Now, func() string { return uuid.Must(uuid.NewV7()).String() }
	settings.Logger = slog.New(slog.DiscardHandler)
	executor, err := postgres.NewExecutor(db, settings)
	if err != nil {
		db.Close()
		return nil, err
	}
	go func() {
		defer db.Close()
		_ = executor.Run(ctx)
	}()
	return executor, nil
}

// Effects is what the event store has of a load.
type Effects struct {
	Events  int // all effects
	Causes  int // events of the load that have one
	Doubled int // events that have more than one
}

const effectsPage = 1000

// CountEffects reads them from the log.
func CountEffects(ctx context.Context, config postgres.Config) (effects Effects, err error) {
	registry, err := Registry()
	if err != nil {
		return effects, err
	}
	db, err := postgres.Open(ctx, config, registry)
	if err != nil {
		return effects, err
	}
	defer db.Close()
	causes := map[string]int{}
	for position := int64(0); ; {
		page, err := db.ReadAll(ctx, position, effectsPage)
		if err != nil {
			return effects, err
		}
		for _, record := range page {
			event, err := registry.Decode(record)
			if err != nil {
				return effects, err
			}
			if effect, is := event.(counted); is {
				effects.Events++
				causes[effect.Cause]++
			}
			position = record.Position
		}
		if len(page) < effectsPage {
			break
		}
	}
	effects.Causes = len(causes)
	for _, n := range causes {
		if n > 1 {
			effects.Doubled++
		}
	}
	return effects, nil
}

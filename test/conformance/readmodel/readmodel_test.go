package readmodel

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"andes/adapters/redis"
	"andes/commands/source"
	"andes/eventstore"
	"andes/queries"
	"andes/test/pgtest"
	"andes/test/redistest"
)

// busy is how long what is well may take on a machine that has too much to do.
const busy = time.Minute

func memory(t *testing.T) *eventstore.Memory {
	t.Helper()
	return eventstore.NewMemory(pgtest.Registry(t), time.Now, uuid.NewString)
}

func model(t *testing.T, client *redis.Client) *redis.ReadModel {
	t.Helper()
	m, err := redis.NewReadModel(client, redis.ReadModelConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func fallback(t *testing.T, config queries.FallbackConfig) *queries.Fallback {
	t.Helper()
	config.Now, config.Logger = time.Now, slog.New(slog.DiscardHandler)
	f, err := queries.NewFallback(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// project brings states from the store into the model.
func project(store eventstore.Store, model *redis.ReadModel) func(t *testing.T, streams ...eventstore.Stream) {
	return func(t *testing.T, streams ...eventstore.Stream) {
		t.Helper()
		states, err := store.States(t.Context(), streams)
		if err != nil {
			t.Fatal(err)
		}
		var records []eventstore.StateRecord
		for _, record := range states {
			records = append(records, record)
		}
		if err := model.Project(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheStatesInPostgres(t *testing.T) {
	Exercise(t, func(t *testing.T) Subject {
		store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
		return Subject{Reader: store.DB, Store: store}
	})
}

// noStates fails when it is asked for a state that exists: all of them are in the read model. A watermark
// may be asked for while a reader does not know yet that it came.
type noStates struct {
	t     *testing.T
	store eventstore.Store
}

func (n noStates) States(ctx context.Context, streams []eventstore.Stream) (map[eventstore.Stream]eventstore.StateRecord, error) {
	found, err := n.store.States(ctx, streams)
	if len(found) > 0 && streams[0].Category != source.Aggregate.Name {
		n.t.Errorf("states are read that are in the read model: %v", found)
	}
	return found, err
}

func TestRedisThatIsFedByTheProjector(t *testing.T) {
	Exercise(t, func(t *testing.T) Subject {
		client, store := redistest.New(t), memory(t)
		written := model(t, client)
		reader := fallback(t, queries.FallbackConfig{Copy: redis.NewReader(client), States: noStates{t, store}, PutBack: written.Project, CopyTimeout: busy})
		return Subject{Reader: reader, Store: store, Project: project(store, written)}
	})
}

// An entry that a read put back must not stand in the way of what the projector brings later.
func TestRedisThatIsFedByReadsAndByTheProjector(t *testing.T) {
	Exercise(t, func(t *testing.T) Subject {
		client := redistest.New(t)
		store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
		written := model(t, client)
		reader := fallback(t, queries.FallbackConfig{Copy: redis.NewReader(client), States: store, PutBack: written.Project, CopyTimeout: busy, StatesTimeout: busy})
		twice := project(store, written)
		return Subject{Reader: reader, Store: store, Project: func(t *testing.T, streams ...eventstore.Stream) {
			twice(t, streams...)
			twice(t, streams...)
		}}
	})
}

var errAway = errors.New("away")

// away is a copy that can't be reached.
type away struct{}

func (away) Stock(context.Context, []string) (queries.Copied[queries.StockView], error) {
	return queries.Copied[queries.StockView]{}, errAway
}

func (away) Prices(context.Context, string, []string) (queries.Copied[queries.PriceView], error) {
	return queries.Copied[queries.PriceView]{}, errAway
}

func (away) Products(context.Context, []string) (queries.Copied[queries.ProductView], error) {
	return queries.Copied[queries.ProductView]{}, errAway
}

func (away) Watermark(context.Context, string) (time.Time, bool, error) {
	return time.Time{}, false, errAway
}

func TestTheStatesWhileRedisIsAway(t *testing.T) {
	Exercise(t, func(t *testing.T) Subject {
		store := memory(t)
		return Subject{Reader: fallback(t, queries.FallbackConfig{Copy: away{}, States: store}), Store: store}
	})
}

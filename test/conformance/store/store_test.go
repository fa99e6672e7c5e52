package store

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"andes/eventstore"
	"andes/test/pgtest"
)

func registry(t *testing.T) *eventstore.Registry {
	t.Helper()
	r, err := Registry()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMemory(t *testing.T) {
	Exercise(t, func(t *testing.T) eventstore.Store {
		return eventstore.NewMemory(registry(t), time.Now, uuid.NewString)
	})
}

func TestPostgres(t *testing.T) {
	Exercise(t, func(t *testing.T) eventstore.Store {
		return pgtest.Store(t, pgtest.Config(t), registry(t))
	})
}

package postgres_test

import (
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/test/pgtest"
)

func TestDeliveriesAreRememberedForATime(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	deliveries := postgres.Deliveries{DB: store.DB}
	for range 2 { // twice is harmless
		if err := deliveries.Remember(t.Context(), []string{"a", "b", "a"}); err != nil {
			t.Fatal(err)
		}
	}
	made, err := deliveries.Made(t.Context(), []string{"a", "b", "c"})
	if err != nil || len(made) != 2 || !made["a"] || !made["b"] {
		t.Errorf("%v, %v", made, err)
	}
	for _, step := range []struct {
		in   time.Duration
		want int64
	}{{24 * time.Hour, 0}, {365 * 24 * time.Hour, 2}} {
		if swept, err := store.SweepAnswers(t.Context(), time.Now().Add(step.in), 10); err != nil || swept != step.want {
			t.Errorf("%d are forgotten in %s, want %d: %v", swept, step.in, step.want, err)
		}
	}
}

package polling_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"andes/commands/source"
	"andes/polling"
)

// asked runs a poller for a while against a source of which each answer takes as long as answer says, and
// gives how long after the start each poll began.
func asked(t *testing.T, length time.Duration, answer func(at time.Duration) time.Duration, change func(*polling.Config)) (polls []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10)
		begun := time.Now()
		cfg := polling.Config{
			Feed: source.ERPProducts, Executor: b.store, Reader: b.store, Lease: alone{}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Source: polling.Changes{Overlap: overlap, Now: time.Now, Fetch: func(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
				at := time.Since(begun)
				polls = append(polls, at)
				time.Sleep(answer(at))
				return b.table.fetch(ctx, since)
			}},
			Interval: 2 * time.Second,
		}
		change(&cfg)
		poller, err := polling.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), length)
		defer stop()
		if err := poller.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return polls
}

func gaps(polls []time.Duration) (between []time.Duration) {
	for i := range polls[1:] {
		between = append(between, polls[i+1]-polls[i])
	}
	return between
}

func seconds(numbers ...float64) (all []time.Duration) {
	for _, n := range numbers {
		all = append(all, time.Duration(n*float64(time.Second)))
	}
	return all
}

func TestSlowAnswersLengthenTheIntervalAndQuickOnesShortenIt(t *testing.T) {
	slowFrom, slowUntil := 3*time.Second, 40*time.Second
	got := gaps(asked(t, 65*time.Second, func(at time.Duration) time.Duration {
		if at > slowFrom && at < slowUntil {
			return 3 * time.Second
		}
		return 10 * time.Millisecond
	}, func(*polling.Config) {}))
	if want := seconds(2, 2, 15, 15, 15, 7.5, 3.75, 2, 2); !slices.Equal(got, want) {
		t.Errorf("gaps between the polls %v, want %v", got, want)
	}
}

func TestTheIntervalIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		answer, interval, most time.Duration
		want                   []time.Duration
	}{
		"by what is set":              {5 * time.Second, 2 * time.Second, 8 * time.Second, seconds(8, 8, 8)},
		"by the default":              {20 * time.Second, 2 * time.Second, 0, seconds(30, 30, 30)},
		"but not below the plain one": {20 * time.Second, time.Minute, 0, seconds(60, 60, 60)},
		"and polls never overlap":     {50 * time.Second, 2 * time.Second, 0, seconds(50, 50, 50)},
	} {
		t.Run(name, func(t *testing.T) {
			got := gaps(asked(t, 4*time.Minute, func(time.Duration) time.Duration {
				return c.answer
			}, func(cfg *polling.Config) { cfg.Interval, cfg.MaxInterval = c.interval, c.most }))
			if got = got[:min(len(c.want), len(got))]; !slices.Equal(got, c.want) {
				t.Errorf("gaps between the polls %v, want %v", got, c.want)
			}
		})
	}
}

func TestNoTurnIsTakenWhileTheSourceIsAway(t *testing.T) {
	begun := time.Time{}
	away := func() bool {
		if begun.IsZero() {
			begun = time.Now()
		}
		since := time.Since(begun)
		return since > 3*time.Second && since < 33*time.Second
	}
	got := asked(t, 39*time.Second, func(time.Duration) time.Duration { return 0 }, func(cfg *polling.Config) { cfg.Away = away })
	if want := seconds(0, 2, 34, 36, 38); !slices.Equal(got, want) {
		t.Errorf("polls at %v, want %v", got, want)
	}
}

func TestASourceThatFailsSlowlyIsAskedLessOften(t *testing.T) {
	got := gaps(asked(t, 100*time.Second, func(time.Duration) time.Duration { return 2 * time.Second }, func(cfg *polling.Config) {
		slow := cfg.Source.(polling.Changes)
		fetch := slow.Fetch
		slow.Fetch = func(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
			_, err := fetch(ctx, since)
			return polling.ChangePage{}, errors.Join(err, errors.New("no complete answer in time"))
		}
		cfg.Source = slow
	}))
	if want := seconds(10, 10, 10); !slices.Equal(got[:3], want) {
		t.Errorf("gaps between the polls %v, want %v", got, want)
	}
}

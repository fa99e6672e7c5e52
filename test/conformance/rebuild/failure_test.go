package rebuild_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/adapters/postgres"
	"andes/rebuild"
	"andes/test/redistest"
)

// loaded waits until the run under way has read some records. The rates of the runs are such that what is left then takes
// some seconds: the test comes in between also where it has to wait for its turn.
func (w *world) loaded(records int64) {
	w.t.Helper()
	reached := redistest.Eventually(busy, func() bool {
		run := w.last()
		return !run.Ended() && run.Records >= records
	})
	if !reached {
		w.t.Fatalf("no run has read %d records: %+v", records, w.last())
	}
}

// last is the latest run.
func (w *world) last() rebuild.Run {
	w.t.Helper()
	run, _, err := postgres.Rebuilds{DB: w.store.DB}.Latest(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// begun runs a rebuild beside the test.
func (w *world) begun(ctx context.Context, request rebuild.Request) <-chan error {
	done := make(chan error, 1)
	r := w.rebuilder(nil)
	go func() {
		_, err := r.Rebuild(ctx, request)
		done <- err
	}()
	return done
}

func TestAStoppedRunGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1})
	w.fill(1000)
	w.publish(w.set.Categories()...)
	ctx, stop := context.WithCancel(t.Context())
	done := w.begun(ctx, rebuild.Request{Rate: 400})
	w.loaded(1000)
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("the stopped run says %v", err)
	}
	w.expectPointer("1 2")
	before := w.last()
	if before.Phase != rebuild.Loading || before.Records == 3000 {
		t.Fatalf("it was stopped as %+v", before)
	}
	for outcome, request := range map[string]rebuild.Request{
		"other read models": {Models: []string{"stock"}},
		"another source":    {Source: rebuild.FromStates},
	} {
		if _, err := w.rebuilder(nil).Rebuild(t.Context(), request); !errors.Is(err, rebuild.ErrUnfinished) {
			t.Errorf("%s: %v", outcome, err)
		}
	}
	if _, err := w.rebuilder(nil).Rollback(t.Context(), nil, "", ""); !errors.Is(err, rebuild.ErrUnfinished) {
		t.Errorf("a rollback to what is not finished: %v", err)
	}
	if run := w.rebuild(rebuild.Request{}); run.Generation != 2 || run.Records != 3000 {
		t.Errorf("it went on as %+v", run)
	}
	w.expectPointer("2 1")
	w.expectSame()
}

func TestAnUnfinishedRunIsGivenUpForANewOne(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1})
	w.fill(500)
	w.publish(w.set.Categories()...)
	ctx, stop := context.WithCancel(t.Context())
	done := w.begun(ctx, rebuild.Request{Rate: 200})
	w.loaded(500)
	stop()
	<-done
	if run := w.rebuild(rebuild.Request{Models: []string{"stock"}, Restart: true}); run.Generation != 3 || run.Records != 500 {
		t.Errorf("the new run is %+v", run)
	}
	w.expectPointer("1 stock=3,1")
	if n := w.keysOf(2); n != 0 {
		t.Errorf("%d keys of the one that was given up are left", n)
	}
	w.expectSameOf("stock")
}

func TestARunWhoseRedisWasEmptiedReadsEverythingAgain(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1, ownRedis: true})
	w.fill(500)
	w.publish(w.set.Categories()...)
	ctx, stop := context.WithCancel(t.Context())
	done := w.begun(ctx, rebuild.Request{Rate: 200})
	w.loaded(500)
	stop()
	<-done
	w.server.Must("FLUSHALL")
	if run := w.rebuild(rebuild.Request{}); run.Generation != 2 || run.Records != 1500 || run.Mended != 0 {
		t.Errorf("it went on as %+v", run)
	}
	w.expectSame()
}

func TestARedisThatIsEmptiedInMidRebuildIsNotBlamedOnTheTopics(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1, ownRedis: true})
	w.fill(500)
	w.publish(w.set.Categories()...)
	r := w.rebuilder(func(c *rebuild.Config) { c.MaxMended = 10 })
	done := make(chan error, 1)
	go func() {
		_, err := r.Rebuild(t.Context(), rebuild.Request{Rate: 250})
		done <- err
	}()
	w.loaded(500)
	w.server.Must("FLUSHALL")
	err := <-done
	if err == nil || errors.Is(err, rebuild.ErrDiffers) || !strings.Contains(err.Error(), "Redis, which was emptied") || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("told is %v", err)
	}
	if run := w.rebuild(rebuild.Request{}); run.Generation != 2 || run.Records != 1500 {
		t.Errorf("it went on as %+v", run)
	}
	w.expectSame()
}

// PROJ-03: Redis refused writes at 70 %, and the rebuild stayed half-built.
func TestAFullRedisEndsTheRunAndTheOldGenerationServesOn(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1, ownRedis: true})
	w.fill(1000)
	w.publish(w.set.Categories()...)
	w.rebuild(rebuild.Request{})
	done := w.begun(t.Context(), rebuild.Request{Rate: 400})
	w.loaded(1500)
	info, err := w.server.Must("INFO", "memory").ToString()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	used, _, _ := strings.Cut(rest, "\r\n")
	if _, err := strconv.Atoi(used); err != nil {
		t.Fatal(err)
	}
	w.server.Must("CONFIG", "SET", "maxmemory", used)
	if err := <-done; !errors.Is(err, rebuild.ErrFull) {
		t.Fatalf("the run ends with %v", err)
	}
	w.expectPointer("2")
	if n := w.keysOf(3); n != 0 {
		t.Errorf("%d keys of the half-built generation are left", n)
	}
	w.expectSame()
	if run := w.last(); run.Phase != rebuild.Failed || !strings.Contains(run.Failure, "maxmemory") {
		t.Errorf("the run is kept as %+v", run)
	}
	w.server.Must("CONFIG", "SET", "maxmemory", "0")
	if run := w.rebuild(rebuild.Request{}); run.Generation != 4 {
		t.Errorf("the next run is %+v", run)
	}
	w.expectSame()
}

func TestARedisThatGoesAwayForAWhileIsBorneWith(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1, ownRedis: true})
	w.fill(1000)
	w.publish(w.set.Categories()...)
	done := w.begun(t.Context(), rebuild.Request{Rate: 600})
	w.loaded(500)
	w.server.Hang()
	away := time.NewTimer(1500 * time.Millisecond)
	<-away.C
	w.server.Resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.expectSame()
}

func TestALostRedisPausesTheRun(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1, ownRedis: true})
	w.fill(1000)
	w.publish(w.set.Categories()...)
	w.copyPatience = short
	done := w.begun(t.Context(), rebuild.Request{Rate: 500})
	w.loaded(500)
	w.server.Kill()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "nothing could be written to Redis") {
		t.Errorf("the run ends with %v", err)
	}
	w.server.Start() // empty
	w.copyPatience = busy
	w.rebuild(rebuild.Request{})
	w.expectSame()
}

func TestALostKafkaPausesTheRun(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1, ownKafka: true})
	w.fill(3000)
	w.publish(w.set.Categories()...)
	w.rebuild(rebuild.Request{Source: rebuild.FromStates})
	done := w.begun(t.Context(), rebuild.Request{Rate: 1500})
	w.loaded(2000)
	w.kafka.Stop(t)
	if err := <-done; !errors.Is(err, rebuild.ErrSourceLost) || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("the run ends with %v", err)
	}
	w.expectPointer("2 3")
	w.expectSame()
	w.kafka.Start(t)
	if run := w.rebuild(rebuild.Request{}); run.Generation != 3 || run.Records != 9000 {
		t.Errorf("it went on as %+v", run)
	}
	w.expectSame()
}

func TestALostPostgresPausesTheRun(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1})
	w.fill(1000)
	w.publish(w.set.Categories()...)
	done := w.begun(t.Context(), rebuild.Request{Rate: 500})
	w.loaded(500)
	conn, err := pgx.Connect(t.Context(), w.postgres.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND a.application_name = $1`, "andes/"+w.postgres.Schema)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, postgres.ErrLeaseLost) || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("the run ends with %v", err)
	}
	w.expectPointer("1 2")
	if run := w.rebuild(rebuild.Request{}); run.Generation != 2 || run.Records != 3000 {
		t.Errorf("it went on as %+v", run)
	}
	w.expectSame()
}

// A topic that was made anew while the run was paused has other records at the same offsets.
func TestATopicThatWasMadeAnewIsNoticed(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1, ownKafka: true})
	w.fill(2000)
	w.publish(w.set.Categories()...)
	ctx, stop := context.WithCancel(t.Context())
	done := w.begun(ctx, rebuild.Request{Models: []string{"stock"}, Rate: 300})
	w.loaded(500)
	stop()
	<-done
	w.lose("stock")
	w.reader = w.openReader()
	_, err := w.rebuilder(nil).Rebuild(t.Context(), rebuild.Request{})
	if !errors.Is(err, rebuild.ErrSourceLost) {
		t.Errorf("the run ends with %v", err)
	}
	w.rebuild(rebuild.Request{Models: []string{"stock"}, Source: rebuild.FromStates, Restart: true})
	w.expectSameOf("stock")
}

func TestProgressIsTold(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1})
	w.fill(500)
	w.publish(w.set.Categories()...)
	told := make(chan rebuild.Progress, 1000)
	r := w.rebuilder(func(c *rebuild.Config) {
		c.Report = func(p rebuild.Progress) {
			select {
			case told <- p:
			default:
			}
		}
	})
	if _, err := r.Rebuild(t.Context(), rebuild.Request{Rate: 2000}); err != nil {
		t.Fatal(err)
	}
	close(told)
	var all []rebuild.Progress
	for p := range told {
		all = append(all, p)
	}
	if !slices.ContainsFunc(all, func(p rebuild.Progress) bool {
		return p.Phase == rebuild.Loading && p.Total == 1500 && p.Done > 0 && p.Done < 1500 && p.PerSecond > 0 && p.Left > 0 && p.Generation == 2
	}) {
		t.Errorf("told %+v", all)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/eventstore"
	"andes/test/bench/measure"
	"andes/test/members"
)

const (
	lateRecords = 10_000
	lateDelay   = 6 * time.Second // longer than it takes to have all of them wait
	lateEvery   = 20 * time.Millisecond
)

// late has many records wait in a retry topic and takes how much later than due each is handled.
func (b *bench) late(ctx context.Context) error {
	var p50, p99 measure.Series
	for i := range measure.Runs {
		lateness, waiting, err := b.lateness(ctx)
		if err != nil {
			return err
		}
		slices.Sort(lateness)
		p50 = append(p50, measure.Milliseconds(measure.Percentile(lateness, 50)))
		p99 = append(p99, measure.Milliseconds(measure.Percentile(lateness, 99)))
		b.report.Note("run %d: %d retries, up to %d waiting at once; late by p50 %.1f ms, p99 %.1f ms, at most %.1f ms",
			i+1, len(lateness), waiting, p50[i], p99[i], measure.Milliseconds(lateness[len(lateness)-1]))
	}
	b.report.Result("ladder_late_p50_ms", p50, "ms")
	b.report.Result("ladder_late_p99_ms", p99, "ms")
	return nil
}

func (b *bench) lateness(ctx context.Context) (lateness []time.Duration, most int, err error) {
	b.groups++
	names := kafka.Topics{Prefix: fmt.Sprintf("%slate%d.", b.names.Prefix, b.groups)}
	if err := b.ensure(ctx, names, 2*partitions, names.Ladder(consumerName, lateDelay)...); err != nil {
		return nil, 0, err
	}
	var mu sync.Mutex
	waiting := 0
	done := make(chan struct{})
	stop := b.consume(ctx, names, kafka.Consumer{
		Name: consumerName, Topics: []string{names.Events("order")}, Ordered: true, Policy: kafka.Policy{Tries: 1, Tiers: []time.Duration{lateDelay}},
		Handle: func(ctx context.Context, _ eventstore.Record) error {
			now := time.Now()
			delivery, _ := kafka.Delivered(ctx)
			mu.Lock()
			defer mu.Unlock()
			if delivery.Attempt == 1 {
				waiting++
				most = max(most, waiting)
				return errors.New("not yet")
			}
			waiting--
			lateness = append(lateness, now.Sub(due(delivery)))
			if len(lateness) == lateRecords {
				close(done)
			}
			return nil
		},
	})
	pace := time.NewTicker(lateEvery)
	defer pace.Stop()
	err = b.produce(ctx, names, lateRecords, func(i int) eventstore.Record { return members.Record(fmt.Sprintf("o%d", i), 1) }, pace.C)
	if err == nil {
		select {
		case <-done:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return lateness, most, errors.Join(err, stop())
}

// due is when the record was to be handled, by its header.
func due(delivery *kafka.Delivery) time.Time {
	for _, header := range delivery.Message.Headers {
		if string(header.Key) == "andes_due" {
			at, err := time.Parse(time.RFC3339Nano, string(header.Value))
			if err == nil {
				return at
			}
		}
	}
	return time.Time{}
}

const (
	churnKeys     = 500
	churnVersions = 40 // of each key: 20,000 records
	churnEvery    = 500 * time.Millisecond
	churnWait     = 2 * time.Minute
	churnConns    = 4 // of a member, to PostgreSQL
)

// churn has members join, leave and be killed while records come in, a tenth of which fail once or twice. What each
// record leads to is an event in the event store, decided there as the platform's own are: nothing here filters.
func (b *bench) churn(ctx context.Context) error {
	names := kafka.Topics{Prefix: b.names.Prefix + "churn."}
	tiers := []time.Duration{500 * time.Millisecond, 2 * time.Second}
	if err := b.ensure(ctx, names, 2*partitions, names.Ladder(consumerName, tiers...)...); err != nil {
		return err
	}
	store := postgres.Config{URL: os.Getenv("ANDES_POSTGRES_URL"), Schema: fmt.Sprintf("bench_ladder_%d", time.Now().UnixNano()), MaxConns: churnConns}
	if err := postgres.Migrate(ctx, store); err != nil {
		return err
	}
	group := members.NewGroup(members.Config{
		Brokers: b.cluster.Brokers, Prefix: names.Prefix, Consumer: consumerName, Tiers: tiers, Failing: 10, Effects: store, Unguarded: b.unguarded,
	})
	running, err := b.comeAndGo(ctx, names, group)
	defer func() {
		for _, member := range running {
			_ = member.Kill()
			member.Wait()
		}
	}()
	if err != nil {
		return err
	}
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(churnWait); group.Reached(churnVersions) < churnKeys && time.Now().Before(end); {
		<-look.C
	}
	for _, member := range running {
		if err := member.Leave(); err != nil {
			return err
		}
		member.Wait()
	}
	return b.account(ctx, store, group.Account())
}

// account compares what the handlers were given with what the event store has.
func (b *bench) account(ctx context.Context, store postgres.Config, account members.Account) error {
	effects, err := members.CountEffects(ctx, store)
	if err != nil {
		return err
	}
	guard := "the event store's own guard decides on repeats"
	if b.unguarded {
		guard = "WITHOUT a guard: this shows what the count would show"
	}
	b.report.Note("%d records, %d events in the event store from %d of them; %d repeats came to a handler, %d records out of order; %s",
		churnKeys*churnVersions, effects.Events, effects.Causes, account.Repeats, account.Disorder, guard)
	b.report.Result("ladder_lost", measure.Series{float64(churnKeys*churnVersions - effects.Causes)}, "count")
	b.report.Result("ladder_dup", measure.Series{float64(effects.Events - effects.Causes)}, "count")
	b.report.Result("ladder_repeats", measure.Series{float64(account.Repeats)}, "count")
	b.report.Result("ladder_disorder", measure.Series{float64(account.Disorder)}, "count")
	return nil
}

// comeAndGo produces a version of every key at a time, and gives the members that are left.
func (b *bench) comeAndGo(ctx context.Context, names kafka.Topics, group *members.Group) (running []*members.Member, err error) {
	join := func() error {
		member, err := group.Start()
		if err == nil {
			running = append(running, member)
		}
		return err
	}
	first := func(end func(*members.Member) error) func() error {
		return func() error {
			member := running[0]
			running = running[1:]
			err := end(member)
			member.Wait()
			return err
		}
	}
	happens := map[int]func() error{
		0: join, 2: join, 5: join, 9: first((*members.Member).Kill), 12: join, 16: first((*members.Member).Leave), 20: join,
		25: first((*members.Member).Kill), 28: join, 33: first((*members.Member).Leave), 36: join,
	}
	pace := time.NewTicker(churnEvery)
	defer pace.Stop()
	for version := range churnVersions {
		if event := happens[version]; event != nil {
			if err := event(); err != nil {
				return running, err
			}
		}
		err := b.produce(ctx, names, churnKeys, func(i int) eventstore.Record { return members.Record(fmt.Sprintf("o%d", i), int64(version+1)) }, nil)
		if err != nil {
			return running, err
		}
		<-pace.C
	}
	return running, nil
}

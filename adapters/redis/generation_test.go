package redis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"andes/adapters/redis"
	"andes/projections"
	"andes/test/redistest"
)

func TestAnEmptyRedisGetsItsFirstGenerationByAWrite(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	client := redistest.Open(t, config)
	if got := netOf(t, client, "A"); got != "lacking" {
		t.Errorf("the stock is %s, want lacking", got)
	}
	apply(t, newModel(t, client, redis.ReadModelConfig{}), stockEntry("A", 1, 5))
	raw := redistest.Raw(t, config.Addrs...)
	if pointer, err := raw.Do(t.Context(), raw.B().Get().Key(config.Prefix+"generation").Build()).ToString(); err != nil || pointer != "1" {
		t.Errorf("the pointer is %q, %v", pointer, err)
	}
	if got := netOf(t, client, "A"); got != "5" {
		t.Errorf("the stock is %s, want 5", got)
	}
}

func point(t *testing.T, config redis.Config, pointer string) {
	t.Helper()
	raw := redistest.Raw(t, config.Addrs...)
	if err := raw.Do(t.Context(), raw.B().Set().Key(config.Prefix+"generation").Value(pointer).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

func TestAWriteReachesEveryGenerationThatThePointerNamesByThen(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	client := redistest.Open(t, config)
	model := newModel(t, client, redis.ReadModelConfig{})
	apply(t, model, stockEntry("A", 1, 1))
	point(t, config, "1 2") // the model has not heard of it
	apply(t, model, stockEntry("B", 2, 2))
	point(t, config, "2 1")
	if !redistest.Eventually(patience, func() bool { return netOf(t, client, "B") == "2" && netOf(t, client, "A") == "lacking" }) {
		t.Error("generation 2 does not serve what was written after it was named")
	}
	apply(t, model, stockEntry("C", 3, 3))
	point(t, config, "1")
	if !redistest.Eventually(patience, func() bool { return netOf(t, client, "A") == "1" }) {
		t.Error("generation 1 does not serve again")
	}
	if got := netOf(t, client, "C"); got != "3" {
		t.Errorf("C in generation 1 is %s, want 3", got)
	}
}

func TestARebuildWritesToOneGeneration(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	client := redistest.Open(t, config)
	model := newModel(t, client, redis.ReadModelConfig{})
	apply(t, model, stockEntry("A", 1, 1))
	if err := model.ApplyTo(t.Context(), 7, []projections.Entry{stockEntry("A", 2, 2)}); err != nil {
		t.Fatal(err)
	}
	if got := netOf(t, client, "A"); got != "1" {
		t.Errorf("the stock is %s, want that of generation 1", got)
	}
	point(t, config, "7")
	if !redistest.Eventually(patience, func() bool { return netOf(t, client, "A") == "2" }) {
		t.Error("generation 7 does not serve")
	}
}

func TestAPointerThatNamesNoGenerationIsAnError(t *testing.T) {
	t.Parallel()
	for _, pointer := range []string{"", "0", "x", "1 1", "1 2 3 4 5", "1  2", "-1", "stock=1", "1 stock=", "1 stock=0", "1 stock=2 stock=3", "1 =2", "1 stock=2 3"} {
		if generations, err := projections.ParseGenerations(pointer); err == nil {
			t.Errorf("%q is read as %s", pointer, generations)
		}
	}
	config := redistest.Config(t)
	client := redistest.Open(t, config)
	point(t, config, "x")
	if err := newModel(t, client, redis.ReadModelConfig{}).Apply(t.Context(), []projections.Entry{stockEntry("A", 1, 1)}); err == nil {
		t.Error("the write goes anywhere")
	}
	if _, err := redis.NewReader(client).Stock(t.Context(), []string{"A"}); err == nil {
		t.Error("the read comes from anywhere")
	}
}

func TestThePointerIsWrittenAsItIsRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1", "12 3", "4 3 2 1", "2 1 stock=3,2", "1 price=2 stock=3,1"} {
		if generations, err := projections.ParseGenerations(text); err != nil || generations.String() != text {
			t.Errorf("%q is read as %q, %v", text, generations, err)
		}
	}
}

func TestAFlushedRedisFillsAgainThroughTheSameWriter(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	client := redistest.Open(t, redis.Config{Addrs: []string{server.Addr}})
	model := newModel(t, client, redis.ReadModelConfig{})
	point(t, redis.Config{Addrs: []string{server.Addr}, Prefix: "andes:"}, "7")
	apply(t, model, stockEntry("A", 1, 5))
	server.Must("FLUSHALL")
	server.Must("SCRIPT", "FLUSH")
	for i := range 3 {
		apply(t, model, stockEntry("A", int64(i+2), int64(i)))
		want := fmt.Sprint(i)
		if !redistest.Eventually(patience, func() bool { return netOf(t, client, "A") == want }) {
			t.Errorf("the stock is %s, want %s", netOf(t, client, "A"), want)
		}
	}
}

func TestAWriteGivesUpInTimeAndTheClientRecoversByItself(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	client := redistest.Open(t, redis.Config{Addrs: []string{server.Addr}, WriteTimeout: 300 * time.Millisecond})
	model := newModel(t, client, redis.ReadModelConfig{})
	reader := redis.NewReader(client)
	applyAtLast(t, model, stockEntry("A", 1, 1)) // the first one may take longer: it brings the script
	for name, fault := range map[string]struct{ begin, end func() }{
		"hanging": {server.Hang, server.Resume},
		"killed":  {server.Kill, server.Start},
	} {
		fault.begin()
		began := time.Now()
		if err := model.Apply(t.Context(), []projections.Entry{stockEntry("A", 2, 2)}); err == nil {
			t.Errorf("%s: the write succeeds", name)
		}
		bounded, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if _, err := reader.Stock(bounded, []string{"A"}); err == nil {
			t.Errorf("%s: the read succeeds", name)
		}
		cancel()
		if took := time.Since(began); took > patience {
			t.Errorf("%s: it took %s", name, took)
		}
		fault.end()
		applyAtLast(t, model, stockEntry("A", 3, 3))
		if !redistest.Eventually(patience, func() bool {
			copied, err := reader.Stock(t.Context(), []string{"A"})
			return err == nil && copied.Found["A"].Net == 3
		}) {
			t.Errorf("%s: no recovery", name)
		}
	}
}

func TestAClientMayBeOpenedBeforeItsServer(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	server.Kill()
	client := redistest.Open(t, redis.Config{Addrs: []string{server.Addr}, Background: true, DialTimeout: 50 * time.Millisecond})
	model := newModel(t, client, redis.ReadModelConfig{})
	if err := model.Apply(t.Context(), []projections.Entry{stockEntry("A", 1, 1)}); !errors.Is(err, redis.ErrNotConnected) {
		t.Errorf("error of a write: %v", err)
	}
	if _, err := redis.NewReader(client).Stock(t.Context(), []string{"A"}); !errors.Is(err, redis.ErrNotConnected) {
		t.Errorf("error of a read: %v", err)
	}
	server.Start()
	if !redistest.Eventually(patience, func() bool { return client.Ping(t.Context()) == nil }) {
		t.Fatal("not connected")
	}
	applyAtLast(t, model, stockEntry("A", 1, 1)) // by a connection that is made in 50 ms, which a busy machine may not do at once
	if got := netOf(t, client, "A"); got != "1" {
		t.Errorf("the stock is %s, want 1", got)
	}
	closed := redistest.Open(t, redis.Config{Addrs: []string{"127.0.0.1:1"}, Background: true})
	if err := closed.Ping(t.Context()); !errors.Is(err, redis.ErrNotConnected) {
		t.Errorf("error of a ping: %v", err)
	}
}

package postgres_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/adapters/postgres"
	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/commands/subscription"
	"andes/eventstore"
	"andes/test/pgtest"
)

// sql runs statements in the test's schema, beside the store.
func sql(t *testing.T, config postgres.Config) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(config.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["search_path"] = config.Schema
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, store eventstore.Executor, command eventstore.Command) {
	t.Helper()
	if _, err := store.Execute(t.Context(), eventstore.Request{Command: command}); err != nil {
		t.Fatalf("%#v: %v", command, err)
	}
}

func level(sku string, onHand int64) stock.Report {
	return stock.Report{SKU: sku, OnHand: onHand, SourceVersion: 1, At: time.Now()}
}

// shop sets up a partner and SKUs that it can order.
func shop(t *testing.T, store eventstore.Executor, onHand int64, skus ...string) {
	t.Helper()
	execute(t, store, partner.Configure{Partner: partner.State{
		ID: "p", Name: "Partner", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"},
	}})
	for _, sku := range skus {
		execute(t, store, product.Report{SKU: sku, Name: sku, SourceVersion: 1, At: time.Now()})
		execute(t, store, price.Report{List: "retail", SKU: sku, Amount: "2.55", Currency: "GBP", SourceVersion: 1, At: time.Now()})
		execute(t, store, level(sku, onHand))
	}
}

func place(id string, quantity int64, skus ...string) order.Place {
	lines := make([]order.RequestedLine, len(skus))
	for i, sku := range skus {
		lines[i] = order.RequestedLine{SKU: sku, Quantity: quantity}
	}
	return order.Place{OrderID: id, Partner: "p", PriceList: "retail", Currency: "GBP", Lines: lines, PaymentToken: "tok_x"}
}

func TestTheDatabaseRefusesToChangeEvents(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	execute(t, pgtest.Store(t, config, pgtest.Registry(t)), level("A", 1))
	conn := sql(t, config)
	for _, statement := range []string{"UPDATE events SET type = 'x.y'", "DELETE FROM events", "TRUNCATE events"} {
		if _, err := conn.Exec(t.Context(), statement); err == nil {
			t.Errorf("%s was allowed", statement)
		}
	}
}

func TestAPoisonedCommandFailsAlone(t *testing.T) {
	t.Parallel()
	store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() { execute(t, store, level(fmt.Sprint("good", i), 1)) })
		all.Go(func() {
			// No index takes a key of that size, which only PostgreSQL knows.
			key := make([]byte, 6000)
			_, _ = rand.Read(key)
			command := subscription.Create{ID: hex.EncodeToString(key), Partner: "p", URL: "https://x.test", Types: []string{"*"}}
			if _, err := store.Execute(t.Context(), eventstore.Request{Command: command}); err == nil {
				t.Error("a poisoned command was accepted")
			}
		})
	}
	all.Wait()
}

func TestTextThatPostgreSQLDoesNotTakeIsRefusedForItsCommandAlone(t *testing.T) {
	t.Parallel()
	store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
	for name, command := range map[string]eventstore.Command{
		"SKU_INVALID":       level("a\x00b", 1),
		"TEXT_NOT_STORABLE": product.Report{SKU: "A", Name: "a\x00b", SourceVersion: 1, At: time.Now()},
	} {
		if _, err := store.Execute(t.Context(), eventstore.Request{Command: command}); string(eventstore.CodeOf(err)) != name {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

func TestABuyerOfTheLastUnitWinsAlone(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	registry := pgtest.Registry(t)
	// Three instances on one database.
	stores := []*postgres.Store{pgtest.Store(t, config, registry), pgtest.Store(t, config, registry), pgtest.Store(t, config, registry)}
	shop(t, stores[0], 1, "A")
	var all sync.WaitGroup
	var mu sync.Mutex
	accepted, refused := 0, 0
	start := make(chan struct{})
	for i := range 100 {
		all.Go(func() {
			<-start
			_, err := stores[i%3].Execute(t.Context(), eventstore.Request{Command: place(fmt.Sprint("o", i), 1, "A")})
			mu.Lock()
			defer mu.Unlock()
			switch eventstore.CodeOf(err) {
			case "":
				if err != nil {
					t.Error(err)
				}
				accepted++
			case "INSUFFICIENT_STOCK":
				refused++
			default:
				t.Error(err)
			}
		})
	}
	close(start)
	all.Wait()
	if accepted != 1 || refused != 99 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
}

func TestOrdersThatShareSKUsInOtherOrderDoNotDeadlock(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	registry := pgtest.Registry(t)
	stores := []*postgres.Store{pgtest.Store(t, config, registry), pgtest.Store(t, config, registry)}
	shop(t, stores[0], 100_000, "A", "B", "C")
	var all sync.WaitGroup
	for i := range 200 {
		skus := []string{"A", "B", "C"}
		if i%2 == 1 {
			skus = []string{"C", "B", "A"}
		}
		all.Go(func() { execute(t, stores[i%2], place(fmt.Sprint("o", i), 1, skus...)) })
		all.Go(func() {
			execute(t, stores[(i+1)%2], stock.Report{SKU: skus[0], OnHand: 100_000, SourceVersion: int64(i + 2), At: time.Now()})
		})
	}
	all.Wait()
	var reserved int64
	if err := sql(t, config).QueryRow(t.Context(), "SELECT sum(reserved) FROM stock").Scan(&reserved); err != nil || reserved != 600 {
		t.Errorf("%d units reserved, %v", reserved, err)
	}
}

func TestRepeatedSKUsOfAnOrderAreHeldAndReleasedOnce(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	shop(t, store, 10, "A")
	command := place("o", 2, "A", "A")
	command.Lines[1].Quantity = 3
	execute(t, store, command)
	conn := sql(t, config)
	reserved := func() (units int64) {
		if err := conn.QueryRow(t.Context(), "SELECT reserved FROM stock WHERE sku = 'A'").Scan(&units); err != nil {
			t.Fatal(err)
		}
		return units
	}
	if got := reserved(); got != 5 {
		t.Errorf("%d units reserved, want 5", got)
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { execute(t, store, order.Cancel{OrderID: "o", Reason: order.CancelledByPartner}) })
	}
	all.Wait()
	if got := reserved(); got != 0 {
		t.Errorf("%d units reserved after the cancel, want 0", got)
	}
}

func TestALostConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	conn := sql(t, config)
	for i := range 5 {
		_, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'andes/' || $1", config.Schema)
		if err != nil {
			t.Fatal(err)
		}
		// Each of the two committers finds its broken connection with at most one batch.
		failures := 0
		for {
			_, err := store.Execute(t.Context(), eventstore.Request{Command: level(fmt.Sprint("after", i), 1)})
			if err == nil {
				break
			}
			if failures++; failures > 2 {
				t.Fatal(err)
			}
		}
	}
}

func TestTheRelayReadsEachEventOnceAndItsStates(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	settings := postgres.DefaultRelayConfig()
	settings.Page = 3
	session, err := postgres.NewRelayLog(store.DB, settings).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	for i := range 10 {
		execute(t, store, stock.Report{SKU: "A", OnHand: int64(i), SourceVersion: int64(i + 1), At: time.Now()})
	}
	position, events := session.Checkpoint(), 0
	for events < 10 {
		records, states, err := session.Next(t.Context(), position)
		if err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 || len(records) > 3 || len(states) != 1 {
			t.Fatalf("%d records, %d states", len(records), len(states))
		}
		events += len(records)
		position = records[len(records)-1].Position
		if states[0].Position < position {
			t.Errorf("the state at %d is older than its event at %d", states[0].Position, position)
		}
		if err := session.Save(t.Context(), position); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASecondRelayStandsByUntilTheFirstEnds(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, pgtest.Config(t), pgtest.Registry(t))
	settings := postgres.DefaultRelayConfig()
	settings.Standby = 10 * time.Millisecond
	relay := postgres.NewRelayLog(db, settings)
	first, err := relay.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan *postgres.RelaySession)
	go func() {
		session, err := relay.Acquire(t.Context())
		if err != nil {
			t.Error(err)
		}
		second <- session
	}()
	select {
	case <-second:
		t.Fatal("two relays were active at once")
	case <-time.After(100 * time.Millisecond):
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if session := <-second; session != nil {
		_ = session.Close()
	}
}

func TestALeaseEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	leases := postgres.Leases{DB: pgtest.Open(t, config, pgtest.Registry(t)), Standby: 10 * time.Millisecond, Check: 10 * time.Millisecond}
	conn := sql(t, config)
	err := leases.Hold(t.Context(), "work", func(ctx context.Context) error {
		_, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(l.pid) FROM pg_locks l
			WHERE l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()
			  AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended($1 || '/lease/work', 0)`, config.Schema)
		if err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, postgres.ErrLeaseLost) {
		t.Errorf("error %v", err)
	}
}

func TestBurntPositionsDoNotHideEvents(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	execute(t, store, level("A", 1))
	if _, err := sql(t, config).Exec(t.Context(), "SELECT setval('position_0', lastval_of + 1000000) FROM (SELECT last_value AS lastval_of FROM position_0) AS s"); err != nil {
		t.Fatal(err)
	}
	execute(t, store, level("B", 1))
	records, err := store.ReadAll(t.Context(), 1, 10)
	if err != nil || len(records) != 1 || records[0].Stream.Key != "B" {
		t.Errorf("records %+v, %v", records, err)
	}
}

func TestACallerThatGivesUpDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	execute(t, store, level("A", 1))
	conn := sql(t, config)
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock(hashtextextended($1 || '/shard', 0))", config.Schema); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := store.Execute(ctx, eventstore.Request{Command: level("B", 1)})
	if !errors.Is(err, eventstore.ErrOutcomeUnknown) {
		t.Errorf("a caller that gave up got %v", err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
	execute(t, store, level("C", 1))
}

func TestAnswersAreSweptWhenTheyExpire(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	request := eventstore.Request{Command: level("A", 1), Idempotency: &eventstore.Idempotency{
		IdempotencyKey: eventstore.IdempotencyKey{Scope: "p", Key: "k"}, TTL: time.Hour,
		Answer: func(any, error) (eventstore.Answer, bool) { return eventstore.Answer{Status: 202}, true },
	}}
	if _, err := store.Execute(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if swept, err := store.SweepAnswers(t.Context(), time.Now(), 10); err != nil || swept != 0 {
		t.Errorf("swept %d, %v", swept, err)
	}
	if swept, err := store.SweepAnswers(t.Context(), time.Now().Add(2*time.Hour), 10); err != nil || swept != 1 {
		t.Errorf("swept %d, %v", swept, err)
	}
}

func TestSubscriptionsAreFoundBehindManyThatWereRemoved(t *testing.T) {
	store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
	for i := range 120 {
		id := fmt.Sprint("s", i)
		execute(t, store, subscription.Create{ID: id, Partner: "p", URL: "https://example.test", Types: []string{subscription.AllTypes}, Secret: "s"})
		if i > 0 {
			execute(t, store, subscription.Remove{ID: id, Partner: "p", Reason: "test"})
		}
	}
	execute(t, store, subscription.Create{ID: "last", Partner: "p", URL: "https://example.test", Types: []string{subscription.AllTypes}, Secret: "s"})
	list, err := store.Subscriptions(t.Context(), "p")
	if err != nil || len(list) != 2 || list[0].ID != "s0" || list[1].ID != "last" {
		t.Errorf("%+v, %v", list, err)
	}
}

package readmodel

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/adapters/redis"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
	"andes/test/pgtest"
	"andes/test/redistest"
)

// Redis is gone and PostgreSQL answers nothing: a few reads wait for it, the others are refused at once, and all of
// them end. When PostgreSQL answers again they are answered, still without Redis.
func TestReadsBeyondWhatPostgreSQLCanTakeAreRefusedAndComeBackByThemselves(t *testing.T) {
	t.Parallel()
	server, config := redistest.StartServer(t), pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	client := redistest.Open(t, redis.Config{Addrs: []string{server.Addr}})
	const slots, readers = 3, 40
	reader := fallback(t, queries.FallbackConfig{
		Copy: redis.NewReader(client), States: store, PutBack: model(t, client).Project, ConcurrentReads: slots,
	})
	subject := Subject{Reader: reader, Store: store}
	for i := range readers {
		subject.run(t, stock.Report{SKU: fmt.Sprint(i), OnHand: int64(i), SourceVersion: 1, At: at})
	}
	server.Kill()
	unlock := lockStates(t, config.URL, config.Schema)
	results := make(chan error, readers)
	for i := range readers {
		go func() {
			_, err := reader.Stock(t.Context(), []string{fmt.Sprint(i)})
			results <- err
		}()
	}
	refused := 0
	for range readers {
		switch err := <-results; {
		case errors.Is(err, queries.ErrSaturated) && errors.Is(err, eventstore.ErrOverloaded):
			refused++
		case err == nil:
			t.Error("a read was answered from a table that is locked")
		case !errors.Is(err, eventstore.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
			t.Error(err)
		}
	}
	if refused == 0 || refused == readers {
		t.Errorf("%d of %d reads were refused", refused, readers)
	}
	unlock()
	if !redistest.Eventually(recoveryWait, func() bool {
		found, err := reader.Stock(t.Context(), []string{"7"})
		return err == nil && found["7"].Net == 7
	}) {
		t.Error("reads do not come back")
	}
}

// lockStates keeps everybody from the states until the given function is called.
func lockStates(t *testing.T, url, schema string) (unlock func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	tx, err := conn.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, "LOCK TABLE "+pgx.Identifier{schema, "states"}.Sanitize()+" IN ACCESS EXCLUSIVE MODE")
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(ctx); err != nil {
			t.Error(err)
		}
	}
}

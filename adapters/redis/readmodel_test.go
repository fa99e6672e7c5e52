package redis_test

import (
	"context"
	"testing"
	"time"

	"andes/adapters/redis"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
	"andes/test/redistest"
	"encoding/json"
)

var changed = time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)

func stockRecord(t testing.TB, sku string, position, onHand int64) eventstore.StateRecord {
	t.Helper()
	state, err := json.Marshal(stock.State{OnHand: onHand, ChangedAt: changed})
	if err != nil {
		t.Fatal(err)
	}
	return eventstore.StateRecord{Stream: stock.Aggregate.Stream(sku), Version: position, Position: position, State: state}
}

func TestAppliedRecordsAreRead(t *testing.T) {
	client := redistest.New(t)
	model, err := redis.NewReadModel(client, redis.ReadModelConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := model.Project(ctx, []eventstore.StateRecord{stockRecord(t, "A", 7, 3), stockRecord(t, "{B} ü", 8, -2)}); err != nil {
		t.Fatal(err)
	}
	copied, err := redis.NewReader(client).Stock(ctx, []string{"A", "{B} ü", "C"})
	if err != nil {
		t.Fatal(err)
	}
	if got := copied.Found["A"]; got != (queries.StockView{Net: 3, ChangedAt: changed}) {
		t.Errorf("A is %+v", got)
	}
	if got := copied.Found["{B} ü"].Net; got != -2 {
		t.Errorf("{B} ü has net %d", got)
	}
	if len(copied.Lacking) != 1 || copied.Lacking[0] != "C" {
		t.Errorf("lacking %q, want C", copied.Lacking)
	}
}

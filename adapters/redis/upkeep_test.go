package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"andes/adapters/redis"
	"andes/projections"
	"andes/rebuild"
	"andes/test/redistest"
)

func TestThePointerIsReplacedOnlyIfItIsWhatWasRead(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	client := redistest.Open(t, config)
	first, err := client.Generations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"price", "stock"}
	building := first.With(all, []string{"stock"}, func(l projections.Lineage) projections.Lineage { return l.Building(2) })
	if err := client.Repoint(t.Context(), first, building); err != nil {
		t.Fatal(err)
	}
	if err := client.Repoint(t.Context(), first, first); !errors.Is(err, rebuild.ErrMoved) {
		t.Errorf("a pointer that was changed meanwhile: %v", err)
	}
	if now, err := client.Generations(t.Context()); err != nil || now.String() != "1 stock=1,2" {
		t.Errorf("the pointer says %q, %v", now, err)
	}
}

func TestEachReadModelIsWrittenToItsOwnGenerations(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	client := redistest.Open(t, config)
	model := newModel(t, client, redis.ReadModelConfig{})
	point(t, config, "1 stock=3,1")
	apply(t, model, stockEntry("A", 5, 7), projections.Entry{Key: "product:A", Position: 6, Value: []byte("x")})
	for generation, want := range map[projections.Generation]string{1: "product:A stock:A", 3: "stock:A"} {
		var keys []string
		err := model.Each(t.Context(), map[string]projections.Generation{"product": generation, "stock": generation}, 100, func(page []string) error {
			keys = append(keys, page...)
			return nil
		})
		slices.Sort(keys)
		if got := fmt.Sprint(keys); err != nil || got != "["+want+"]" {
			t.Errorf("generation %d has %s, %v", generation, got, err)
		}
	}
	if got := netOf(t, client, "A"); got != "7" {
		t.Errorf("the stock is %s", got)
	}
}

func TestOnlyWhatIsAsItWasReadIsMended(t *testing.T) {
	t.Parallel()
	model := newModel(t, redistest.New(t), redis.ReadModelConfig{})
	apply(t, model, stockEntry("A", 9, 1), stockEntry("B", 9, 1), stockEntry("C", 9, 1))
	was := func(sku string) rebuild.Kept {
		kept, err := model.Kept(t.Context(), 1, []string{projections.StockKey(sku)})
		if err != nil {
			t.Fatal(err)
		}
		return kept[0]
	}
	a, b, c := was("A"), was("B"), was("C")
	apply(t, model, stockEntry("B", 10, 5)) // meanwhile
	mended, err := model.Mend(t.Context(), 1, []rebuild.Mend{
		{Was: a, Entry: stockEntry("A", 3, 4)}, // an older position, as PostgreSQL has it
		{Was: b, Entry: stockEntry("B", 3, 4)},
		{Was: c, Entry: projections.Entry{Key: projections.StockKey("C")}},
		{Was: rebuild.Kept{}, Entry: stockEntry("D", 2, 2)},
	})
	if err != nil || mended != 3 {
		t.Errorf("%d mended, %v", mended, err)
	}
	if a, b, c, d := was("A"), was("B"), was("C"), was("D"); a.Text != stockEntry("A", 3, 4).Text() || b.Text != stockEntry("B", 10, 5).Text() || c.There || d.Text != stockEntry("D", 2, 2).Text() {
		t.Errorf("kept are %+v %+v %+v %+v", a, b, c, d)
	}
}

func TestAGenerationIsListedCountedAndDroppedInACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3)
	client := redistest.Open(t, redis.Config{Addrs: []string{servers[0].Addr}})
	model := newModel(t, client, redis.ReadModelConfig{})
	const many = 3000
	var entries []projections.Entry
	for i := range many {
		entries = append(entries, stockEntry(fmt.Sprintf("{S}%d", i), 1, 1), projections.Entry{Key: fmt.Sprint("product:", i), Position: 1, Value: []byte("x")})
	}
	for _, generation := range []projections.Generation{1, 12} {
		if err := model.ApplyTo(t.Context(), generation, entries); err != nil {
			t.Fatal(err)
		}
	}
	if census, err := model.Census(t.Context()); err != nil || census.Estimated || census.Keys[1]["stock"] != many || census.Keys[12]["product"] != many || len(census.Keys) != 2 {
		t.Errorf("the census is %v, %v", census, err)
	}
	if dropped, err := model.Drop(t.Context(), 1, []string{"stock"}); err != nil || dropped != many {
		t.Errorf("%d dropped, %v", dropped, err)
	}
	seen := map[string]bool{}
	err := model.Each(t.Context(), map[string]projections.Generation{"stock": 12}, 100, func(keys []string) error {
		for _, key := range keys {
			seen[key] = true
		}
		return nil
	})
	if err != nil || len(seen) != many {
		t.Errorf("%d keys are listed, %v", len(seen), err)
	}
	if census, err := model.Census(t.Context()); err != nil || census.Keys[1]["stock"] != 0 || census.Keys[1]["product"] != many || census.Keys[12]["stock"] != many {
		t.Errorf("the census is %v, %v", census, err)
	}
}

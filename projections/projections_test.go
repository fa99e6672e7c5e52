package projections_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"andes/commands/money"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/projections"
)

var times = rapid.Custom(func(t *rapid.T) time.Time {
	return time.UnixMilli(rapid.Int64Range(-1e14, 1e14).Draw(t, "milli")).UTC()
})

func roundTrip[V any](t *testing.T, values *rapid.Generator[V], encode func(V) []byte, decode func(string) (V, error), equal func(a, b V) bool) {
	rapid.Check(t, func(t *rapid.T) {
		value := values.Draw(t, "value")
		text := string(encode(value))
		got, err := decode(text)
		if err != nil || !equal(got, value) {
			t.Fatalf("%q is decoded as %+v, %v", text, got, err)
		}
		cut := rapid.IntRange(0, max(0, len(text)-1)).Draw(t, "cut")
		_, _ = decode(text[:cut]) // whatever it gives, it does not panic
		if _, err := decode(text + " surplus"); err == nil {
			t.Fatalf("%q with a surplus is accepted", text)
		}
	})
}

// doubts are none, or times.
var doubts = rapid.OneOf(rapid.Just(time.Time{}), times)

func same[V comparable](a, b V) bool { return a == b }

func TestStockIsDecodedAsEncoded(t *testing.T) {
	values := rapid.Custom(func(t *rapid.T) projections.Stock {
		return projections.Stock{Net: rapid.Int64().Draw(t, "net"), ChangedAt: times.Draw(t, "at"), DoubtedAt: doubts.Draw(t, "doubt")}
	})
	roundTrip(t, values, projections.EncodeStock, projections.DecodeStock, same)
}

func TestPriceIsDecodedAsEncoded(t *testing.T) {
	values := rapid.Custom(func(t *rapid.T) projections.Price {
		return projections.Price{
			Price:     money.Money{Minor: rapid.Int64().Draw(t, "minor"), Currency: rapid.StringMatching(`[A-Z]{3}`).Draw(t, "currency")},
			ChangedAt: times.Draw(t, "at"), DoubtedAt: doubts.Draw(t, "doubt"),
		}
	})
	roundTrip(t, values, projections.EncodePrice, projections.DecodePrice, same)
}

func TestWatermarkIsDecodedAsEncoded(t *testing.T) {
	roundTrip(t, times, projections.EncodeSource, projections.DecodeSource, time.Time.Equal)
}

func TestProductIsDecodedAsEncoded(t *testing.T) {
	values := rapid.Custom(func(t *rapid.T) projections.Product {
		attributes := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "attributes")
		if len(attributes) == 0 {
			attributes = nil
		}
		return projections.Product{
			SKU: rapid.String().Draw(t, "sku"), Name: rapid.String().Draw(t, "name"),
			Segment: rapid.String().Draw(t, "segment"), Attributes: attributes, ChangedAt: times.Draw(t, "at"),
		}
	})
	roundTrip(t, values, projections.EncodeProduct, projections.DecodeProduct, func(a, b projections.Product) bool {
		return a.SKU == b.SKU && a.Name == b.Name && a.Segment == b.Segment && a.ChangedAt.Equal(b.ChangedAt) && maps.Equal(a.Attributes, b.Attributes)
	})
}

func TestUnreadableValuesAreRefused(t *testing.T) {
	for outcome, value := range map[string]string{
		"empty": "", "no number": "x 1", "one field": "5", "empty field": " 5", "a fraction": "1.5 6", "too large": "99999999999999999999 1",
	} {
		if _, err := projections.DecodeStock(value); err == nil {
			t.Errorf("%s: stock %q is accepted", outcome, value)
		}
	}
	for outcome, value := range map[string]string{
		"length beyond the end": "1 9:short 0: 0:", "negative length": "1 -1:a 0: 0:", "no length": "1 a 0: 0:", "name without value": "1 1:A 1:n 1:s 1:x",
	} {
		if _, err := projections.DecodeProduct(value); err == nil {
			t.Errorf("%s: product %q is accepted", outcome, value)
		}
	}
}

func record[S any](t *testing.T, aggregate *eventstore.Aggregate[S], key string, position int64, state S) eventstore.StateRecord {
	t.Helper()
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	return eventstore.StateRecord{Stream: aggregate.Stream(key), Version: position, Position: position, State: data}
}

func all(t *testing.T) *projections.Set {
	t.Helper()
	set, err := projections.NewSet(projections.All()...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestStatesBecomeEntries(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123).UTC()
	entries, faults := all(t).Entries([]eventstore.StateRecord{
		record(t, stock.Aggregate, "A", 1, stock.State{OnHand: 10, Reserved: 3, Shipped: []stock.Shipment{{Quantity: 2}}, ChangedAt: at}),
		record(t, price.Aggregate, "retail|A", 2, price.State{Price: money.Money{Minor: 255, Currency: "GBP"}, ChangedAt: at}),
		record(t, product.Aggregate, "A", 3, product.State{SKU: "A", Name: "Holder: 2 lights", Segment: "home", ChangedAt: at}),
		record(t, source.Aggregate, source.WMSStock, 4, source.State{SyncedAt: at}),
		record(t, price.Aggregate, "retail|B", 5, price.State{Removed: true}),
		record(t, product.Aggregate, "B", 6, product.State{Removed: true}),
		record(t, source.Aggregate, source.ERPPrices, 7, source.State{Cursor: "c"}),
		{Stream: stock.Aggregate.Stream("gone"), Position: 8},
		record(t, stock.Aggregate, "B", 10, stock.State{OnHand: 1, Delisted: true, ChangedAt: at}),
		record(t, price.Aggregate, "retail|C", 11, price.State{Price: money.Money{Minor: 255, Currency: "GBP"}, Delisted: true, ChangedAt: at}),
		record(t, stock.Aggregate, "D", 12, stock.State{OnHand: 1, ChangedAt: at, LevelAt: at.Add(-time.Second), Doubt: stock.Doubted{At: at}}),
		record(t, price.Aggregate, "retail|D", 13, price.State{Price: money.Money{Minor: 255, Currency: "GBP"}, ChangedAt: at, Doubt: price.Doubted{At: at}}),
		{Stream: eventstore.Stream{Category: "other", Key: "x"}, Position: 9},
	})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var got []string
	for _, entry := range entries {
		text := entry.Key + " = " + string(entry.Value)
		if entry.Value == nil {
			text = entry.Key + " is absent"
		}
		got = append(got, text)
	}
	want := []string{
		"stock:A = 5 1700000000123",
		"price:retail|A = 255 GBP 1700000000123",
		"product:A = 1700000000123 1:A 16:Holder: 2 lights 4:home",
		"source:wms.stock = 1700000000123",
		"price:retail|B is absent", "product:B is absent", "source:erp.prices is absent", "stock:gone is absent",
		"stock:B is absent", "price:retail|C is absent",
		"stock:D = 1 1699999999123 1700000000123", "price:retail|D = 255 GBP 1700000000123 1700000000123",
	}
	if !slices.Equal(got, want) {
		t.Errorf("entries\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if entries[0].Key != projections.StockKey("A") || entries[1].Key != projections.PriceKey("retail", "A") ||
		entries[2].Key != projections.ProductKey("A") || entries[3].Key != projections.SourceKey(source.WMSStock) {
		t.Error("the readers' keys are not those of the entries")
	}
}

func TestARecordThatCannotBeProjectedKeepsNoOtherFromItsEntry(t *testing.T) {
	entries, faults := all(t).Entries([]eventstore.StateRecord{
		{Stream: stock.Aggregate.Stream("broken"), Position: 1, State: []byte(`{"onHand":"many"}`)},
		record(t, stock.Aggregate, "no position", 0, stock.State{OnHand: 1}),
		record(t, stock.Aggregate, "A", 2, stock.State{OnHand: 1}),
	})
	if len(entries) != 1 || entries[0].Key != "stock:A" || len(faults) != 2 {
		t.Fatalf("entries %v, faults %v", entries, faults)
	}
	for _, fault := range faults {
		if eventstore.Classify(fault) != eventstore.Permanent {
			t.Errorf("%v is %s", fault, eventstore.Classify(fault))
		}
	}
}

func TestFaultsOfAListAreReportedTogether(t *testing.T) {
	_, err := projections.NewSet(projections.Stocks, projections.Stocks, projections.Projection{Name: "No Name"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{`"stock" is declared twice`, `"No Name": a name`, `"No Name": category`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
}

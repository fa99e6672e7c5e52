package projections

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"andes/commands/stock"
	"andes/eventstore"
)

// The shorter way gives what decoding gives, for every state that is ever written and for damaged ones.
func TestTheShorterWayGivesTheSame(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		state := stock.State{
			OnHand: rapid.Int64Range(-1e12, 1e12).Draw(t, "on hand"), Reserved: rapid.Int64Range(0, 1e12).Draw(t, "reserved"),
			SourceVersion: rapid.Int64().Draw(t, "version"), ChangedAt: time.UnixMicro(rapid.Int64Range(-1e15, 1e17).Draw(t, "at")).UTC(),
		}
		if rapid.Bool().Draw(t, "the level has a time") {
			state.LevelAt = time.UnixMicro(rapid.Int64Range(-1e15, 1e17).Draw(t, "level at")).UTC()
		}
		switch rapid.IntRange(0, 9).Draw(t, "mark") {
		case 0:
			state.Delisted = true
		case 1:
			state.Absent = true
		case 2:
			state.Doubt = stock.Doubted{SourceVersion: 7, Code: "C", At: state.ChangedAt}
		}
		if rapid.Bool().Draw(t, "something is shipped") {
			state.Shipped = []stock.Shipment{{Version: 1, Quantity: rapid.Int64Range(0, 9).Draw(t, "quantity")}}
		}
		data, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.IntRange(0, 3).Draw(t, "damage") == 0 {
			at := rapid.IntRange(1, len(data)-2).Draw(t, "at")
			data[at] = rapid.SampledFrom([]byte(` "\{}[],:0-9.eEnt`)).Draw(t, "by")
		}
		record := eventstore.StateRecord{Stream: stock.Aggregate.Stream("A"), Version: 1, Position: 1, State: data}
		quick, isQuick := quickStock(data)
		decoded, err := stock.Aggregate.Decode(data)
		if isQuick {
			taken++
			if want := EncodeStock(Stock{Net: decoded.Net(), ChangedAt: decoded.KnownAt()}); err != nil || string(quick) != string(want) {
				t.Fatalf("%s gives %q, decoded it is %q, %v", data, quick, want, err)
			}
		}
		if entry, fault := Stocks.Project(record); (fault == nil) != (err == nil) || isQuick && string(entry.Value) != string(quick) {
			t.Fatalf("%s gives %+v, %v", data, entry, fault)
		}
	})
	if taken == 0 {
		t.Error("the shorter way is never taken")
	}
}

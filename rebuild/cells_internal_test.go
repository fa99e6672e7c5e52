package rebuild

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"andes/projections"
)

// What differs between two sets shows in the cells of the keys that differ, whatever the order.
func TestCellsShowWhereSetsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfDistinct(rapid.StringMatching(`[a-z]{1,6}`), func(key string) string { return key }).Draw(t, "keys")
		one, other := new(cells), new(cells)
		for _, key := range keys {
			one.add(hashOf(key))
		}
		for i := range keys {
			other.add(hashOf(keys[len(keys)-1-i]))
		}
		if *one != *other {
			t.Fatal("equal sets have cells that differ")
		}
		extra := fmt.Sprintf("stock:%d", rapid.Int().Draw(t, "extra"))
		other.add(hashOf(extra))
		differing := 0
		for i := range one {
			if one[i] != other[i] {
				differing++
			}
		}
		if differing != 1 || *one.of(hashOf(extra)) == *other.of(hashOf(extra)) {
			t.Fatalf("%d cells differ by one key", differing)
		}
	})
}

func TestHashesKeepTextsApart(t *testing.T) {
	digest := func(key, text string) uint64 {
		return digestOf(hashOf(key), projections.Entry{Value: []byte{}}, Kept{Text: text, There: true})
	}
	if digest("a", "b") == digest("b", "a") || digest("a", "b") == digest("ab", "") || digest("a", "b") == digest("a", "c") {
		t.Error("different entries have one digest")
	}
	if digest("a", "1 x")+digest("b", "1 y") == digest("a", "1 y")+digest("b", "1 x") {
		t.Error("values that changed places are not noticed")
	}
}

func TestAPaceIsKeptOverAllWhoTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{perSecond: 100, now: time.Now}
		began := time.Now()
		for range 10 {
			if err := p.take(t.Context(), 50); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 4500*time.Millisecond { // the last take is not paid for yet
			t.Errorf("500 at 100 a second took %s", took)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped")
		cancel(stopped)
		if err := p.take(ctx, 1); !errors.Is(err, stopped) {
			t.Errorf("a wait that is stopped gives %v", err)
		}
	})
}

func TestTheRestIsEstimatedFromTheRate(t *testing.T) {
	for _, c := range []struct {
		left      int64
		perSecond float64
		want      time.Duration
	}{{0, 0, 0}, {10, 0, -1}, {10, 5, 2 * time.Second}} {
		if got := estimate(c.left, c.perSecond); got != c.want {
			t.Errorf("%d left at %.0f/s take %s, want %s", c.left, c.perSecond, got, c.want)
		}
	}
}

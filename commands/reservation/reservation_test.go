package reservation_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"andes/commands/reservation"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/memtest"
)

// does is a command made of what an order calls.
type does func(u *eventstore.Unit) error

func (c does) Needs() []eventstore.Stream             { return nil }
func (c does) Decide(u *eventstore.Unit) (any, error) { return nil, c(u) }

func hold(orderID string, lines ...reservation.Line) does {
	return func(u *eventstore.Unit) error { return reservation.Hold(u, orderID, lines, everything) }
}

func everything(net int64) int64 { return net }

func release(orderID string) does {
	return func(u *eventstore.Unit) error { reservation.Release(u, orderID, "test"); return nil }
}

func expire(orderID string) does {
	return func(u *eventstore.Unit) error { reservation.Expire(u, orderID); return nil }
}

func consume(orderID string, versions map[string]int64) does {
	return func(u *eventstore.Unit) error { reservation.Consume(u, orderID, versions); return nil }
}

func line(sku string, quantity int64) reservation.Line {
	return reservation.Line{SKU: sku, Quantity: quantity}
}

func stocked(t memtest.T, levels map[string]int64) *memtest.Store {
	s := memtest.Open(t)
	for sku, onHand := range levels {
		s.Do(t, stock.Report{SKU: sku, OnHand: onHand, SourceVersion: 1, At: s.Now})
	}
	return s
}

func level(t memtest.T, s *memtest.Store, sku string) stock.State {
	got, _ := memtest.State(t, s, stock.Aggregate, sku)
	return got
}

func held(t memtest.T, s *memtest.Store, orderID string) reservation.State {
	got, _ := memtest.State(t, s, reservation.Aggregate, orderID)
	return got
}

func TestLinesOfOneSKUAreMerged(t *testing.T) {
	lines := []reservation.Line{line("B", 1), line("A", 2), line("B", 3), line("A", 3), line("C", 9)}
	before := slices.Clone(lines)
	if got := reservation.Merge(lines); !slices.Equal(got, []reservation.Line{line("A", 5), line("B", 4), line("C", 9)}) {
		t.Errorf("merged %v", got)
	}
	if !slices.Equal(lines, before) {
		t.Errorf("the order's own lines became %v", lines)
	}
	if got := reservation.Merge(nil); len(got) != 0 {
		t.Errorf("nothing became %v", got)
	}
}

func TestMergingKeepsEveryUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.Custom(func(t *rapid.T) reservation.Line {
			return line(rapid.SampledFrom([]string{"A", "B", "a", "Ä"}).Draw(t, "sku"), rapid.Int64Range(1, 9).Draw(t, "quantity"))
		})).Draw(t, "lines")
		want := map[string]int64{}
		for _, l := range lines {
			want[l.SKU] += l.Quantity
		}
		merged := reservation.Merge(lines)
		for _, l := range merged {
			if want[l.SKU] != l.Quantity {
				t.Fatalf("%v became %v", lines, merged)
			}
		}
		if len(merged) != len(want) || !slices.IsSortedFunc(merged, func(a, b reservation.Line) int {
			if a.SKU < b.SKU {
				return -1
			}
			return 1
		}) {
			t.Fatalf("%v became %v", lines, merged)
		}
	})
}

func TestAnOrderIsHeldAsAWholeOrNotAtAll(t *testing.T) {
	s := stocked(t, map[string]int64{"A": 5, "B": 1})
	refusal := s.Refused(t, hold("o-1", line("A", 2), line("B", 1), line("A", 4), line("C", 1)), reservation.CodeInsufficientStock)
	want := []reservation.Shortage{{SKU: "A", Requested: 6, Available: 5}, {SKU: "C", Requested: 1, Available: 0}}
	if got, _ := refusal.Extra["shortages"].([]reservation.Shortage); !slices.Equal(got, want) {
		t.Errorf("shortages %v, want %v", refusal.Extra, want)
	}
	for _, sku := range []string{"A", "B", "C"} {
		if got := level(t, s, sku).Reserved; got != 0 {
			t.Errorf("%d of %s are reserved", got, sku)
		}
	}
	s.Do(t, hold("o-1", line("A", 2), line("B", 1), line("A", 3)))
	if a, b := level(t, s, "A"), level(t, s, "B"); a.Reserved != 5 || a.Net() != 0 || b.Net() != 0 {
		t.Errorf("levels %+v and %+v", a, b)
	}
}

func TestThePolicyLimitsWhatMayBeTaken(t *testing.T) {
	for name, c := range map[string]struct {
		available func(int64) int64
		want      int64
	}{
		"a cap":                         {func(net int64) int64 { return min(net, 2) }, 2},
		"a buffer":                      {func(net int64) int64 { return net - 3 }, 2},
		"a policy that promises a lot":  {func(int64) int64 { return 1000 }, 5},
		"a policy that shows less than": {func(int64) int64 { return 0 }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := stocked(t, map[string]int64{"A": 5})
			command := does(func(u *eventstore.Unit) error {
				return reservation.Hold(u, "o-1", []reservation.Line{line("A", 6)}, c.available)
			})
			refusal := s.Refused(t, command, reservation.CodeInsufficientStock)
			if got := refusal.Extra["shortages"].([]reservation.Shortage)[0].Available; got != c.want {
				t.Errorf("available %d, want %d", got, c.want)
			}
		})
	}
}

func TestUnitsAreGivenBackOrTakenOnce(t *testing.T) {
	endings := map[string]struct {
		end    does
		status reservation.Status
		net    int64
	}{
		"released": {release("o-1"), reservation.Released, 5},
		"expired":  {expire("o-1"), reservation.Expired, 5},
		"consumed": {consume("o-1", map[string]int64{"A": 2}), reservation.Consumed, 3},
	}
	for first, c := range endings {
		for second, later := range endings {
			t.Run(fmt.Sprintf("%s, then %s", first, second), func(t *testing.T) {
				s := stocked(t, map[string]int64{"A": 5})
				s.Do(t, hold("o-1", line("A", 2)))
				s.Do(t, c.end)
				for range 3 {
					s.Do(t, later.end)
				}
				if got := held(t, s, "o-1").Status; got != c.status {
					t.Errorf("status %s, want %s", got, c.status)
				}
				if got := level(t, s, "A"); got.Net() != c.net || got.Reserved != 0 {
					t.Errorf("level %+v, want %d net", got, c.net)
				}
				if got := s.Events(t, reservation.Aggregate.Stream("o-1")); len(got) != 2 {
					t.Errorf("events %v", got)
				}
				s.CheckFolds(t)
			})
		}
	}
}

func TestAnUnknownReservationIsNothingToGiveBack(t *testing.T) {
	s := stocked(t, map[string]int64{"A": 5})
	before := len(s.Log(t))
	for _, command := range []does{release("none"), expire("none"), consume("none", nil)} {
		s.Do(t, command)
	}
	if got := len(s.Log(t)); got != before {
		t.Errorf("%d events were appended", got-before)
	}
}

// The WMS did not say at which version it took the units off: they count as gone until its next level.
func TestUnitsOfAnUntoldVersionAreNotSoldTwice(t *testing.T) {
	s := stocked(t, map[string]int64{"A": 5})
	s.Do(t, hold("o-1", line("A", 2)))
	s.Do(t, consume("o-1", nil))
	if got := level(t, s, "A"); got.Net() != 3 {
		t.Errorf("net %d before the level, want 3", got.Net())
	}
	s.Do(t, stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: s.Now})
	if got := level(t, s, "A"); got.Net() != 3 {
		t.Errorf("net %d after the level, want 3", got.Net())
	}
}

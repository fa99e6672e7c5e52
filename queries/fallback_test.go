package queries_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"andes/commands/money"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
)

// fixture has stock A in the states, 5 units; the copy is empty.
type fixture struct {
	copy     *fakeCopy
	states   *fakeStates
	config   queries.FallbackConfig
	fallback *queries.Fallback

	mu  sync.Mutex
	put []eventstore.StateRecord
}

func newFixture(t *testing.T, change func(*queries.FallbackConfig)) *fixture {
	t.Helper()
	f := &fixture{copy: &fakeCopy{}, states: &fakeStates{}}
	stateOf(f.states, stock.Aggregate, "A", stock.State{OnHand: 7, Reserved: 2, ChangedAt: changed})
	f.config = queries.DefaultFallbackConfig()
	f.config.Copy, f.config.States, f.config.Now = f.copy, f.states, time.Now
	f.config.Logger = slog.New(slog.DiscardHandler)
	f.config.PutBack = func(_ context.Context, records []eventstore.StateRecord) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.put = append(f.put, records...)
		return nil
	}
	if change != nil {
		change(&f.config)
	}
	var err error
	if f.fallback, err = queries.NewFallback(f.config); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) stock(t *testing.T, skus ...string) map[string]queries.StockView {
	t.Helper()
	found, err := f.fallback.Stock(t.Context(), skus)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (f *fixture) putBack() map[string]int64 {
	f.fallback.Close()
	positions := map[string]int64{}
	for _, record := range f.put {
		positions[record.Stream.String()] = record.Position
	}
	return positions
}

func TestWhatTheCopyHasIsAnsweredFromIt(t *testing.T) {
	f := newFixture(t, nil)
	f.copy.found = map[string]queries.StockView{"A": {Net: 3, ChangedAt: changed}}
	f.copy.absent = []string{"B"}
	if found := f.stock(t, "A", "B"); len(found) != 1 || found["A"].Net != 3 {
		t.Errorf("found %v", found)
	}
	if f.states.times() != 0 {
		t.Error("the states are read for what the copy knows")
	}
}

func TestWhatTheCopyLacksIsReadInOneGoAndPutBackWithItsPosition(t *testing.T) {
	f := newFixture(t, nil)
	f.copy.found = map[string]queries.StockView{"C": {Net: 3}}
	found := f.stock(t, "A", "unknown", "C")
	if len(found) != 2 || found["A"] != (queries.StockView{Net: 5, ChangedAt: changed}) || found["C"].Net != 3 {
		t.Errorf("found %v", found)
	}
	if put := f.putBack(); len(put) != 2 || put["stock/A"] != 1 || put["stock/unknown"] != 0 {
		t.Errorf("put back %v", put)
	}
	if f.states.times() != 1 {
		t.Errorf("%d reads of the states, want 1", f.states.times())
	}
}

func TestEveryQuestionIsAnsweredFromTheStates(t *testing.T) {
	f := newFixture(t, nil)
	gbp := money.Money{Minor: 255, Currency: "GBP"}
	stateOf(f.states, price.Aggregate, "retail|A", price.State{Price: gbp, ChangedAt: changed})
	stateOf(f.states, price.Aggregate, "retail|B", price.State{Price: gbp, Removed: true})
	stateOf(f.states, product.Aggregate, "A", product.State{SKU: "A", Name: "Lamp", Segment: "home", ChangedAt: changed})
	stateOf(f.states, product.Aggregate, "B", product.State{SKU: "B", Removed: true})
	stateOf(f.states, source.Aggregate, source.WMSStock, source.State{SyncedAt: changed})
	asked := []string{"A", "B", "C"}
	prices, err := f.fallback.Prices(t.Context(), "retail", asked)
	if err != nil || len(prices) != 1 || prices["A"] != (queries.PriceView{Price: gbp, ChangedAt: changed}) {
		t.Errorf("prices %v, %v", prices, err)
	}
	products, err := f.fallback.Products(t.Context(), asked)
	if err != nil || len(products) != 1 || products["A"].Name != "Lamp" || products["A"].Segment != "home" {
		t.Errorf("products %v, %v", products, err)
	}
	f.copy.behave(func(context.Context) error { return errBroken })
	for feed, want := range map[string]time.Time{source.WMSStock: changed, source.ERPPrices: {}} {
		if at, err := f.fallback.Watermark(t.Context(), feed); err != nil || !at.Equal(want) {
			t.Errorf("watermark of %s is %s, %v", feed, at, err)
		}
	}
	f.fallback.Close()
}

func TestAFailingCopyIsLeftAloneForAWhileAndThenTriedByOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.copy.behave(func(context.Context) error { return errBroken })
		for range 50 {
			if found := f.stock(t, "A"); found["A"].Net != 5 {
				t.Fatalf("found %v", found)
			}
		}
		if asked := f.copy.times(); asked != f.config.RestAfter {
			t.Errorf("the copy was asked %d times, want %d", asked, f.config.RestAfter)
		}
		time.Sleep(f.config.Rest)
		release := make(chan struct{})
		f.copy.behave(func(context.Context) error { <-release; return errBroken })
		var wait sync.WaitGroup
		for range 10 {
			wait.Go(func() { f.stock(t, "A") })
		}
		synctest.Wait()
		if asked := f.copy.times(); asked != f.config.RestAfter+1 {
			t.Errorf("the copy was tried by %d reads, want 1", asked-f.config.RestAfter)
		}
		close(release)
		wait.Wait()
		if put := f.putBack(); len(put) != 0 {
			t.Errorf("%v put back into a copy that fails", put)
		}
	})
}

func TestACopyThatWorksAgainIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.copy.found = map[string]queries.StockView{"A": {Net: 3}}
		f.copy.behave(func(context.Context) error { return errBroken })
		for range f.config.RestAfter {
			f.stock(t, "A")
		}
		f.copy.behave(nil)
		if found := f.stock(t, "A"); found["A"].Net != 5 {
			t.Errorf("the copy is asked while it rests: %v", found)
		}
		time.Sleep(f.config.Rest)
		for range 2 {
			if found := f.stock(t, "A"); found["A"].Net != 3 {
				t.Errorf("the copy is not used after its rest: %v", found)
			}
		}
		f.fallback.Close()
	})
}

func TestAHangingCopyDoesNotCostEveryReadItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.copy.behave(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		began := time.Now()
		for range 100 {
			f.stock(t, "A")
		}
		if took, most := time.Since(began), time.Duration(f.config.RestAfter)*f.config.CopyTimeout; took > most {
			t.Errorf("100 reads took %s, want at most %s", took, most)
		}
		f.fallback.Close()
	})
}

func TestACallerThatGivesUpIsNoFailureOfTheCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.copy.behave(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := f.fallback.Stock(ctx, []string{"A"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			cancel()
		}
		f.copy.behave(nil)
		f.copy.found = map[string]queries.StockView{"A": {Net: 3}}
		if found := f.stock(t, "A"); found["A"].Net != 3 {
			t.Errorf("the copy rests: %v", found)
		}
	})
}

func TestMoreReadsThanThereAreSlotsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *queries.FallbackConfig) { c.ConcurrentReads = 2 })
		release := make(chan struct{})
		f.states.read = func(context.Context) error { <-release; return nil }
		results := make(chan error, 2)
		for i := range 2 {
			go func() {
				_, err := f.fallback.Stock(t.Context(), []string{fmt.Sprint(i)})
				results <- err
			}()
		}
		synctest.Wait()
		began := time.Now()
		_, err := f.fallback.Stock(t.Context(), []string{"A"})
		if !errors.Is(err, queries.ErrSaturated) || !errors.Is(err, eventstore.ErrOverloaded) {
			t.Errorf("error %v, want saturated", err)
		}
		if took := time.Since(began); took != f.config.SlotWait {
			t.Errorf("refused after %s, want %s", took, f.config.SlotWait)
		}
		close(release)
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if found := f.stock(t, "A"); found["A"].Net != 5 {
			t.Errorf("found %v after the crowd", found)
		}
		f.fallback.Close()
	})
}

// One read is under way when they come, and may bring what was true before: they share the next.
func TestReadersOfTheSameKeyShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		release := make(chan struct{})
		f.states.read = func(context.Context) error { <-release; return nil }
		impatient, giveUp := context.WithCancel(t.Context())
		first := make(chan error)
		go func() {
			_, err := f.fallback.Stock(impatient, []string{"A", "B"})
			first <- err
		}()
		synctest.Wait()
		var wait sync.WaitGroup
		for i := range 20 {
			wait.Go(func() {
				if found := f.stock(t, "A", fmt.Sprint(i%2)); found["A"].Net != 5 {
					t.Errorf("found %v", found)
				}
			})
		}
		synctest.Wait()
		giveUp() // the one that the others wait for
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		close(release)
		wait.Wait()
		for key, reads := range f.states.readsByKey() {
			if reads > 2 {
				t.Errorf("%s was read %d times", key, reads)
			}
		}
		f.fallback.Close()
	})
}

// A value that is on its way when a reader comes may be older than the watermark that the reader saw.
func TestNoReaderGetsAValueThatWasReadBeforeItAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		holds := make(chan struct{})
		f.states.read = func(context.Context) error { <-holds; return nil }
		early := make(chan map[string]queries.StockView, 1)
		go func() { early <- f.stock(t, "A") }()
		synctest.Wait() // its value is read, and on its way
		stateOf(f.states, stock.Aggregate, "A", stock.State{OnHand: 3, ChangedAt: changed})
		late := make(chan map[string]queries.StockView, 1)
		go func() { late <- f.stock(t, "A") }()
		synctest.Wait()
		close(holds)
		if found := <-early; found["A"].Net != 5 {
			t.Errorf("the first reader found %v", found)
		}
		if found := <-late; found["A"].Net != 3 {
			t.Errorf("the second reader found %v", found)
		}
		f.fallback.Close()
	})
}

// A slow put-back of an older value is in nobody's way.
func TestAValueIsReadAgainWhileTheLastOneIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *queries.FallbackConfig) {
			c.PutBack = func(ctx context.Context, _ []eventstore.StateRecord) error { <-ctx.Done(); return ctx.Err() }
		})
		f.stock(t, "A")
		stateOf(f.states, stock.Aggregate, "A", stock.State{OnHand: 3, ChangedAt: changed})
		if found := f.stock(t, "A"); found["A"].Net != 3 {
			t.Errorf("found %v", found)
		}
		f.fallback.Close()
	})
}

func TestAFailureOfTheStatesIsTheReadersError(t *testing.T) {
	f := newFixture(t, nil)
	f.states.read = func(context.Context) error { return eventstore.ErrUnavailable }
	if _, err := f.fallback.Stock(t.Context(), []string{"A"}); !errors.Is(err, eventstore.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	f.states.read = nil
	if found := f.stock(t, "A"); found["A"].Net != 5 {
		t.Errorf("found %v after the failure", found)
	}
	f.fallback.Close()
}

func TestInventedSKUsAreNotPutBackWithoutBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *queries.FallbackConfig) { c.AbsentsPerSecond = 10 })
		var skus []string
		for i := range 100 {
			skus = append(skus, fmt.Sprint("invented", i))
		}
		f.stock(t, append(skus, "A")...)
		put := f.putBack()
		if len(put) != 11 || put["stock/A"] != 1 {
			t.Errorf("%d put back: %v", len(put), put)
		}
	})
}

func TestAPutBackThatHangsHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *queries.FallbackConfig) {
			c.ConcurrentPuts = 1
			c.PutBack = func(ctx context.Context, _ []eventstore.StateRecord) error { <-ctx.Done(); return ctx.Err() }
		})
		began := time.Now()
		for i := range 20 {
			f.stock(t, "A", fmt.Sprint(i))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the reads took %s", took)
		}
		f.fallback.Close()
		if took := time.Since(began); took > f.config.PutTimeout {
			t.Errorf("closing took %s", took)
		}
	})
}

// The states are ahead of the copy: what they are in step with vouches for no value of the copy. Here it has a value of
// before the sync, and the one after it is on its way.
func TestAWatermarkOfTheStatesDoesNotVouchForValuesOfTheCopy(t *testing.T) {
	f := newFixture(t, nil)
	f.copy.found = map[string]queries.StockView{"A": {Net: 500, ChangedAt: changed}}
	synced := changed.Add(time.Hour)
	stateOf(f.states, source.Aggregate, source.WMSStock, source.State{SyncedAt: synced})
	expect := func(what string, asOf time.Time, stale bool) {
		t.Helper()
		answers, _, err := queries.Stock(t.Context(), f.fallback, partner.Policy{}, queries.DefaultThresholds, synced, []string{"A"})
		if err != nil || len(answers) != 1 || !answers[0].AsOf.Equal(asOf) || answers[0].Stale != stale {
			t.Errorf("%s: %+v, %v; want as of %s, stale %t", what, answers, err, asOf, stale)
		}
	}
	expect("the copy has no watermark yet", changed, true)
	f.copy.synced = map[string]time.Time{source.WMSStock: synced.Add(-time.Minute)}
	expect("the copy has one", synced.Add(-time.Minute), false)
	f.copy.synced = nil
	expect("the copy was emptied: what held holds on", synced.Add(-time.Minute), false)
	f.copy.behave(func(context.Context) error { return errBroken })
	expect("the copy is away: all comes from the states", synced, false)
	f.fallback.Close()
	for _, record := range f.put {
		if record.Stream.Category == source.Aggregate.Name {
			t.Errorf("%s was put back, past the gate", record.Stream)
		}
	}
}

func TestAWatermarkIsRememberedForAMomentWhileTheCopyRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *queries.FallbackConfig) { c.RestAfter, c.Rest = 1, time.Hour })
		stateOf(f.states, source.Aggregate, source.WMSStock, source.State{SyncedAt: changed})
		f.copy.behave(func(context.Context) error { return errBroken })
		for range 10 {
			if at, err := f.fallback.Watermark(t.Context(), source.WMSStock); err != nil || !at.Equal(changed) {
				t.Errorf("watermark %s, %v", at, err)
			}
		}
		if reads := f.states.times(); reads != 1 {
			t.Errorf("%d reads of the states, want 1", reads)
		}
		time.Sleep(time.Second)
		if _, err := f.fallback.Watermark(t.Context(), source.WMSStock); err != nil || f.states.times() != 2 {
			t.Errorf("%d reads of the states after a second, want 2; %v", f.states.times(), err)
		}
		f.fallback.Close()
	})
}

func TestFaultsOfAFallbackAreReportedTogether(t *testing.T) {
	if _, err := queries.NewFallback(queries.FallbackConfig{ConcurrentReads: -1}); err == nil {
		t.Error("no error")
	}
}

// glancing is a copy that has its stock at hand.
type glancing struct{ *fakeCopy }

func (g glancing) GlanceStock(_ time.Time, feed string, skus []string, seen []queries.Seen[queries.StockView]) (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, sku := range skus {
		view, there := g.found[sku]
		seen[i] = queries.Seen[queries.StockView]{View: view, There: there}
	}
	return g.synced[feed], true
}

func (glancing) GlancePrices(time.Time, string, string, []string, []queries.Seen[queries.PriceView]) (time.Time, bool) {
	return time.Time{}, false
}

func (glancing) GlanceProduct(time.Time, string) (queries.Seen[queries.ProductView], bool) {
	return queries.Seen[queries.ProductView]{}, false
}

// That the copy has no watermark is at hand as well: then the last one that it had holds.
func TestTheLastWatermarkHoldsForWhatIsAtHand(t *testing.T) {
	var copied *fakeCopy
	f := newFixture(t, func(c *queries.FallbackConfig) { copied = c.Copy.(*fakeCopy); c.Copy = glancing{copied} })
	copied.found = map[string]queries.StockView{"A": {Net: 5, ChangedAt: changed}}
	synced := changed.Add(time.Hour)
	for _, step := range []struct {
		has  map[string]time.Time
		want time.Time
	}{
		{nil, changed},
		{map[string]time.Time{source.WMSStock: synced}, synced},
		{nil, synced},
	} {
		copied.mu.Lock()
		copied.synced = step.has
		copied.mu.Unlock()
		if _, err := f.fallback.Watermark(t.Context(), source.WMSStock); err != nil {
			t.Fatal(err)
		}
		answers, _, err := queries.Stock(t.Context(), f.fallback, partner.Policy{}, queries.DefaultThresholds, synced, []string{"A"})
		if err != nil || len(answers) != 1 || !answers[0].AsOf.Equal(step.want) {
			t.Errorf("%+v, %v; want as of %s", answers, err, step.want)
		}
	}
}

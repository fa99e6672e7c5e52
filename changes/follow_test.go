package changes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
)

var allSKUs = []string{"A", "B", "C", "D"}

// follower keeps a copy by the feed.
type follower struct {
	kinds  Kinds
	skus   []string // nil: all
	limit  int
	cursor *Cursor
	copy   map[string]string
}

func (f *follower) of() []string {
	if f.skus != nil {
		return f.skus
	}
	return allSKUs
}

// follow asks an instance once. Where it has to begin anew it reads from another.
func (f *follower) follow(at, other *instance) (Page, error) {
	page, err := at.Page(context.Background(), at.question(f.kinds, f.limit, f.skus...), f.cursor)
	if err != nil {
		return page, err
	}
	if page.Resync != "" {
		f.copy = other.get(f.of())
	} else if err := f.apply(at, page); err != nil {
		return page, err
	}
	text := page.Next.Encode()
	cursor, err := ParseCursor(text)
	f.cursor = &cursor
	return page, err
}

func (f *follower) apply(at *instance, page Page) error {
	ctx, policy, limits := context.Background(), at.policy.Policy, queries.DefaultThresholds
	stocks, gone, err := queries.Stock(ctx, page.Values, policy, limits, at.clock(), page.Stock)
	if err != nil {
		return err
	}
	for _, line := range stocks {
		f.copy["stock "+line.SKU] = fmt.Sprint(line.Available)
	}
	for _, sku := range gone {
		delete(f.copy, "stock "+sku)
	}
	prices, gone, err := queries.Prices(ctx, page.Values, policy, limits, at.clock(), page.Prices)
	if err != nil {
		return err
	}
	for _, line := range prices {
		f.copy["price "+line.SKU] = fmt.Sprint(line.Price)
	}
	for _, sku := range gone {
		delete(f.copy, "price "+sku)
	}
	return nil
}

// right tells how the copy differs from what an instance answers, in the followed kinds.
func (f *follower) right(at *instance) string {
	want := at.get(f.of())
	maps.DeleteFunc(want, func(name, _ string) bool {
		return name[0] == 's' && !f.kinds.Stock || name[0] == 'p' && !f.kinds.Prices
	})
	got := maps.Clone(f.copy)
	maps.DeleteFunc(got, func(name, _ string) bool {
		return name[0] == 's' && !f.kinds.Stock || name[0] == 'p' && !f.kinds.Prices
	})
	if maps.Equal(got, want) {
		return ""
	}
	return fmt.Sprintf("the copy is %v, GET answers %v", got, want)
}

// atRest follows until there is nothing more to hear.
func (f *follower) atRest(w *world) error {
	const rounds = 500
	for n := range rounds {
		at := w.instances[n%len(w.instances)]
		at.look()
		page, err := f.follow(at, w.instances[(n+1)%len(w.instances)])
		if err == nil && page.Empty() && !page.More && f.cursor.CheckAt.IsZero() && f.cursor.Position >= w.end {
			return nil
		}
		w.pass(time.Second)
	}
	return fmt.Errorf("still at %+v of %d after %d rounds", f.cursor, w.end, rounds)
}

func streams() []eventstore.Stream {
	var all []eventstore.Stream
	for _, sku := range allSKUs {
		all = append(all, stock.Aggregate.Stream(sku), stock.Aggregate.Stream(sku), product.Aggregate.Stream(sku),
			price.Aggregate.Stream(price.Key(ourList, sku)), price.Aggregate.Stream(price.Key(otherList, sku)))
	}
	return append(all, order.Aggregate.Stream("o"), order.Aggregate.Stream("p"))
}

// policies are the ways in which an operator changes the partner's.
var policies = []func(w *world) func(*partner.Policy){
	func(*world) func(*partner.Policy) { return func(p *partner.Policy) { p.SafetyBuffer++ } },
	func(*world) func(*partner.Policy) { return func(p *partner.Policy) { p.SafetyBuffer = 0 } },
	func(*world) func(*partner.Policy) {
		return func(p *partner.Policy) {
			p.PriceList = map[string]string{ourList: otherList, otherList: ourList}[p.PriceList]
		}
	},
	func(w *world) func(*partner.Policy) {
		from := w.now.Add(3 * time.Second)
		return func(p *partner.Policy) {
			p.Discounts = []partner.Discount{{SKU: "A", Percent: "10", From: from, Until: from.Add(3 * time.Second)}, {Segment: "segment1", Percent: "20"}}
		}
	},
	func(*world) func(*partner.Policy) { return func(p *partner.Policy) { p.Discounts = nil } },
}

// TestACopyIsRightInTheEnd is the promise of the feed: whatever happens to log, read model, instances,
// policies and followers, in whatever order, whoever applies the pages has in the end what GET answers.
func TestACopyIsRightInTheEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(3)
		followers := []*follower{
			{kinds: Kinds{true, true}, limit: 3},
			{kinds: Kinds{Stock: true}, limit: 1, skus: []string{"A", "B"}},
			{kinds: Kinds{Prices: true}, limit: 100},
		}
		one := func(name string) *instance { return rapid.SampledFrom(w.instances).Draw(rt, name) }
		rt.Repeat(map[string]func(*rapid.T){
			"change": func(rt *rapid.T) {
				for range rapid.IntRange(1, 6).Draw(rt, "times") {
					w.change(rapid.SampledFrom(streams()).Draw(rt, "stream"), rapid.IntRange(0, 9).Draw(rt, "removed") == 0)
				}
			},
			"project":   func(rt *rapid.T) { w.project(rapid.SampledFrom(streams()).Draw(rt, "stream")) },
			"all":       func(*rapid.T) { w.projectAll() },
			"flush":     func(*rapid.T) { clear(w.model); clear(w.earlier) },
			"away":      func(*rapid.T) { w.modelAway = !w.modelAway },
			"no log":    func(*rapid.T) { w.logAway = !w.logAway },
			"remember":  func(*rapid.T) { w.remember() },
			"pass":      func(rt *rapid.T) { w.pass(time.Duration(rapid.IntRange(1, 4000).Draw(rt, "ms")) * time.Millisecond) },
			"pass more": func(rt *rapid.T) { w.pass(time.Duration(rapid.IntRange(5, 100).Draw(rt, "s")) * time.Second) },
			"look":      func(*rapid.T) { one("instance").look() },
			"restart":   func(*rapid.T) { one("instance").restart() },
			"policy":    func(rt *rapid.T) { w.configure(rapid.SampledFrom(policies).Draw(rt, "policy")(w)) },
			"refresh":   func(*rapid.T) { one("instance").policy = w.policy },
			"anew":      func(rt *rapid.T) { rapid.SampledFrom(followers).Draw(rt, "follower").cursor = nil },
			"follow": func(*rapid.T) {
				for _, f := range followers {
					_, _ = f.follow(one("instance"), one("other")) // what fails is tried again
				}
			},
		})
		w.modelAway, w.logAway = false, false
		w.projectAll()
		w.pass(2 * policyTTL)
		for n, f := range followers {
			if err := f.atRest(w); err != nil {
				rt.Fatal(err)
			}
			if wrong := f.right(w.instances[0]); wrong != "" {
				rt.Fatalf("follower %d: %s", n, wrong)
			}
		}
	})
}

// TestAPageIsNeverOlderThanItsChange looks at each page as it comes.
func TestAPageIsNeverOlderThanItsChange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(1)
		at, f := w.instances[0], &follower{kinds: Kinds{Stock: true}, limit: 2}
		rt.Repeat(map[string]func(*rapid.T){
			"change":  func(rt *rapid.T) { w.change(stock.Aggregate.Stream(rapid.SampledFrom(allSKUs).Draw(rt, "sku")), false) },
			"project": func(rt *rapid.T) { w.project(stock.Aggregate.Stream(rapid.SampledFrom(allSKUs).Draw(rt, "sku"))) },
			"flush":   func(*rapid.T) { clear(w.model) },
			"pass":    func(*rapid.T) { w.pass(time.Second) },
			"look":    func(*rapid.T) { at.look() },
			"restart": func(*rapid.T) { at.restart() },
			"follow": func(rt *rapid.T) {
				page, err := f.follow(at, at)
				if err != nil || page.Resync != "" {
					return
				}
				views, _ := page.Values.Stock(t.Context(), page.Stock)
				for _, sku := range page.Stock {
					last := int64(0)
					for _, change := range w.log {
						if change.Stream == stock.Aggregate.Stream(sku) && change.Position <= page.Next.Position {
							last = change.Position
						}
					}
					if views[sku].Net < last {
						rt.Fatalf("%s is told as of %d, it changed at %d", sku, views[sku].Net, last)
					}
				}
			},
		})
	})
}

func TestAFollowerIsToldWhyItBeginsAnew(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, f *follower)
		want   Reason
	}{
		"none yet":        {func(_ *world, f *follower) { f.cursor = nil }, NoCursor},
		"other kinds":     {func(_ *world, f *follower) { f.kinds.Prices = true }, QuestionChanged},
		"other SKUs":      {func(_ *world, f *follower) { f.skus = []string{"A"} }, QuestionChanged},
		"another partner": {func(w *world, _ *follower) { w.instances[0].policy.ID = "other" }, QuestionChanged},
		"another buffer":  {func(w *world, _ *follower) { w.instances[0].policy.Policy.SafetyBuffer = 7 }, PolicyChanged},
		"another discount, which is nothing to stock": {func(w *world, _ *follower) {
			w.instances[0].policy.Policy.Discounts = []partner.Discount{{Percent: "5"}}
		}, ""},
		"too far behind": {func(w *world, _ *follower) {
			for range 60 {
				w.change(stock.Aggregate.Stream("A"), false)
			}
			w.projectAll()
			for range 2 {
				w.instances[0].look()
				w.pass(time.Minute)
			}
		}, CursorTooOld},
		"a log that ended later": {func(w *world, f *follower) { f.cursor.Position = w.end + 100 }, LogRestored},
		"nothing":                {func(*world, *follower) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1)
			at := w.instances[0]
			w.change(stock.Aggregate.Stream("A"), false)
			w.projectAll()
			at.look()
			f := &follower{kinds: Kinds{Stock: true}, limit: 10}
			if _, err := f.follow(at, at); err != nil {
				t.Fatal(err)
			}
			c.change(w, f)
			w.projectAll()
			at.look()
			page, err := f.follow(at, at)
			if err != nil || page.Resync != c.want || page.Resync != "" && len(page.Stock) > 0 {
				t.Errorf("%+v, %v", page, err)
			}
		})
	}
}

func TestChangesOfASKUAreToldOnce(t *testing.T) {
	w := newWorld(1)
	at, f := w.instances[0], &follower{kinds: Kinds{true, true}, limit: 3}
	at.start(DefaultConfig())
	at.look()
	if page, err := f.follow(at, at); err != nil || page.Resync != NoCursor {
		t.Fatal(page, err)
	}
	for range 2 {
		for _, sku := range []string{"B", "A"} {
			w.change(stock.Aggregate.Stream(sku), false)
			w.change(price.Aggregate.Stream(price.Key(otherList, sku)), false)
		}
	}
	w.change(price.Aggregate.Stream(price.Key(ourList, "C")), false)
	w.change(stock.Aggregate.Stream("C"), false)
	w.projectAll()
	at.look()
	page, err := f.follow(at, at)
	if err != nil || !slices.Equal(page.Stock, []string{"B", "A"}) || !slices.Equal(page.Prices, []string{"C"}) || !page.More {
		t.Fatalf("%+v, %v", page, err)
	}
	if page, err = f.follow(at, at); err != nil || !slices.Equal(page.Stock, []string{"C"}) || page.More || page.Next.Position != w.end {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestAChangeWaitsForTheReadModelButNotForEver(t *testing.T) {
	w := newWorld(1)
	at, f := w.instances[0], &follower{kinds: Kinds{Stock: true}, limit: 10}
	at.look()
	_, _ = f.follow(at, at)
	w.change(stock.Aggregate.Stream("A"), false)
	at.look()
	news := at.News(f.cursor.Position)
	if page, err := f.follow(at, at); err != nil || !page.Empty() || at.lag() != 0 {
		t.Fatalf("before the read model has it: %+v, %v", page, err)
	}
	w.now = w.now.Add(at.config.Patience)
	if at.lag() != at.config.Patience {
		t.Errorf("the lag is %s", at.lag())
	}
	at.look()
	select {
	case <-news:
	default:
		t.Error("nobody is told")
	}
	if page, err := f.follow(at, at); err != nil || !slices.Equal(page.Stock, []string{"A"}) || w.model[stock.Aggregate.Stream("A")].position != w.end {
		t.Errorf("%+v, %v; the read model has %+v", page, err, w.model)
	}
}

func TestBeforeTheLogIsFollowedNobodyIsAnswered(t *testing.T) {
	w := newWorld(1)
	if _, err := (&follower{kinds: Kinds{Stock: true}, limit: 1}).follow(w.instances[0], w.instances[0]); err == nil {
		t.Error("a page of nothing")
	}
}

// Clocks differ, and policies are kept: until all instances agree, what was read may be read by another.
func TestWhoeverBeginsAnewBesideAChangeOfPolicyDoesSoOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		twice  bool
	}{
		"nothing changed":                {func(*world) {}, false},
		"the policy changed long ago":    {func(w *world) { w.changedAt = w.now.Add(-2 * time.Minute) }, false},
		"the policy changed just before": {func(w *world) { w.changedAt = w.now.Add(-50 * time.Second) }, true},
		"a discount has just begun": {func(w *world) {
			w.instances[0].policy.Policy.Discounts = []partner.Discount{{Percent: "5", From: w.now.Add(-time.Second)}}
		}, true},
		"a discount has just ended": {func(w *world) {
			w.instances[0].policy.Policy.Discounts = []partner.Discount{{Percent: "5", Until: w.now.Add(-time.Second)}}
		}, true},
		"a discount began a while ago": {func(w *world) {
			w.instances[0].policy.Policy.Discounts = []partner.Discount{{Percent: "5", From: w.now.Add(-time.Minute)}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1)
			at, f := w.instances[0], &follower{kinds: Kinds{true, true}, limit: 10}
			at.look()
			c.change(w)
			var told []Reason
			for range 100 {
				page, err := f.follow(at, at)
				if err != nil {
					t.Fatal(err)
				}
				if page.Resync != "" {
					told = append(told, page.Resync)
				}
				w.now = w.now.Add(time.Second)
			}
			want := []Reason{NoCursor}
			if c.twice {
				want = append(want, PolicyChanged)
			}
			if !slices.Equal(told, want) {
				t.Errorf("%v, want %v", told, want)
			}
		})
	}
}

// beginning is where a new copy begins.
func (i *instance) beginning(t *testing.T) int64 {
	t.Helper()
	page, err := i.Page(t.Context(), i.question(Kinds{Stock: true}, 10), nil)
	if err != nil || page.Resync != NoCursor {
		t.Fatalf("%+v, %v", page, err)
	}
	return page.Next.Position
}

func TestANewCopyBeginsBeforeWhatReadersMayStillKeep(t *testing.T) {
	w := newWorld(1)
	at := w.instances[0]
	at.look()
	w.change(stock.Aggregate.Stream("A"), false)
	w.projectAll()
	at.look()
	if got := at.beginning(t); got >= w.end {
		t.Errorf("at %d, though a reader may keep what was before the change at %d", got, w.end)
	}
	w.now = w.now.Add(at.config.Settled)
	at.look()
	if got := at.beginning(t); got != w.end {
		t.Errorf("at %d of %d, though nobody keeps anything older", got, w.end)
	}
	before := w.end
	w.change(stock.Aggregate.Stream("A"), false)
	w.projectAll()
	at.look()
	if got := at.beginning(t); got != before {
		t.Errorf("at %d, want %d: before the last change", got, before)
	}
}

// An instance that was not there yet when an answer was made that is given again asks the log where it was.
func TestANewCopyBeginsAtTheSamePlaceHoweverYoungTheInstanceIs(t *testing.T) {
	for name, kept := range map[string]time.Duration{"nothing is given again": 0, "answers are given again for five minutes": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1)
			margin := w.instances[0].config.Settled + clockSkew + commitDelay + kept
			for range 30 { // more than the ring has
				w.change(stock.Aggregate.Stream("A"), false)
			}
			before := w.end
			w.now = w.now.Add(margin)
			for range 20 { // more than a new instance looks back
				w.change(stock.Aggregate.Stream("A"), false)
			}
			w.projectAll()
			at := w.instances[0]
			at.config.Kept = func() time.Duration { return kept }
			at.look()
			for range 3 {
				if got := at.beginning(t); got != before {
					t.Errorf("at %d, want %d, where the log was %s ago; it ends at %d", got, before, margin, w.end)
				}
				w.now = w.now.Add(askEvery / 4)
			}
			w.now = w.now.Add(margin)
			at.look()
			w.now = w.now.Add(margin)
			if got := at.beginning(t); got != w.end {
				t.Errorf("at %d of %d, though all is older than any answer", got, w.end)
			}
			w.logAway = true
			if _, err := at.Page(t.Context(), at.question(Kinds{Stock: true}, 10), nil); err == nil {
				t.Error("a place to begin that the log has not told")
			}
		})
	}
}

// What was published before an instance began is looked for in the read model first.
func TestWhoeverBeginsAnewWaitsForAnInstanceThatHasJustBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		for range 30 {
			w.change(stock.Aggregate.Stream("A"), false)
			w.change(stock.Aggregate.Stream("B"), false)
		}
		w.projectAll()
		w.now = w.now.Add(time.Minute)
		at := w.instances[0]
		at.config.Welcome = time.Minute
		if err := at.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := make(chan int64, 1)
		began := time.Now()
		go func() { got <- at.beginning(t) }()
		synctest.Wait()
		at.look()
		if position := <-got; position != w.end || time.Since(began) != 0 {
			t.Errorf("at %d after %s, want %d at once", position, time.Since(began), w.end)
		}
		w.change(stock.Aggregate.Stream("B"), false)
		at.restart()
		at.config.Welcome = time.Minute
		w.modelAway = true
		at.look()
		if position := at.beginning(t); position >= w.end || time.Since(began) != time.Minute {
			t.Errorf("at %d of %d after %s: it waits, but not for ever", position, w.end, time.Since(began))
		}
	})
}

func TestANewCopyBeginsBeforeAnswersThatAreGivenAgain(t *testing.T) {
	w := newWorld(1)
	at := w.instances[0]
	at.look()
	w.change(stock.Aggregate.Stream("A"), false)
	w.projectAll()
	at.look()
	first := w.end
	w.now = w.now.Add(at.config.Settled)
	w.change(stock.Aggregate.Stream("A"), false)
	w.projectAll()
	at.look()
	at.config.Kept = func() time.Duration { return 30 * time.Second }
	w.now = w.now.Add(at.config.Settled + 29*time.Second)
	at.look()
	if got := at.beginning(t); got != first {
		t.Errorf("at %d, want %d: an answer of before the change at %d may be given again", got, first, w.end)
	}
	w.now = w.now.Add(time.Second)
	at.look()
	if got := at.beginning(t); got != w.end {
		t.Errorf("at %d of %d, though no answer is kept longer", got, w.end)
	}
}

func TestANewCopyBeginsBeforeWhatTheReadModelLacks(t *testing.T) {
	w := newWorld(1)
	at, f := w.instances[0], &follower{kinds: Kinds{Stock: true}, limit: 10}
	at.look()
	_, _ = f.follow(at, at)
	w.modelFull = true
	for _, sku := range []string{"A", "B"} {
		w.model[stock.Aggregate.Stream(sku)] = state{} // as it was before the first change
	}
	for range 10 { // more than the ring has
		w.change(stock.Aggregate.Stream("A"), false)
		w.change(stock.Aggregate.Stream("B"), false)
	}
	first := w.log[0].Position
	for range 5 {
		w.now = w.now.Add(at.config.Settled)
		at.look()
	}
	if page, err := f.follow(at, at); err != nil || len(page.Stock) == 0 {
		t.Errorf("who follows is told from the states: %+v, %v", page, err)
	}
	other := &instance{world: w, policy: w.policy}
	other.restart()
	for range 3 {
		w.now = w.now.Add(other.config.Settled)
		other.look()
		if got := other.beginning(t); got >= first {
			t.Fatalf("at %d, though the read model lacks the change at %d", got, first)
		}
	}
	w.projectAll()
	for range 20 {
		w.now = w.now.Add(other.config.Settled)
		other.look()
	}
	if got := other.beginning(t); got != w.end {
		t.Errorf("at %d of %d, though the read model has all", got, w.end)
	}
}

// A policy may also change without an event: in promo mode less is shown.
func TestAnotherPolicyIsABeginningAndOneMoreWhenAllInstancesHaveIt(t *testing.T) {
	w := newWorld(1)
	at, f := w.instances[0], &follower{kinds: Kinds{Stock: true}, limit: 10}
	at.look()
	_, _ = f.follow(at, at)
	at.policy.Policy.VisibleCap = 5
	var told []Reason
	for range 200 {
		page, err := f.follow(at, at)
		if err != nil {
			t.Fatal(err)
		}
		if page.Resync != "" {
			told = append(told, page.Resync)
		}
		w.now = w.now.Add(time.Second)
	}
	if !slices.Equal(told, []Reason{PolicyChanged, PolicyChanged}) {
		t.Errorf("%v", told)
	}
}

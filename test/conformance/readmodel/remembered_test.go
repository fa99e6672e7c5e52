package readmodel

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"andes/adapters/redis"
	"andes/commands/partner"
	"andes/test/redistest"
)

// A process that remembers whole answers tells what one tells that makes each anew, at every moment. Both read the same
// copy here, so an answer that is remembered is between the two that are made just before and just after it.

// parts takes a value apart: its version, and what the policy takes off.
func (i toldItem) parts() (version, off int64) {
	version = (i.value + perVersion - 1) / perVersion
	return version, version*perVersion - i.value
}

// wrongAge tells what is wrong with what the answer says of its own age.
func (a told) wrongAge() error {
	for _, item := range a.items {
		if item.Stale && a.over.Sub(item.AsOf) <= shortThreshold {
			return fmt.Errorf("%s is stale, though %s old", item.SKU, a.over.Sub(item.AsOf))
		}
		// asOf is in milliseconds.
		if !item.Stale && a.began.Sub(item.AsOf) > shortThreshold+time.Millisecond {
			return fmt.Errorf("%s is fresh, though %s old", item.SKU, a.began.Sub(item.AsOf))
		}
	}
	return nil
}

// between asks for an answer that may be remembered between two that are made anew.
func (w *twins) between(caller, target string) {
	w.t.Helper()
	before, got, after := w.ask(w.anew, caller, target), w.ask(w.remembering, caller, target), w.ask(w.anew, caller, target)
	if err := got.wrongAge(); err != nil {
		w.t.Errorf("%s: %v", got.body, err)
	}
	if before.body == after.body {
		w.sandwiches.Add(1)
		if got.body != before.body || got.tag != before.tag {
			w.t.Errorf("%s %s: remembered is %s, made anew %s", caller, target, got.body, before.body)
		}
		return
	}
	w.changes.Add(1)
	for sku, item := range got.items {
		low, lowOff := before.items[sku].parts()
		version, off := item.parts()
		high, highOff := after.items[sku].parts()
		if version < low || high < version || item.AsOf.Before(before.items[sku].AsOf) || after.items[sku].AsOf.Before(item.AsOf) {
			w.t.Errorf("%s %s %s: version %d is not between %d and %d; %s, %s, %s", caller, target, sku, version, low, high,
				before.items[sku].AsOf, item.AsOf, after.items[sku].AsOf)
		}
		if off < lowOff || highOff < off {
			w.t.Errorf("%s %s %s: %d are taken off, which is not between %d and %d", caller, target, sku, off, lowOff, highOff)
		}
	}
}

// remembered gives how many answers were not made anew.
func (w *twins) remembered() (count float64) {
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "andes_remembered_answers_total" {
			count = family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return count
}

// questions are those of which answers are compared.
func questions() (targets []string) {
	for _, what := range []string{"stock", "prices"} {
		for i := range twinSKUs {
			targets = append(targets, "/v1/"+what+"?sku="+twinSKU(i), "/v1/"+what+"?sku="+twinSKU(i)+",none,"+twinSKU((i+1)%twinSKUs))
		}
	}
	return targets
}

// compareWhile compares answers in some goroutines while change is called again and again.
func (w *twins) compareWhile(rounds int, change func(round int)) {
	w.t.Helper()
	var over atomic.Bool
	var wait sync.WaitGroup
	targets, callers := questions(), []string{"plain", "varying", "windows"}
	for reader := range 4 {
		wait.Go(func() {
			for i := reader; !over.Load() && !w.t.Failed(); i++ {
				caller, target := callers[i%len(callers)], targets[i/len(callers)/8%len(targets)]
				w.between(caller, target)
			}
		})
	}
	for round := range rounds {
		change(round)
	}
	over.Store(true)
	wait.Wait()
	w.t.Logf("%d changed meanwhile, %d did not; %.0f answers were remembered", w.changes.Load(), w.sandwiches.Load(), w.remembered())
	if w.remembered() == 0 || w.sandwiches.Load() == 0 || w.changes.Load() == 0 {
		w.t.Errorf("%.0f answers were remembered, %d were compared while nothing changed, %d while something did",
			w.remembered(), w.sandwiches.Load(), w.changes.Load())
	}
}

func (w *twins) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

func TestWhatIsRememberedIsWhatWouldBeMadeNow(t *testing.T) {
	t.Parallel()
	for name, room := range map[string]int{"and all is at hand": 0, "and little is at hand": 4 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := redistest.Config(t)
			config.NearBytes = room
			w := openTwins(t, config, shortThreshold)
			w.must(w.write(t.Context()))
			pause := time.NewTicker(2 * time.Millisecond)
			defer pause.Stop()
			w.compareWhile(1500, func(round int) {
				<-pause.C
				switch {
				case round%50 < 20: // for a while only time passes
				case round%50 == 33:
					w.must(w.rebuild(t.Context()))
				case round%3 == 0:
					w.must(w.sync(t.Context()))
				case round%4 == 0:
					w.must(w.change(t.Context()))
				case round%5 == 0:
					w.must(w.write(t.Context()))
				case round%7 == 0:
					w.policies.Store("varying", partner.Policy{PriceList: "retail", Currency: "GBP", SafetyBuffer: int64(round / 2)})
				}
			})
		})
	}
}

// isOf tells whether the answer has values of no other version, and any; 0: it has none.
func (a told) isOf(version int64) bool {
	return !a.isOfAnother(version) && (version > 0) == (len(a.items) > 0)
}

func (a told) isOfAnother(version int64) bool {
	for _, item := range a.items {
		if found, _ := item.parts(); found != version {
			return true
		}
	}
	return false
}

// settles waits until answers that are made anew are of the version. What was remembered is so then, too.
func (w *twins) settles(version int64, lately string) {
	w.t.Helper()
	for _, target := range questions() {
		var anew, got told
		if !redistest.Eventually(recoveryWait, func() bool {
			anew = w.ask(w.anew, "plain", target)
			got = w.ask(w.remembering, "plain", target)
			return anew.isOf(version)
		}) {
			w.t.Fatalf("after Redis was %s, %s is answered %s", lately, target, anew.body)
		}
		if got.isOfAnother(version) {
			w.t.Errorf("after Redis was %s, %s is answered by what is remembered: %s", lately, target, got.body)
		}
	}
}

func TestNothingIsRememberedBeyondWhatRedisSays(t *testing.T) {
	t.Parallel()
	for name, break_ := range map[string]func(*redistest.Server){
		"flushed":                  func(s *redistest.Server) { s.Must("FLUSHALL") },
		"killed and started empty": func(s *redistest.Server) { s.Kill(); s.Start() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			w := openTwins(t, redis.Config{Addrs: []string{server.Addr}}, time.Hour)
			for range 5 {
				before := w.remembered()
				if !redistest.Eventually(recoveryWait, func() bool { return w.write(t.Context()) == nil }) {
					t.Fatal("Redis takes nothing")
				}
				w.settles(w.version.Load(), "written")
				w.settles(w.version.Load(), "written")
				if w.remembered() == before {
					t.Error("nothing is remembered")
				}
				break_(server)
				w.settles(0, name)
			}
		})
	}
}

// Nobody asks for anything but what is remembered here: a switch must end it by itself.
func TestASwitchOfTheGenerationEndsWhatIsRemembered(t *testing.T) {
	t.Parallel()
	w := openTwins(t, redistest.Config(t), time.Hour)
	w.must(w.write(t.Context()))
	for range 5 {
		before := w.remembered()
		if !redistest.Eventually(recoveryWait, func() bool {
			w.ask(w.remembering, "plain", questions()[0])
			return w.remembered() > before
		}) {
			t.Fatal("nothing is remembered")
		}
		w.must(w.rebuild(t.Context()))
		var got told
		if !redistest.Eventually(recoveryWait, func() bool {
			got = w.ask(w.remembering, "plain", questions()[0])
			return got.isOf(w.version.Load())
		}) {
			t.Fatalf("%s, want version %d", got.body, w.version.Load())
		}
	}
}

package redis_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"andes/adapters/redis"
	"andes/commands/money"
	"andes/commands/source"
	"andes/projections"
	"andes/queries"
	"andes/test/redistest"
)

// patience bounds a wait for what Redis says, on a machine that is busy.
const patience = time.Minute

// shop is a reader, and a writer in what could be another process: it has a client of its own.
type shop struct {
	t      *testing.T
	config redis.Config
	reader *redis.Reader
	model  *redis.ReadModel
}

func newShop(t *testing.T, config redis.Config) *shop {
	t.Helper()
	return &shop{t, config, redis.NewReader(redistest.Open(t, config)), newModel(t, redistest.Open(t, config), redis.ReadModelConfig{})}
}

func (s *shop) synced(position int64, at time.Time) projections.Entry {
	return projections.Entry{Key: projections.SourceKey(source.WMSStock), Position: position, Value: projections.EncodeSource(at)}
}

// open writes a SKU and the watermark, and reads them until they are at hand.
func (s *shop) open(sku string) {
	s.t.Helper()
	apply(s.t, s.model, stockEntry(sku, 1, 1), s.synced(1, changed))
	s.atHand(sku, 1)
}

// glance gives a SKU's net stock when it is at hand.
func (s *shop) glance(sku string) (queries.StockView, time.Time, bool) {
	seen := make([]queries.Seen[queries.StockView], 1)
	synced, ok := s.reader.GlanceStock(time.Now(), source.WMSStock, []string{sku}, seen)
	return seen[0].View, synced, ok && seen[0].There
}

// read is what a query does: it glances, and asks when that does not tell.
func (s *shop) read(sku string) (queries.StockView, time.Time, error) {
	if view, synced, ok := s.glance(sku); ok {
		return view, synced, nil
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	synced, _, err := s.reader.Watermark(ctx, source.WMSStock)
	if err != nil {
		return queries.StockView{}, synced, err
	}
	copied, err := s.reader.Stock(ctx, []string{sku})
	return copied.Found[sku], synced, err
}

// atHand reads until the stock is at hand, and is what it should be.
func (s *shop) atHand(sku string, net int64) {
	s.t.Helper()
	var last string
	arrived := redistest.Eventually(patience, func() bool {
		if view, _, ok := s.glance(sku); ok && view.Net == net {
			return true
		}
		view, _, err := s.read(sku)
		last = fmt.Sprintf("%d, %v", view.Net, err)
		return false
	})
	if !arrived {
		s.t.Fatalf("%s is not at hand with %d, but %s", sku, net, last)
	}
}

func TestWhatIsReadIsAtHandUntilItChanges(t *testing.T) {
	t.Parallel()
	s := newShop(t, redistest.Config(t))
	s.open("A")
	apply(t, s.model, stockEntry("A", 2, 2))
	s.atHand("A", 2)
	apply(t, s.model, projections.Entry{Key: projections.StockKey("A"), Position: 3}) // removed
	if !redistest.Eventually(patience, func() bool { _, _, ok := s.glance("A"); return !ok }) {
		t.Error("what was removed stays at hand")
	}
	apply(t, s.model, stockEntry("A", 4, 4), s.synced(4, changed.Add(time.Minute)))
	s.atHand("A", 4)
	if !redistest.Eventually(patience, func() bool { _, synced, _ := s.read("A"); return synced.Equal(changed.Add(time.Minute)) }) {
		t.Error("the new watermark does not arrive")
	}
}

func TestAProcessReadsWhatItWrote(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	model, reader := newModel(t, client, redis.ReadModelConfig{}), redis.NewReader(client)
	for n := range int64(200) {
		apply(t, model, stockEntry("A", n+1, n))
		copied, err := reader.Stock(t.Context(), []string{"A"})
		if err != nil || copied.Found["A"].Net != n {
			t.Fatalf("%+v, %v, want %d", copied, err, n)
		}
	}
}

func TestKeysOfEveryKindAreToldApart(t *testing.T) {
	t.Parallel()
	s := newShop(t, redistest.Config(t))
	odd := []string{"A", "a:b", "a|b", "{a}", "}a{", "1:stock:A", "stock:A", " ", "ü"}
	gbp := money.Money{Minor: 1, Currency: "GBP"}
	write := func(position int64, net int64) {
		entries := []projections.Entry{s.synced(position, changed)}
		for i, sku := range odd {
			price := projections.Price{Price: gbp, ChangedAt: changed}
			price.Price.Minor = net + int64(i)
			entries = append(entries, stockEntry(sku, position, net+int64(i)),
				projections.Entry{Key: projections.PriceKey("list", sku), Position: position, Value: projections.EncodePrice(price)})
		}
		apply(t, s.model, entries...)
	}
	prices := func(sku string) (queries.PriceView, bool) {
		copied, err := s.reader.Prices(t.Context(), "list", []string{sku})
		if err != nil {
			t.Fatal(err)
		}
		_, _, _ = s.reader.Watermark(t.Context(), source.WMSStock)
		seen := make([]queries.Seen[queries.PriceView], 1)
		_, ok := s.reader.GlancePrices(time.Now(), source.WMSStock, "list", []string{sku}, seen)
		return seen[0].View, ok && seen[0].There && copied.Found[sku] == seen[0].View
	}
	for round := range int64(3) {
		write(round+1, 100*round)
		for i, sku := range odd {
			want := 100*round + int64(i)
			s.atHand(sku, want)
			if !redistest.Eventually(patience, func() bool { view, ok := prices(sku); return ok && view.Price.Minor == want }) {
				t.Errorf("the price of %q is not at hand", sku)
			}
		}
	}
}

func TestASwitchOfTheGenerationIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	s := newShop(t, config)
	s.open("A")
	other := redistest.Open(t, config)
	rebuilt := newModel(t, other, redis.ReadModelConfig{})
	if err := rebuilt.ApplyTo(t.Context(), 2, []projections.Entry{stockEntry("A", 1, 7), s.synced(1, changed)}); err != nil {
		t.Fatal(err)
	}
	first, err := other.Generations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := projections.Generations{Lineage: projections.Lineage{Serving: 2, Others: []projections.Generation{1}}}
	if err := other.Repoint(t.Context(), first, second); err != nil {
		t.Fatal(err)
	}
	s.atHand("A", 7)
	apply(t, s.model, stockEntry("A", 2, 8)) // to both
	s.atHand("A", 8)
	if err := other.Repoint(t.Context(), second, first); err != nil {
		t.Fatal(err)
	}
	s.atHand("A", 8)
}

// Whatever is pushed while nobody listens is lost, so a connection that breaks takes all with it.
func TestAConnectionThatIsKilledTakesWhatWasAtHandWithIt(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	s := newShop(t, redis.Config{Addrs: []string{server.Addr}})
	s.open("A")
	for n := range int64(20) {
		server.Must("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		server.Must("SET", keyOf(t, server, "*:stock:A"), fmt.Sprintf("%d %d %d", n+2, n+2, changed.UnixMilli()))
		s.atHand("A", n+2)
	}
}

// keyOf gives the one key that the pattern fits.
func keyOf(t *testing.T, server *redistest.Server, pattern string) string {
	t.Helper()
	keys, err := server.Must("KEYS", pattern).AsStrSlice()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%q %v", keys, err)
	}
	return keys[0]
}

func TestARedisThatIsStartedAgainOrFlushedIsAskedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	s := newShop(t, redis.Config{Addrs: []string{server.Addr}})
	for n, lose := range []func(){
		func() { server.Kill(); server.Start() },
		func() { server.Must("FLUSHALL") },
	} {
		position := int64(10 * (n + 1))
		applyAtLast(t, s.model, stockEntry("A", position, position), s.synced(position, changed))
		s.atHand("A", position)
		lose()
		if !redistest.Eventually(patience, func() bool { _, _, ok := s.glance("A"); return !ok }) {
			t.Error("what is gone is at hand")
		}
		applyAtLast(t, s.model, stockEntry("A", position+1, 5), s.synced(position+1, changed))
		s.atHand("A", 5)
	}
}

// A Redis of which nothing is heard may change what it pleases, so what is at hand is not relied on for long.
func TestWhatIsAtHandIsNotReliedOnWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	s := newShop(t, redis.Config{Addrs: []string{server.Addr}, StallTimeout: 500 * time.Millisecond})
	applyAtLast(t, s.model, stockEntry("A", 1, 1), s.synced(1, changed)) // a busy machine may be silent for as long
	s.atHand("A", 1)
	server.Hang()
	defer server.Resume()
	if !redistest.Eventually(patience, func() bool { _, _, ok := s.glance("A"); return !ok }) {
		t.Error("it is relied on")
	}
}

// A hot SKU changes all the time and is read all the time: no reader goes back in time, none sees a watermark that is
// newer than its value, and when the changes end all see the last one.
func TestABurstOfWritesToHotKeysTakesNobodyBackInTime(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) redis.Config{
		"one server": func(t *testing.T) redis.Config { return redistest.Config(t) },
		"a cluster": func(t *testing.T) redis.Config {
			var addrs []string
			for _, server := range redistest.StartCluster(t, 3) {
				addrs = append(addrs, server.Addr)
			}
			return redis.Config{Addrs: addrs}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			burst(t, newShop(t, open(t)))
		})
	}
}

func burst(t *testing.T, s *shop) {
	const skus, rounds, readers = 5, 300, 4
	sku := func(i int) string { return "S" + strconv.Itoa(i) }
	// In each round all SKUs get the round's number, and then the watermark says so.
	round := func(n int64) {
		entries := make([]projections.Entry, skus)
		for i := range entries {
			entries[i] = stockEntry(sku(i), n, n)
		}
		apply(t, s.model, entries...)
		apply(t, s.model, s.synced(n, changed.Add(time.Duration(n)*time.Second)))
	}
	round(1)
	var glanced atomic.Int64
	var over atomic.Bool
	var wait sync.WaitGroup
	for reader := range readers {
		wait.Go(func() {
			var seen [skus]int64
			for i := reader; !over.Load(); i++ {
				of := i % skus
				_, _, quick := s.glance(sku(of))
				if quick {
					glanced.Add(1)
				}
				view, synced, err := s.read(sku(of))
				if err != nil {
					t.Error(err)
					return
				}
				if view.Net < seen[of] {
					t.Errorf("%s has %d after %d", sku(of), view.Net, seen[of])
				}
				if vouched := int64(synced.Sub(changed) / time.Second); view.Net < vouched {
					t.Errorf("%s has %d, and the watermark is of %d", sku(of), view.Net, vouched)
				}
				seen[of] = view.Net
			}
		})
	}
	for n := range int64(rounds) {
		round(n + 2)
	}
	for i := range skus {
		s.atHand(sku(i), rounds+1)
	}
	over.Store(true)
	wait.Wait()
	if glanced.Load() == 0 {
		t.Error("nothing was ever at hand")
	}
}

func TestWhatIsAtHandIsBounded(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	config.NearBytes = 100 << 10
	s := newShop(t, config)
	const many = 2000
	var skus []string
	for i := range many {
		skus = append(skus, fmt.Sprintf("SKU-%04d", i))
		apply(t, s.model, stockEntry(skus[i], 1, int64(i)))
	}
	apply(t, s.model, s.synced(1, changed))
	copied, err := s.reader.Stock(t.Context(), skus)
	if err != nil || len(copied.Found) != many {
		t.Fatalf("%d found, %v", len(copied.Found), err)
	}
	s.atHand(skus[0], 0) // it also has the watermark read
	kept := 0
	for _, sku := range skus {
		if _, _, ok := s.glance(sku); ok {
			kept++
		}
	}
	if most := config.NearBytes / 256; kept == 0 || kept > most {
		t.Errorf("%d SKUs are at hand, want some and at most %d", kept, most)
	}
}

// A value of which Redis says that it changed while it was on its way here is answered, but not kept.
func TestWhatChangesWhileItIsReadIsNotKept(t *testing.T) {
	t.Parallel()
	s := newShop(t, redistest.Config(t))
	s.open("A")
	var wait sync.WaitGroup
	for n := range int64(500) {
		wait.Go(func() { _, _, _ = s.read("A") })
		apply(t, s.model, stockEntry("A", n+2, n+2))
	}
	wait.Wait()
	s.atHand("A", 501)
}

// Field case REDIS-01.
func TestASlotThatMovesTakesWhatWasAtHandWithIt(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3)
	s := newShop(t, redis.Config{Addrs: []string{servers[0].Addr}})
	const skus = 100
	write := func(net int64) {
		entries := []projections.Entry{s.synced(net, changed)}
		for i := range skus {
			entries = append(entries, stockEntry(strconv.Itoa(i), net, net))
		}
		apply(t, s.model, entries...)
	}
	for round := range int64(3) {
		write(round + 1)
		for i := range skus {
			s.atHand(strconv.Itoa(i), round+1)
		}
		moveSlots(t, servers[round], servers[(round+1)%3])
	}
}

// hold gives what an answer about the SKU is made of, once that is at hand.
func (s *shop) hold(sku string) queries.Held {
	s.t.Helper()
	var held queries.Held
	if !redistest.Eventually(patience, func() bool {
		_, _, _ = s.read(sku)
		held = s.reader.HoldStock(time.Now(), source.WMSStock, []string{sku})
		return held != nil && held.Holds(time.Now())
	}) {
		s.t.Fatal("nothing is held")
	}
	return held
}

// What an answer is made of holds until any part of it changes: the value, the watermark, the generation, the connection.
func TestWhatIsHeldIsHeldUntilAnyOfItChanges(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	s := newShop(t, redis.Config{Addrs: []string{server.Addr}})
	s.open("A")
	applyAtLast(t, s.model, stockEntry("B", 1, 1))
	position := int64(1)
	other := redistest.Open(t, s.config)
	for name, change := range map[string]func(){
		"value": func() { position++; applyAtLast(t, s.model, stockEntry("A", position, position)) },
		"removal": func() {
			position++
			applyAtLast(t, s.model, projections.Entry{Key: projections.StockKey("A"), Position: position})
		},
		"watermark": func() { position++; applyAtLast(t, s.model, s.synced(position, changed.Add(time.Duration(position)))) },
		"pointer": func() {
			before, err := other.Generations(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			after := before
			after.Lineage = projections.Lineage{Serving: before.Lineage.Serving, Others: append([]projections.Generation{99}, before.Lineage.Others...)}
			if err := other.Repoint(t.Context(), before, after); err != nil {
				t.Fatal(err)
			}
		},
		"connections": func() { server.Must("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") },
		"flush":       func() { server.Must("FLUSHALL") },
	} {
		position++
		applyAtLast(t, s.model, stockEntry("A", position, position), s.synced(position, changed))
		held := s.hold("A")
		change()
		if !redistest.Eventually(patience, func() bool { return !held.Holds(time.Now()) }) {
			t.Errorf("%s: it is held still", name)
		}
		if held.Holds(time.Now()) {
			t.Errorf("%s: it is held again", name)
		}
	}
	position++
	applyAtLast(t, s.model, stockEntry("A", position, position), stockEntry("B", position, position), s.synced(position, changed))
	s.atHand("A", position)
	s.atHand("B", position)
	held := s.hold("A")
	position++
	applyAtLast(t, s.model, stockEntry("B", position, position))
	s.atHand("B", position)
	if !held.Holds(time.Now()) {
		t.Error("a change of another SKU counts")
	}
	if held.Holds(time.Now().Add(time.Hour)) {
		t.Error("it is held for ever")
	}
}

// A feed that never was in step has no watermark, and its values are at hand all the same; the first watermark is seen.
func TestThatThereIsNoWatermarkYetIsAtHand(t *testing.T) {
	t.Parallel()
	s := newShop(t, redistest.Config(t))
	apply(t, s.model, stockEntry("A", 1, 1))
	s.atHand("A", 1)
	if _, synced, ok := s.glance("A"); !ok || !synced.IsZero() {
		t.Errorf("in step at %s, %t", synced, ok)
	}
	if at, known, err := s.reader.Watermark(t.Context(), source.WMSStock); known || !at.IsZero() || err != nil {
		t.Errorf("in step at %s, %t, %v", at, known, err)
	}
	held := s.hold("A")
	apply(t, s.model, s.synced(2, changed))
	if !redistest.Eventually(patience, func() bool {
		_, _, _ = s.read("A")
		_, synced, ok := s.glance("A")
		return ok && synced.Equal(changed) && !held.Holds(time.Now())
	}) {
		t.Error("the first watermark is not seen")
	}
}

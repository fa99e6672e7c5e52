package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"andes/adapters/redis"
	"andes/quota"
	"andes/test/redistest"
)

var reads = quota.Key{Group: quota.Reads, Partner: "acme"}

// The script and the model in Go must agree to the last digit, by the server's own times.
// Field case RATE-01.
func TestTheQuotaScriptDoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	store, raw := redis.NewQuota(redistest.Open(t, config)), redistest.Raw(t, config.Addrs...)
	key := config.Prefix + "quota:reads:model"
	rapid.Check(t, func(rt *rapid.T) {
		kept, model := seeds(rt), quota.Level{}
		if kept == "" {
			raw.Do(t.Context(), raw.B().Del().Key(key).Build())
		} else {
			raw.Do(t.Context(), raw.B().Set().Key(key).Value(kept).Build())
			_, _ = fmt.Sscanf(kept, "%d %d", &model.Used, &model.At)
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			limit := quota.Limit{PerSecond: rapid.Int64Range(1, 1_000_000).Draw(rt, "rate")}
			limit.Burst = limit.PerSecond * rapid.Int64Range(1, 60).Draw(rt, "seconds")
			cost, extra := rapid.Int64Range(0, limit.Burst+2).Draw(rt, "cost"), rapid.Int64Range(0, limit.Burst).Draw(rt, "extra")
			level, granted, err := store.Take(t.Context(), quota.Key{Group: quota.Reads, Partner: "model"}, limit, cost, extra)
			if err != nil {
				rt.Fatal(err)
			}
			var want int64
			if model, want = limit.Take(model, level.At, cost, extra); granted != want || level != model {
				rt.Fatalf("granted %d and left %+v, the model %d and %+v", granted, level, want, model)
			}
			lives, err := raw.Do(t.Context(), raw.B().Pttl().Key(key).Build()).AsInt64()
			if err != nil || lives == forEver || time.Duration(lives)*time.Millisecond > limit.Full(level)+1500*time.Millisecond {
				rt.Fatalf("the key lives for %d ms, %v", lives, err)
			}
		}
	})
}

// forEver is the PTTL of a key without a time to live. One whose time is over by now has another one: none is left.
const forEver = -1

// seeds draws what may be under the key: nothing, a level, one from the future or beyond every burst.
func seeds(rt *rapid.T) string {
	now := time.Now().UnixMicro()
	switch rapid.IntRange(0, 3).Draw(rt, "seed") {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%d %d", rapid.Int64Range(0, 1e12).Draw(rt, "used"), now-rapid.Int64Range(0, 5e6).Draw(rt, "ago"))
	case 2:
		return fmt.Sprintf("%d %d", rapid.Int64Range(0, 1e15).Draw(rt, "used"), now+rapid.Int64Range(1e9, 1e12).Draw(rt, "ahead"))
	default:
		return fmt.Sprintf("%d 0", rapid.Int64Range(0, 1e15).Draw(rt, "used"))
	}
}

// Field case RATE-01: a counter without a time to live blocks a client for ever.
func TestWhateverIsUnderAQuotasKeyMendsItself(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	store, raw := redis.NewQuota(redistest.Open(t, config)), redistest.Raw(t, config.Addrs...)
	limit := quota.Limit{PerSecond: 20, Burst: 20}
	for name, words := range map[string][]string{
		"a huge number":  {"SET", "", "999999999999999999999"},
		"a huge level":   {"SET", "", "999999999999999 99999999999999999"},
		"another kind":   {"HSET", "", "a", "1"},
		"an empty value": {"SET", "", ""},
		"nonsense":       {"SET", "", "1 2 3"},
	} {
		partner := strings.ReplaceAll(name, " ", "-")
		words[1] = config.Prefix + "quota:reads:" + partner
		if err := raw.Do(t.Context(), raw.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		works := func() bool {
			_, granted, err := store.Take(t.Context(), quota.Key{Group: quota.Reads, Partner: partner}, limit, 1, 0)
			return err == nil && granted == 1
		}
		if !redistest.Eventually(patience, works) {
			t.Errorf("%s: still refused", name)
		}
		lives, err := raw.Do(t.Context(), raw.B().Pttl().Key(words[1]).Build()).AsInt64()
		if err != nil || lives == forEver || lives > 3000 {
			t.Errorf("%s: the key lives for %d ms, %v", name, lives, err)
		}
	}
}

func TestKeysOfQuotasHaveThePrefixAndNameNoChannel(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	store, raw := redis.NewQuota(redistest.Open(t, config)), redistest.Raw(t, config.Addrs...)
	limit := quota.Limit{PerSecond: 1, Burst: 60}
	for _, key := range []quota.Key{
		reads, {Group: quota.Orders, Partner: "acme"}, {Group: quota.Reads, Partner: "acme", Channel: "ada@example.test"}, {Group: quota.Reads, Partner: "acme", Channel: "shop"},
	} {
		if _, granted, err := store.Take(t.Context(), key, limit, limit.Burst, 0); err != nil || granted != limit.Burst {
			t.Errorf("%+v: granted %d, %v", key, granted, err)
		}
		if _, granted, err := store.Take(t.Context(), key, limit, limit.Burst, 0); err != nil || granted != 0 {
			t.Errorf("%+v again: granted %d, %v", key, granted, err)
		}
	}
	keys, err := raw.Do(t.Context(), raw.B().Keys().Pattern(config.Prefix+"quota:*").Build()).AsStrSlice()
	if err != nil || len(keys) != 4 || strings.Contains(strings.Join(keys, " "), "ada") {
		t.Errorf("%q, %v", keys, err)
	}
}

func TestQuotasInACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3)
	store := redis.NewQuota(redistest.Open(t, redis.Config{Addrs: []string{servers[0].Addr, servers[1].Addr}}))
	limit := quota.Limit{PerSecond: 1, Burst: 60}
	for i := range 300 {
		if _, granted, err := store.Take(t.Context(), quota.Key{Group: quota.Reads, Partner: fmt.Sprint("p", i)}, limit, 60, 0); err != nil || granted != 60 {
			t.Fatalf("granted %d, %v", granted, err)
		}
	}
	for _, server := range servers {
		if keys, err := server.Must("DBSIZE").AsInt64(); err != nil || keys < 50 {
			t.Errorf("a master of three has %d of 300 keys, %v", keys, err)
		}
	}
}

// newQuotas gives an instance: its clock may be wrong by skew.
func newQuotas(t *testing.T, client *redis.Client, skew time.Duration, change ...func(*quota.Config)) *quota.Quotas {
	t.Helper()
	config := quota.DefaultConfig()
	tiers, err := quota.ParseTiers(quota.DefaultTiers, 1)
	if err != nil {
		t.Fatal(err)
	}
	config.Tiers, config.Store, config.Logger = tiers, redis.NewQuota(client), slog.New(slog.DiscardHandler)
	config.Now = func() time.Time { return time.Now().Add(skew) }
	config.Wait = patience // the machine may be busy; what is slow is tried elsewhere
	for _, c := range change {
		c(&config)
	}
	quotas, err := quota.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(quotas.Close)
	return quotas
}

// emptied follows when a quota was seen empty, which it refuses by: it lost nothing of its rate but what it would have
// got while it was full, and that needs a second without refusals.
type emptied struct {
	mu    sync.Mutex
	last  time.Time
	times int
	lost  time.Duration // at most
}

// refused notes an answer that was asked for and given at these times.
func (e *emptied) refused(asked, given time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost += max(0, given.Sub(e.last)-time.Second)
	e.times++
	if asked.After(e.last) {
		e.last = asked
	}
}

// Field case RATE-03: three instances whose clocks differ share one quota, without a boundary where twice passes.
func TestInstancesWithWrongClocksShareOneQuota(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	var instances []*quota.Quotas
	for _, skew := range []time.Duration{0, 2 * time.Second, -time.Hour} {
		instances = append(instances, newQuotas(t, redistest.Open(t, config), skew))
	}
	var allowed atomic.Int64
	began := time.Now()
	empty := emptied{last: began}
	until := began.Add(2 * time.Second)
	var callers sync.WaitGroup
	for _, instance := range instances {
		for range 2 {
			callers.Go(func() {
				for time.Now().Before(until) {
					asked := time.Now()
					verdict := instance.Take(context.Background(), quota.Ask{Key: reads, Tier: "bronze", Cost: 1})
					if verdict.By == quota.ByLocal || verdict.By == quota.ByClient && !verdict.Allowed && verdict.RetryAfter > time.Second {
						t.Errorf("%+v", verdict)
					}
					if verdict.Allowed {
						allowed.Add(1)
					} else {
						empty.refused(asked, time.Now())
					}
				}
			})
		}
	}
	callers.Wait()
	took := time.Since(began).Seconds()
	least := 0.0
	if empty.times > 0 { // else this machine asked for less than the quota
		least = 20 + 20*(empty.last.Sub(began)-empty.lost-300*time.Millisecond).Seconds() - 1
	}
	if most := 20 + 20*took + 1; float64(allowed.Load()) > most || float64(allowed.Load()) < least {
		t.Errorf("%d passed in %.2f s, %.0f to %.0f may", allowed.Load(), took, least, most)
	}
}

// counted is a store that counts what it is asked.
type counted struct {
	quota.Store
	asked atomic.Int64
}

func (c *counted) Take(ctx context.Context, key quota.Key, limit quota.Limit, cost, extra int64) (quota.Level, int64, error) {
	c.asked.Add(1)
	return c.Store.Take(ctx, key, limit, cost, extra)
}

// Field case RATE-04: a store that is stopped, one that hangs, and one that comes back empty.
func TestQuotasOutliveTheirRedis(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		begin, end func(*redistest.Server)
		costly     bool // each question costs its wait
	}{
		"stopped": {(*redistest.Server).Kill, (*redistest.Server).Start, false},
		"hanging": {(*redistest.Server).Hang, (*redistest.Server).Resume, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			const pause = 200 * time.Millisecond
			var store *counted
			quotas := newQuotas(t, redistest.Open(t, redis.Config{Addrs: []string{server.Addr}}), 0, func(c *quota.Config) {
				store = &counted{Store: c.Store}
				c.Wait, c.Rest, c.Store = 20*time.Millisecond, pause, store
			})
			ask := quota.Ask{Key: reads, Tier: "bronze", Cost: 1}
			for range 100 {
				quotas.Take(t.Context(), ask)
			}
			fault.begin(server)
			before, allowed, began := store.asked.Load(), 0, time.Now()
			for time.Since(began) < time.Second || allowed < 15 && time.Since(began) < patience {
				if quotas.Take(t.Context(), ask).Allowed {
					allowed++
				}
			}
			took, asked := time.Since(began), store.asked.Load()-before
			if allowed < 15 || float64(allowed) > 20+20+20*took.Seconds() { // that of Redis may have been full, too
				t.Errorf("%d passed in %s without Redis", allowed, took)
			}
			if most := 10 + int64(took/pause); fault.costly && asked > most { // some until it is left alone, and one after each pause
				t.Errorf("%d questions were put to a Redis that is silent, want at most %d", asked, most)
			}
			fault.end(server)
			back := func() bool { return quotas.Take(t.Context(), ask).By == quota.ByShared }
			if !redistest.Eventually(patience, back) {
				t.Error("Redis is not asked again")
			}
		})
	}
}

package quota

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// shared is a store in memory, on the bubble's clock.
type shared struct {
	mu     sync.Mutex
	levels map[Key]Level
	asked  int
	fault  error
	hangs  time.Duration
}

func (s *shared) Take(_ context.Context, key Key, limit Limit, cost, extra int64) (Level, int64, error) {
	s.mu.Lock()
	s.asked++
	hangs, fault := s.hangs, s.fault
	s.mu.Unlock()
	time.Sleep(hangs)
	if fault != nil {
		return Level{}, 0, fault
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.levels == nil {
		s.levels = map[Key]Level{}
	}
	level, granted := limit.Take(s.levels[key], time.Now().UnixMicro(), cost, extra)
	s.levels[key] = level
	return level, granted, nil
}

func (s *shared) set(fault error, hangs time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.hangs = fault, hangs
}

func (s *shared) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = 0
	return asked
}

// instances gives some that share a store, and what they log.
func instances(t *testing.T, count int, store Store, change ...func(*Config)) ([]*Quotas, *bytes.Buffer) {
	t.Helper()
	tiers, err := ParseTiers(DefaultTiers, 1)
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	var all []*Quotas
	for range count {
		config := DefaultConfig()
		config.Tiers, config.Store, config.Now, config.Logger = tiers, store, time.Now, logger
		for _, c := range change {
			c(&config)
		}
		quotas, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, quotas)
	}
	return all, log
}

func asks(tier string, group Group) Ask {
	return Ask{Key: Key{Group: group, Partner: "acme"}, Tier: tier, Cost: 1}
}

// load sends perSecond evenly over the instances for a while, and counts by allowed.
func load(all []*Quotas, ask Ask, perSecond int, duration time.Duration) (allowed, refused int) {
	for i := range int(duration.Seconds() * float64(perSecond)) {
		if all[i%len(all)].Take(context.Background(), ask).Allowed {
			allowed++
		} else {
			refused++
		}
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	return allowed, refused
}

func TestABronzePartnerAtFiveTimesItsQuotaGetsItsQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shared{}
		all, _ := instances(t, 3, store)
		load(all, asks("bronze", Reads), 100, time.Second) // the burst
		store.questions()
		if allowed, _ := load(all, asks("bronze", Reads), 100, time.Minute); allowed < 1200-1 || allowed > 1200+1 {
			t.Errorf("%d passed in a minute, 1200 may", allowed)
		}
		if asked := store.questions(); asked > 3*1200 {
			t.Errorf("the store was asked %d times for 6000 requests", asked)
		}
		if allowed, _ := load(all, asks("bronze", Orders), 2, 10*time.Second); allowed != 20 {
			t.Errorf("%d of 20 orders passed beside the flood", allowed)
		}
	})
}

func TestAPartnerBelowItsQuotaIsNeverRefusedAndHardlyAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shared{}
		all, _ := instances(t, 3, store)
		for _, perSecond := range []int{5, 100, 300, 480, 500} {
			allowed, refused := load(all, asks("gold", Reads), perSecond, 20*time.Second)
			if asked := store.questions(); refused > 0 || perSecond >= 300 && asked > allowed/2 {
				t.Errorf("%d/s: %d refused, %d questions for %d", perSecond, refused, asked, allowed)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestBurstsOfAQuotaPassAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := instances(t, 3, &shared{})
		for round := range 10 {
			allowed := 0
			for i := range 100 {
				if all[i%3].Take(t.Context(), asks("bronze", Reads)).Allowed {
					allowed++
				}
			}
			// What an instance borrowed and did not use is lost to the others, once for each.
			if allowed > 20 || allowed < 20-3 {
				t.Errorf("round %d: %d of a burst of 20 passed", round, allowed)
			}
			time.Sleep(time.Second)
		}
	})
}

// Field case RATE-04: a failing store meant no limit at all, or none let through.
func TestWhileTheStoreFailsEachInstanceCountsByItself(t *testing.T) {
	for name, fail := range map[string]func(*shared){
		"down": func(s *shared) { s.set(errors.New("refused"), 0) }, "slow": func(s *shared) { s.set(nil, 2*time.Second) }, "slow and down": func(s *shared) { s.set(errors.New("refused"), time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &shared{}
				all, log := instances(t, 1, store)
				defer all[0].Close()
				load(all, asks("bronze", Reads), 100, 2*time.Second)
				fail(store)
				waited := 0
				allowed := 0
				for range 1000 {
					began := time.Now()
					if all[0].Take(t.Context(), asks("bronze", Reads)).Allowed {
						allowed++
					}
					if took := time.Since(began); took > 10*time.Millisecond {
						t.Fatalf("a request waited for %s", took)
					} else if took > 0 {
						waited++
					}
					time.Sleep(10 * time.Millisecond)
				}
				if allowed < 190 || allowed > 230 || waited > 6+12 {
					t.Errorf("%d passed in 10 s, %d waited", allowed, waited)
				}
				if store.questions(); strings.Count(log.String(), "the shared store fails") != 1 {
					t.Errorf("logged: %s", log)
				}
				if !all[0].rest.resting(all[0].now()) {
					t.Error("the rest is not shown")
				}
				store.set(nil, 0)
				time.Sleep(15 * time.Second)
				if all[0].rest.resting(all[0].now()) {
					t.Error("the rest of an idle instance is shown for ever")
				}
				load(all, asks("bronze", Reads), 100, 2*time.Second)
				if allowed, _ := load(all, asks("bronze", Reads), 100, 10*time.Second); allowed < 199 || allowed > 201 || strings.Count(log.String(), "works again") != 1 {
					t.Errorf("afterwards %d passed in 10 s, logged: %s", allowed, log)
				}
			})
		})
	}
}

func TestACallerThatLeavesSaysNothingOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shared{hangs: 5 * time.Millisecond}
		all, log := instances(t, 1, store)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		for range 10 {
			all[0].Take(ctx, asks("gold", Reads))
		}
		all[0].Close()
		if log.Len() > 0 {
			t.Error(log)
		}
	})
}

func TestLevelOneHoldsForEndpointsAndForClientsAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := instances(t, 1, &shared{fault: errors.New("down")}, func(c *Config) {
			c.Route, c.Client = Limit{PerSecond: 600, Burst: 600}, Limit{PerSecond: 500, Burst: 500}
		})
		ask := func(route, partner string) Verdict {
			return all[0].Take(t.Context(), Ask{Route: route, Key: Key{Partner: partner}})
		}
		count := func(route, partner string) (allowed int, last Verdict) {
			for range 700 {
				if last = ask(route, partner); last.Allowed {
					allowed++
				}
			}
			return allowed, last
		}
		if allowed, last := count("a", "one"); allowed != 500 || last.By != ByRoute && last.By != ByClient || last.RetryAfter <= 0 || last.Limit != (Limit{}) {
			t.Errorf("a client alone: %d passed, %+v", allowed, last)
		}
		if allowed, last := count("a", "two"); allowed != 0 || last.By != ByRoute {
			t.Errorf("another client at the same endpoint: %d passed, %+v", allowed, last)
		}
		if allowed, _ := count("b", "two"); allowed != 500 {
			t.Errorf("at another endpoint: %d passed", allowed)
		}
	})
}

// Field case RATE-03.
func TestTiersChangeAtRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := instances(t, 2, &shared{})
		load(all, asks("bronze", Reads), 100, 3*time.Second)
		if allowed, _ := load(all, asks("gold", Reads), 100, 5*time.Second); allowed < 490 {
			t.Errorf("a raised partner: %d of 500 passed", allowed)
		}
		load(all, asks("bronze", Reads), 100, 2*time.Second)
		if allowed, _ := load(all, asks("bronze", Reads), 100, 5*time.Second); allowed < 99 || allowed > 101 {
			t.Errorf("a lowered partner: %d passed in 5 s", allowed)
		}
		tiers, _ := ParseTiers("bronze=50/5,silver=100/10,gold=500/50", 1)
		for _, quotas := range all {
			if err := quotas.SetTiers(tiers); err != nil {
				t.Fatal(err)
			}
		}
		load(all, asks("bronze", Reads), 100, 2*time.Second)
		if allowed, _ := load(all, asks("bronze", Reads), 100, 5*time.Second); allowed < 249 || allowed > 251 {
			t.Errorf("a raised limit: %d passed in 5 s", allowed)
		}
		above, _ := ParseTiers("bronze=50/5,silver=100/10,gold=5000/50", 1)
		if err := all[0].SetTiers(above); err == nil || !strings.Contains(err.Error(), "gold") {
			t.Errorf("a tier above a client's cap: %v", err)
		}
		if err := all[0].SetTiers(nil); err == nil {
			t.Error("no tiers are taken")
		}
	})
}

// Field case RATE-03: is a batch of 1,000 SKUs one request or a thousand?
func TestARequestIsChargedWhatItCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := instances(t, 1, &shared{})
		take := func(cost, charged int64) Verdict {
			ask := asks("bronze", Reads)
			ask.Cost, ask.Charged = cost, charged
			return all[0].Take(t.Context(), ask)
		}
		take(1, 0)
		if v := take(9, 1); !v.Allowed || v.Remaining != 10 {
			t.Errorf("%+v", v)
		}
		take(1, 0)
		if v := take(14, 1); v.Allowed || v.RetryAfter != 300*time.Millisecond {
			t.Errorf("%+v: 15 in all need what 6 drain", v)
		}
		time.Sleep(300 * time.Millisecond)
		if v := take(1, 0); !v.Allowed {
			t.Errorf("%+v", v)
		}
		if v := take(14, 1); !v.Allowed {
			t.Errorf("%+v after the told wait", v)
		}
		time.Sleep(time.Second)
		if v := take(1000, 0); !v.Allowed || v.Remaining != 0 {
			t.Errorf("%+v: more than a burst costs a burst", v)
		}
	})
}

func TestChannelsMayHaveQuotasOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := instances(t, 1, &shared{})
		for _, channel := range []string{"", "shop", "app"} {
			ask := asks("bronze", Orders)
			ask.Key.Channel = channel
			if allowed, _ := load(all, ask, 1000, 10*time.Millisecond); allowed != 2 {
				t.Errorf("%s: %d passed", channel, allowed)
			}
		}
	})
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	items := newKept[string, gate](100)
	for i := range 1000 {
		items.get(fmt.Sprint(i), int64(i)*micro)
		items.get("busy", int64(i)*micro)
	}
	if len(items.items) > 100 || items.items["busy"] == nil {
		t.Errorf("%d are kept", len(items.items))
	}
}

func TestFaultsOfTheConfigurationAreNamedTogether(t *testing.T) {
	tiers, _ := ParseTiers(DefaultTiers, 1)
	_, err := New(Config{Tiers: tiers})
	for _, part := range []string{"Store, Now", "level 1", "bound", "gold"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}

// stalling is a store that is slow now and then, as on a machine with too much to do.
type stalling struct {
	shared
	asked atomic.Int64
}

func (s *stalling) Take(ctx context.Context, key Key, limit Limit, cost, extra int64) (Level, int64, error) {
	if s.asked.Add(1)%7 == 0 {
		time.Sleep(15 * time.Millisecond)
	}
	return s.shared.Take(ctx, key, limit, cost, extra)
}

func TestAnswersThatCameTooLateAreReckonedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := instances(t, 3, &stalling{})
		load(all, asks("bronze", Reads), 100, time.Second)
		began := time.Now()
		allowed, _ := load(all, asks("bronze", Reads), 100, time.Minute)
		if want := 20 * time.Since(began).Seconds(); float64(allowed) < want-3 || float64(allowed) > want+3 {
			t.Errorf("%d passed, %.0f may", allowed, want)
		}
		for _, quotas := range all {
			quotas.Close()
		}
	})
}

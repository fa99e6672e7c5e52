package redis

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"andes/projections"
	"andes/queries"
)

// near keeps at hand what this process read from Redis, decoded, for as long as Redis vouches for it
// (CLIENT TRACKING): as fresh as Redis, less the time that a push takes, and without a round trip.
//
//	at hand? ──yes──► answer
//	   │no
//	   ▼
//	begin ──► MGET on the tracked connection ──► keep, unless it was invalidated since begin
//
//	a push of Redis           drops the key
//	a connection that is lost drops everything: nobody heard what was pushed meanwhile
//
// All that a node says comes by one connection and is taken in its order, reads' answers and pushes alike.
// So who finds a watermark here finds no value that was overwritten before that watermark was written.
// Where there are several nodes, a new watermark first waits for what the others have said (see fence).
type near struct {
	most   int    // bytes
	prefix string // of all keys
	counts nearCounts

	mu       sync.RWMutex
	pointer  shelf[projections.Generations] // one, under ""
	stocks   shelf[queries.StockView]
	prices   shelf[queries.PriceView]
	products shelf[queries.ProductView]
	sources  shelf[time.Time]
}

const (
	// nearTTL is a safety net: Redis tells of every change. It also has Redis see that a key is in use: of those that
	// are not, it evicts the longest unused first.
	nearTTL = time.Minute
	// nearOverhead is about what an entry costs beside its key and its value's text.
	nearOverhead = 256
	// maxNearValue is the largest value, as text, that is kept.
	maxNearValue = 4 << 10
	// sampled entries are looked at to find one that was not used for long.
	sampled = 8
)

func newNear(prefix string, most int) *near { return &near{prefix: prefix, most: most} }

// shelf keeps the entries of one read model's serving generation, by what follows the model in their keys.
type shelf[V any] struct {
	generation projections.Generation
	kept       map[string]*atHand[V]
	asked      map[string]*inquiry
	bytes      int
}

// atHand is a value, or that there is none.
type atHand[V any] struct {
	vouched
	value V
	there bool
	bytes int
}

// vouched says how long a value is at hand.
type vouched struct {
	until int64        // nanoseconds since 1970
	used  atomic.Int64 // seconds, about
	gone  atomic.Bool  // it was dropped
}

// holds tells whether the value is at hand.
func (v *vouched) holds(now time.Time) bool { return now.UnixNano() < v.until && !v.gone.Load() }

func (v *vouched) use(now time.Time) {
	if seconds := now.Unix(); v.used.Load() != seconds {
		v.used.Store(seconds)
	}
}

// inquiry are reads of a key that are under way. A read that was begun before the last invalidation may bring what
// is no longer true.
type inquiry struct {
	readers     int
	invalidated int
}

// at gives what is at hand of a key; the caller holds the lock.
func (s *shelf[V]) at(key string, now time.Time) *atHand[V] { return s.fresh(s.kept[key], now) }

func (s *shelf[V]) fresh(found *atHand[V], now time.Time) *atHand[V] {
	if found == nil || !found.holds(now) {
		return nil
	}
	found.use(now)
	return found
}

// begin announces a read of the key, and gives what finish needs.
func (s *shelf[V]) begin(key string) int {
	reading := s.asked[key]
	if reading == nil {
		if s.asked == nil {
			s.asked = map[string]*inquiry{}
		}
		reading = &inquiry{}
		s.asked[key] = reading
	}
	reading.readers++
	return reading.invalidated
}

// finish ends a read, and tells whether what it brought still holds.
func (s *shelf[V]) finish(key string, begun int) bool {
	reading := s.asked[key]
	if reading.readers--; reading.readers == 0 {
		delete(s.asked, key)
	}
	return reading.invalidated == begun
}

func (s *shelf[V]) keep(key string, entry *atHand[V]) {
	if s.kept == nil {
		s.kept = map[string]*atHand[V]{}
	}
	s.drop(key)
	s.kept[key] = entry
	s.bytes += entry.bytes
}

func (s *shelf[V]) drop(key string) {
	if entry, is := s.kept[key]; is {
		s.bytes -= entry.bytes
		delete(s.kept, key)
		entry.gone.Store(true)
	}
}

func (s *shelf[V]) clear() {
	for _, entry := range s.kept {
		entry.gone.Store(true)
	}
	s.kept, s.bytes = nil, 0
}

// The rest is what near does with a shelf of any kind.

type anyShelf interface {
	size() int
	forget(key string)
	forgetAll()
	evict()
}

func (s *shelf[V]) size() int { return s.bytes }

func (s *shelf[V]) forget(key string) {
	s.drop(key)
	if reading := s.asked[key]; reading != nil {
		reading.invalidated++
	}
}

func (s *shelf[V]) forgetAll() {
	s.clear()
	for _, reading := range s.asked {
		reading.invalidated++
	}
}

// evict drops the one of some entries that was not used for longest.
func (s *shelf[V]) evict() {
	victim, oldest, seen := "", int64(0), 0
	for key, candidate := range s.kept { // in random order
		if used := candidate.used.Load(); seen == 0 || used < oldest {
			victim, oldest = key, used
		}
		if seen++; seen == sampled {
			break
		}
	}
	s.drop(victim)
}

func (n *near) shelves() [5]anyShelf {
	return [...]anyShelf{&n.stocks, &n.prices, &n.products, &n.sources, &n.pointer}
}

// of gives the shelf of a read model; nil: it is not kept here.
func (n *near) of(model string) anyShelf {
	switch model {
	case projections.Stocks.Name:
		return &n.stocks
	case projections.Prices.Name:
		return &n.prices
	case projections.Products.Name:
		return &n.products
	case projections.Sources.Name:
		return &n.sources
	}
	return nil
}

// invalidated takes a push: the keys that changed, or nil for all, which is also what the driver says when a
// connection is lost.
func (n *near) invalidated(keys []rueidis.RedisMessage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if keys == nil {
		for _, each := range n.shelves() {
			each.forgetAll()
		}
		return
	}
	for i := range keys {
		if key, err := keys[i].ToString(); err == nil {
			n.forget(key)
		}
	}
}

// wrote drops keys that this process has written itself: it need not wait for the push to read what it wrote.
func (n *near) wrote(keys ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range keys {
		n.forget(key)
	}
}

// forget drops a key: "<prefix>generation", or "<prefix>{<bucket>}<generation>:<model>:<key>".
func (n *near) forget(full string) {
	rest, ours := strings.CutPrefix(full, n.prefix)
	if !ours {
		return
	}
	if rest == pointerName {
		n.pointer.forget("")
		return
	}
	_, rest, _ = strings.Cut(rest, "}")
	_, entry, _ := strings.Cut(rest, ":")
	model, key, _ := strings.Cut(entry, ":")
	if kept := n.of(model); kept != nil {
		kept.forget(key)
	}
}

// serves tells whether the pointer is at hand and names the shelf's generation for the model.
func serves[V any](n *near, s *shelf[V], model string, now time.Time) bool {
	pointer := n.pointer.at("", now)
	return pointer != nil && s.generation == pointer.value.Of(model).Serving
}

// learned keeps what a read brought. The caller ends the read by finish whatever came of it.
func learned[V any](n *near, s *shelf[V], generation projections.Generation, key string, entry *atHand[V]) {
	entry.bytes += len(key) + nearOverhead
	if entry.bytes > n.most || entry.bytes > maxNearValue+nearOverhead+len(key) {
		return
	}
	if s.generation != generation {
		s.clear()
		s.generation = generation
	}
	s.keep(key, entry)
	for {
		total, largest := 0, anyShelf(s)
		for _, each := range n.shelves() {
			total += each.size()
			if each.size() > largest.size() {
				largest = each
			}
		}
		if total <= n.most {
			return
		}
		largest.evict()
		n.counts.evicted.Add(1)
	}
}

package httpapi

import (
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/commands/partner"
	"andes/queries"
)

// Partners ask the same lists of SKUs again and again. An answer about stock or prices is remembered as it was sent, and
// sent again for as long as nothing that it was made of has changed: each value, the watermark and the generation are still
// at hand (queries.Held), none of its values has become stale meanwhile, no discount has begun or ended. So it is
// never older than an answer that is made anew: what is saved is the making.
//
// Only what is asked twice within some thousand questions is remembered, and only GETs, whose list is short.

// Bounds of what is remembered in a process.
const (
	maxRemembered      = 16 << 20 // bytes
	rememberedOverhead = 512      // bytes of an answer that are not its texts, about
	discountOverhead   = 160      // bytes of a discount, about
	sampledAnswers     = 8        // are looked at whenever one is added
	askedLately        = 1 << 12  // questions, about
)

type remembered struct {
	given  prometheus.Counter
	seed   maphash.Seed
	lately [askedLately]atomic.Uint64 // hashes of questions

	mu      sync.RWMutex
	answers map[questionOf]*recollection
	bytes   int
}

// questionOf is all that an answer depends on beside values and time.
type questionOf struct {
	kind  string
	query string // as it was sent
	terms termsOf
}

// termsOf is what a policy makes of values. Lists of discounts are never changed once they are read, so the same list is
// the same discounts.
type termsOf struct {
	list, currency string
	buffer, cap    int64
	discounts      *partner.Discount
}

// recollection is an answer that is given while what it was made of holds.
type recollection struct {
	question questionOf
	entity
	held      queries.Held
	discounts int          // of the partner, which the question refers to
	made      time.Time    // by the wall clock alone
	until     time.Time    // then time alone changes it; zero: never
	used      atomic.Int64 // seconds, about
}

func newRemembered(registerer prometheus.Registerer) (*remembered, error) {
	r := &remembered{
		seed: maphash.MakeSeed(), answers: map[questionOf]*recollection{},
		given: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "andes_remembered_answers_total", Help: "Answers about stock and prices that were sent again as nothing that they say has changed.",
		}),
	}
	size := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "andes_remembered_bytes", Help: "Memory of the answers that are remembered, about.",
	}, func() float64 {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return float64(r.bytes)
	})
	return r, errors.Join(registerer.Register(r.given), registerer.Register(size))
}

func termsFor(kind string, policy *partner.Policy) termsOf {
	if kind == ofStock {
		return termsOf{buffer: policy.SafetyBuffer, cap: policy.VisibleCap}
	}
	key := termsOf{list: policy.PriceList, currency: policy.Currency}
	if len(policy.Discounts) > 0 {
		key.discounts = &policy.Discounts[0]
	}
	return key
}

// giveRemembered answers with what is remembered; false when the answer has to be made. An answer that is asked for often
// is remembered when it was made.
func (c *call) giveRemembered(kind string) bool {
	if c.api.promo().Microcache > 0 {
		return false // that answers with what is older, and says so
	}
	channel, err := c.channel(c.patience())
	if err != nil {
		return false
	}
	r := c.api.remembered
	asked := questionOf{kind: kind, query: c.request.URL.RawQuery, terms: termsFor(kind, &channel.Policy)}
	if known := r.find(asked, c.started); known != nil {
		r.given.Inc()
		c.give(known.entity)
		return true
	}
	if r.often(asked.query) {
		// Values become stale and discounts end by the wall clock, which may be set back.
		c.making = &recollection{question: asked, made: c.started.Round(0), discounts: len(channel.Policy.Discounts)}
	}
	return false
}

// hold names what the answer is made of, before it is made.
func (c *call) hold(policy *partner.Policy, skus []string) {
	switch made := c.making; {
	case made == nil:
	case made.question.kind == ofStock:
		made.held = queries.HoldStock(c.api.Reader, made.made, skus)
	default:
		made.held = queries.HoldPrices(c.api.Reader, policy, made.made, skus)
		made.until = nextDiscount(policy.Discounts, made.made)
	}
}

// recollect remembers an answer that was made. fresh is the oldest asOf of its values that are not stale; zero: all are, or
// there are none.
func (c *call) recollect(e entity, fresh time.Time) {
	made := c.making
	if made == nil || made.held == nil || len(e.body) > maxKeptAnswer {
		return
	}
	threshold := c.api.Thresholds.Stock
	if made.question.kind == ofPrices {
		threshold = c.api.Thresholds.Price
	}
	if stale := fresh.Add(threshold); !fresh.IsZero() && (made.until.IsZero() || stale.Before(made.until)) {
		made.until = stale
	}
	made.entity = e
	made.body = slices.Clone(e.body)
	if made.good(made.made) { // still, so what was read was what is held
		c.api.remembered.keep(made)
	}
}

// good tells whether the answer is what would be made now.
func (k *recollection) good(now time.Time) bool {
	return !now.Before(k.made) && (k.until.IsZero() || now.Before(k.until)) && k.held.Holds(now)
}

// size is the memory that the answer takes, about, and that would be free without it.
func (k *recollection) size() int {
	return len(k.question.query) + len(k.body) + len(k.tag) + k.held.Size() + k.discounts*discountOverhead + rememberedOverhead
}

func (r *remembered) find(asked questionOf, now time.Time) *recollection {
	r.mu.RLock()
	known := r.answers[asked]
	r.mu.RUnlock()
	if known == nil || !known.good(now) {
		return nil
	}
	if seconds := now.Unix(); known.used.Load() != seconds {
		known.used.Store(seconds)
		known.held.Use(now)
	}
	return known
}

// often tells whether the question was asked lately; it was now.
func (r *remembered) often(query string) bool {
	hash := maphash.String(r.seed, query)
	slot := &r.lately[hash%askedLately]
	if slot.Load() == hash {
		return true
	}
	slot.Store(hash)
	return false
}

func (r *remembered) keep(made *recollection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(r.answers[made.question])
	r.answers[made.question] = made
	r.bytes += made.size()
	r.prune(made.made)
	for r.bytes > maxRemembered {
		r.drop(r.victim())
	}
}

func (r *remembered) drop(known *recollection) {
	if known != nil {
		delete(r.answers, known.question)
		r.bytes -= known.size()
	}
}

// prune looks at some answers and drops those that are good no more. Each answer that is added makes room for itself so:
// what is not good does not pile up until the room is full.
func (r *remembered) prune(now time.Time) {
	seen := 0
	for _, candidate := range r.answers { // in random order
		if !candidate.good(now) {
			r.drop(candidate)
		}
		if seen++; seen == sampledAnswers {
			return
		}
	}
}

// victim is the one of some that was not given for longest.
func (r *remembered) victim() (found *recollection) {
	seen := 0
	for _, candidate := range r.answers { // in random order
		if found == nil || candidate.used.Load() < found.used.Load() {
			found = candidate
		}
		if seen++; seen == sampledAnswers {
			break
		}
	}
	return found
}

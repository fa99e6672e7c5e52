package httpapi

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/commands/partner"
	"andes/promo"
)

// The microcache keeps answers about stock and prices for a moment while promo mode is on.
//
// It stands behind authentication and quota: who is over its quota is refused, whatever is kept. An answer is kept for
// one partner, channel, price list and question; what is kept is the body and its entity tag, so all that belongs to
// one request alone (correlation id, quota, date) is that of the request that is answered. The header Age tells how
// many whole seconds ago the body was made.
//
// A body is given on only while all that it says of itself holds: until its values would be stale, and until a discount
// of the partner begins or ends. So asOf and stale are true in every answer, and values are at most as much older as
// answers are kept.
//
// Of equal questions at the same time one is asked. Errors are never kept. With the degradation stale, an older answer
// is given while a newer one is asked for or can't be had.

// Bounds of what is kept in a process. Beyond them the oldest answers go.
const (
	maxKeptAnswers = 20_000
	maxKeptBytes   = 64 << 20
	maxKeptAnswer  = 256 << 10 // a longer one is not kept
	keptOverhead   = 256       // bytes of an answer that are not its texts, about
)

// How an answer was found.
const (
	microHit    = "hit"
	microMiss   = "miss"
	microShared = "shared" // with another one who asked for it
	microStale  = "stale"
)

// ageHeader tells how many seconds ago a kept answer was made (RFC 9111, 5.1).
const ageHeader = "Age"

type microcache struct {
	clock    func() time.Time
	requests map[string]prometheus.Counter

	mu      sync.Mutex
	answers map[string]*list.Element // of *keptAnswer
	byAge   list.List                // the oldest first
	bytes   int
	flights map[string]*landing

	waiting atomic.Int64 // for flights
}

// keptAnswer is an answer that may be given again. It is never changed.
type keptAnswer struct {
	entity
	key   string
	made  time.Time
	holds time.Time // what it says is true before; zero: always
}

// landing is a question that is being asked. Whoever comes meanwhile waits for it.
type landing struct {
	key    string
	landed chan struct{}
	answer *keptAnswer // nil: there is none
	err    error

	holds     time.Time     // as far as it is known before the answer
	threshold time.Duration // at which a value of the answer is stale
}

func newMicrocache(config Config) (*microcache, error) {
	m := &microcache{clock: config.Clock, answers: map[string]*list.Element{}, flights: map[string]*landing{}, requests: map[string]prometheus.Counter{}}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "andes_microcache_requests_total",
		Help: "Questions in promo mode by how they were answered: hit, miss, shared with another one, stale (an older answer, as a newer one could not be had).",
	}, []string{"outcome"})
	for _, outcome := range []string{microHit, microMiss, microShared, microStale} {
		m.requests[outcome] = requests.WithLabelValues(outcome)
	}
	measured := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			m.mu.Lock()
			defer m.mu.Unlock()
			return float64(value())
		})
	}
	return m, errors.Join(
		config.Registerer.Register(requests),
		config.Registerer.Register(measured("andes_microcache_answers", "Answers that are kept.", func() int { return len(m.answers) })),
		config.Registerer.Register(measured("andes_microcache_bytes", "Memory of the answers that are kept, about.", func() int { return m.bytes })),
	)
}

// keptStock answers a question about stock.
func (c *call) keptStock(skus []string) error { return c.microcached(ofStock, skus, c.answerStock) }

// keptPrices answers a question about prices.
func (c *call) keptPrices(skus []string) error {
	return c.microcached(ofPrices, skus, c.answerPrices)
}

// microcached answers a question about stock or prices, from what is kept if promo mode is on.
func (c *call) microcached(kind string, skus []string, answer func(skus []string) error) error {
	state := c.api.promo()
	life := time.Duration(state.Microcache)
	if life <= 0 {
		return answer(skus)
	}
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	channel, err := c.channel(ctx)
	if err != nil {
		return err
	}
	m := c.api.micro
	asked := question{
		key: microKey(kind, c.principal, channel.Policy.PriceList, state, skus), life: life, stale: time.Duration(state.Degraded.Stale),
	}
	asked.threshold = c.api.Thresholds.Stock
	if kind == ofPrices {
		asked.threshold, asked.holds = c.api.Thresholds.Price, nextDiscount(channel.Policy.Discounts, m.clock())
	}
	for range maxBoardings {
		kept, flight, leads := m.board(asked)
		if kept != nil {
			c.giveAgain(kept, microHit)
			return nil
		}
		if leads {
			return c.lead(flight, asked, func() error { return answer(skus) })
		}
		if older := m.older(asked); older != nil {
			c.giveAgain(older, microStale)
			return nil
		}
		if err := m.await(ctx, flight); err != nil {
			return err
		}
		if flight.answer != nil {
			c.giveAgain(flight.answer, microShared)
			return nil
		}
		if gaveUp := flight.err == nil || errors.Is(flight.err, context.Canceled) || errors.Is(flight.err, context.DeadlineExceeded); !gaveUp {
			return flight.err
		}
	}
	return answer(skus)
}

func (m *microcache) await(ctx context.Context, flight *landing) error {
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	select {
	case <-flight.landed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// maxBoardings is how often a question joins one whose asker then gives up, before it is asked by itself.
const maxBoardings = 3

// Kinds of questions.
const (
	ofStock  = "stock"
	ofPrices = "prices"
)

// question is what is asked, and how old its answer may be.
type question struct {
	key         string
	life, stale time.Duration
	holds       time.Time     // then the answer is another one; zero: that is not known
	threshold   time.Duration // at which its values are stale
}

// microKey names a question by all on which its answer depends. Each part has its length before it, so that no two
// questions have the same key.
func microKey(kind string, caller Principal, priceList string, state promo.State, skus []string) string {
	length := 128
	for _, sku := range skus {
		length += len(sku) + 4
	}
	key := make([]byte, 0, length)
	part := func(text string) {
		key = strconv.AppendInt(key, int64(len(text)), 10)
		key = append(key, ':')
		key = append(key, text...)
	}
	part(kind)
	part(caller.Partner)
	part(caller.Subject)
	part(priceList)
	part(state.ID)
	key = strconv.AppendInt(key, state.Degraded.Cap, 10) // the other degradations change no answer
	key = append(key, ';')
	for i, sku := range skus {
		if !repeated(skus, i) {
			part(sku)
		}
	}
	return string(key)
}

// fewSKUs are compared one by one; of more, repeated ones are left in: they make another question of the same one.
const fewSKUs = maxSKUsInQuery

// repeated tells whether the SKU was there before: it is answered once.
func repeated(skus []string, i int) bool {
	return len(skus) <= fewSKUs && slices.Contains(skus[:i], skus[i])
}

// nextDiscount is when the next discount begins or ends; zero: none will.
func nextDiscount(discounts []partner.Discount, now time.Time) (next time.Time) {
	for _, discount := range discounts {
		for _, moment := range []time.Time{discount.From, discount.Until} {
			if moment.After(now) && (next.IsZero() || moment.Before(next)) {
				next = moment
			}
		}
	}
	return next
}

// giveAgain answers with what is kept.
func (c *call) giveAgain(kept *keptAnswer, outcome string) {
	c.api.micro.requests[outcome].Inc()
	if age := c.api.micro.clock().Sub(kept.made); age >= 0 {
		c.Header().Set(ageHeader, strconv.FormatInt(int64(age/time.Second), 10))
	}
	c.give(kept.entity)
}

// lead asks the question for all who ask it now.
func (c *call) lead(flight *landing, asked question, answer func() error) error {
	flight.holds, flight.threshold, c.flight = asked.holds, asked.threshold, flight
	defer c.api.micro.land(flight, nil, nil) // after a panic: those who wait ask by themselves
	err := answer()
	c.flight = nil
	c.api.micro.land(flight, nil, err) // unless it has landed with its answer
	if err == nil || c.status != 0 {
		return err
	}
	if older := c.api.micro.older(asked); older != nil && meanings[refused(err).Code].status >= 500 {
		c.giveAgain(older, microStale)
		return nil
	}
	return err
}

// caught keeps an answer that is about to be sent, if it is one of a flight. fresh is the oldest asOf of its values that
// are not stale; zero: all are, or there are none.
func (c *call) caught(e entity, fresh time.Time) {
	if c.flight == nil {
		return
	}
	c.api.micro.requests[microMiss].Inc()
	kept := &keptAnswer{entity: e, key: c.flight.key, made: c.api.micro.clock().Round(0), holds: c.flight.holds} // by the wall clock, which may be set back
	kept.body = slices.Clone(e.body)
	if stale := fresh.Add(c.flight.threshold); !fresh.IsZero() && (kept.holds.IsZero() || stale.Before(kept.holds)) {
		kept.holds = stale
	}
	// Before it is sent: nobody waits for the one who asked to read it.
	c.api.micro.land(c.flight, kept, nil)
}

// board gives a kept answer, or the flight that brings it; leads is true for the one who has to make it.
func (m *microcache) board(q question) (kept *keptAnswer, flight *landing, leads bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if element := m.answers[q.key]; element != nil {
		if kept := element.Value.(*keptAnswer); kept.good(m.clock(), q.life) {
			return kept, nil, false
		}
	}
	if flight := m.flights[q.key]; flight != nil {
		return nil, flight, false
	}
	flight = &landing{key: q.key, landed: make(chan struct{})}
	m.flights[q.key] = flight
	return nil, flight, true
}

// good tells whether the answer may be given again. By a clock that was set back it may not.
func (k *keptAnswer) good(now time.Time, life time.Duration) bool {
	age := now.Sub(k.made)
	return age >= 0 && age < life && (k.holds.IsZero() || now.Before(k.holds))
}

// older gives an answer that is older than it should be, if that is allowed.
func (m *microcache) older(q question) *keptAnswer {
	if q.stale <= 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if element := m.answers[q.key]; element != nil {
		if kept := element.Value.(*keptAnswer); kept.good(m.clock(), q.stale) {
			return kept
		}
	}
	return nil
}

// land ends a flight, once.
func (m *microcache) land(flight *landing, kept *keptAnswer, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flights[flight.key] != flight {
		return
	}
	delete(m.flights, flight.key)
	flight.answer, flight.err = kept, err
	close(flight.landed)
	if kept != nil && len(kept.body) <= maxKeptAnswer {
		m.keep(kept)
	}
}

func (k *keptAnswer) size() int { return len(k.key) + len(k.body) + len(k.tag) + keptOverhead }

func (m *microcache) keep(kept *keptAnswer) {
	if before := m.answers[kept.key]; before != nil {
		m.drop(before)
	}
	m.answers[kept.key] = m.byAge.PushBack(kept)
	m.bytes += kept.size()
	for len(m.answers) > maxKeptAnswers || m.bytes > maxKeptBytes {
		m.drop(m.byAge.Front())
	}
}

func (m *microcache) drop(element *list.Element) {
	kept := m.byAge.Remove(element).(*keptAnswer)
	delete(m.answers, kept.key)
	m.bytes -= kept.size()
}

// ForgetAnswers drops what the microcache keeps. It is to be called whenever what promo mode wants changes.
func (a *API) ForgetAnswers() {
	m := a.micro
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.answers)
	m.byAge.Init()
	m.bytes = 0
}

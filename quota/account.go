package quota

import (
	"sync"
	"time"
)

// gate is a limit of level 1.
type gate struct {
	mu    sync.Mutex
	level Level
}

// take lets a request through, or gives the time until it may come again.
func (g *gate) take(limit Limit, now int64) (wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var granted int64
	if g.level, granted = limit.Take(g.level, now, 1, 0); granted == 0 {
		wait = limit.Wait(g.level, 1)
	}
	return wait
}

// account is what this instance knows of a quota.
type account struct {
	mu sync.Mutex
	// known is a level that the shared one is not below: what the store said, drained since the question
	// was sent, and others can only have raised it.
	known Level

	lease     int64 // requests that the store lent
	leaseEnds int64
	appetite  int64 // requests to borrow with the next question
	askedAt   int64
	borrowing bool // a question with an appetite is under way

	own       Level // the level of this instance, for as long as the store fails
	refusedAt int64 // 0: never
}

// demand is one request's, on a quota.
type demand struct {
	key         Key
	limit       Limit
	policy      string
	cost, whole int64 // now, and with what the same request was charged before
}

// maxLent is the share of a burst that an instance may borrow at once.
const maxLent = 16

// question is what the store is asked.
type question struct {
	cost  int64 // of the demand, less what the lease pays
	paid  int64 // by the lease
	extra int64 // to borrow
}

// decide answers without the store where that is certain. Otherwise it gives the question.
func (a *account) decide(need demand, now int64) (verdict Verdict, ask question, decided bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now >= a.leaseEnds {
		a.lease = 0
	}
	ask.paid = min(a.lease, need.cost)
	ask.cost = need.cost - ask.paid
	if ask.cost > 0 && need.limit.Wait(need.limit.Draining(a.known, now), ask.cost) > 0 {
		return a.verdict(need, a.known, now, false, ByKnown), question{}, true
	}
	a.lease -= ask.paid
	if ask.cost == 0 {
		return a.verdict(need, a.known, now, true, ByLease), question{}, true
	}
	if !a.borrowing && a.appetite > 0 {
		a.borrowing, ask.extra = true, a.appetite
	}
	return Verdict{}, ask, false
}

// settle takes the store's answer: the level that it had used up after a question of the time sent.
func (a *account) settle(need demand, ask question, sent, now, leaseFor, used, granted int64) Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.learn(need.limit, Level{Used: used, At: sent}, now)
	a.own = Level{}
	a.adapt(need.limit, sent, leaseFor)
	a.borrowing = a.borrowing && ask.extra == 0
	if granted == 0 {
		a.lease += ask.paid
	} else {
		a.borrow(granted-ask.cost, now+leaseFor)
	}
	return a.verdict(need, a.known, now, granted > 0, ByShared)
}

// learn notes what the store said. Answers may overtake each other; each is a lower bound, so the
// highest one is the best.
func (a *account) learn(limit Limit, said Level, now int64) {
	if limit.Draining(a.known, now).Used <= limit.Draining(said, now).Used {
		a.known = said
	}
}

func (a *account) borrow(lent, ends int64) {
	if lent > 0 {
		a.lease, a.leaseEnds = a.lease+lent, ends
	}
}

// adapt borrows more while questions follow each other within the time of a lease, and less when they
// do not.
func (a *account) adapt(limit Limit, sent, leaseFor int64) {
	if sent-a.askedAt < leaseFor {
		a.appetite = min(2*a.appetite+1, limit.Burst/maxLent)
	} else {
		a.appetite /= 2
	}
	a.askedAt = sent
}

// alone decides without the store, which either rests or did not answer this one question. Whoever is being
// refused gets no more by a single silence; everybody else is let through.
func (a *account) alone(need demand, ask question, now int64, resting bool) Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.borrowing = a.borrowing && ask.extra == 0
	if !resting && a.refusedAt > 0 && now-a.refusedAt < micro {
		a.lease += ask.paid
		return a.verdict(need, a.known, now, false, ByLocal)
	}
	used := max(need.limit.Draining(a.known, now).Used, need.limit.Draining(a.own, now).Used)
	var granted int64
	a.own, granted = need.limit.Take(Level{Used: used, At: now}, now, need.cost, 0)
	if granted == 0 {
		a.lease += ask.paid
	}
	return a.verdict(need, a.own, now, granted > 0, ByLocal)
}

// late takes an answer that came when the request was decided without it: what was charged for a refused request
// lets the next one through.
func (a *account) late(need demand, ask question, sent, now, leaseFor int64, got answer, allowed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.learn(need.limit, Level{Used: got.level.Used, At: sent}, now)
	switch {
	case got.granted > 0 && allowed:
		a.borrow(got.granted-ask.cost, now+leaseFor)
	case got.granted > 0:
		a.borrow(got.granted, now+leaseFor)
	}
}

// verdict tells a decision by a level.
func (a *account) verdict(need demand, level Level, now int64, allowed bool, by Decider) Verdict {
	level = need.limit.Draining(level, now)
	v := Verdict{
		Allowed: allowed, By: by, Group: need.key.Group, Limit: need.limit, policy: need.policy,
		Remaining: min(need.limit.Remaining(level)+a.lease, need.limit.Burst), Reset: need.limit.Full(level),
	}
	if !allowed {
		if by != ByLocal {
			a.refusedAt = now
		}
		v.RetryAfter = need.limit.Wait(level, max(1, need.whole-a.lease))
		v.Reset = v.RetryAfter
	}
	return v
}

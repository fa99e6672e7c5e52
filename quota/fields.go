package quota

import (
	"strconv"
	"time"
)

// Verdict is a decision and what the caller is told of it.
type Verdict struct {
	Allowed    bool
	By         Decider
	Group      Group
	Limit      Limit // zero: nothing but the decision is told
	Remaining  int64
	Reset      time.Duration // until more is there: after a refusal RetryAfter, else until the whole burst is
	RetryAfter time.Duration // of a refusal

	policy string // made once for each tier
}

// Decider is which level decided.
type Decider string

// The deciders.
const (
	ByShared Decider = "shared" // the store, for all instances
	ByLease  Decider = "lease"  // what the store lent to this instance
	ByKnown  Decider = "known"  // what the store said shortly before
	ByLocal  Decider = "local"  // this instance, as the store failed
	ByRoute  Decider = "route"  // level 1, the endpoint's limit
	ByClient Decider = "client" // level 1, the client's cap
)

// Policy is the field RateLimit-Policy: "reads";q=20;w=1.
func (v Verdict) Policy() string {
	if v.policy != "" {
		return v.policy
	}
	return policyOf(v.Group, v.Limit)
}

func policyOf(group Group, limit Limit) string {
	b := named(group)
	b = append(b, ";q="...)
	b = strconv.AppendInt(b, limit.Burst, 10)
	b = append(b, ";w="...)
	return string(strconv.AppendInt(b, limit.Burst/limit.PerSecond, 10))
}

// State is the field RateLimit: "reads";r=19;t=1.
func (v Verdict) State() string {
	b := named(v.Group)
	b = append(b, ";r="...)
	b = strconv.AppendInt(b, v.Remaining, 10)
	b = append(b, ";t="...)
	return string(strconv.AppendInt(b, Seconds(v.Reset), 10))
}

func named(group Group) []byte {
	b := append(make([]byte, 0, 40), '"')
	b = append(b, group...)
	return append(b, '"')
}

// RetryField is the field Retry-After of a refusal: not earlier than t of State, and never 0.
func (v Verdict) RetryField() string {
	return strconv.FormatInt(Seconds(max(v.RetryAfter, v.Reset)), 10)
}

// Seconds gives whole seconds, rounded up, at least 1.
func Seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

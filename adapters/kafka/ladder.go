package kafka

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Policy is the ladder that a failing record climbs: tries at once, then the retry topics one after the
// other, then the DLQ. Without tiers a transient failure comes again in its lane, ever more slowly, and
// never reaches the DLQ.
type Policy struct {
	Tries       int             // in a row, transient failures only: 3
	TriesWithin time.Duration   // no further try starts after it: 2 s
	Timeout     time.Duration   // of each try: 10 s
	Tiers       []time.Duration // the delays of the retry topics
	// RetryFor keeps transient failures out of the DLQ until so long after a record's first failure: the
	// last tier is repeated.
	RetryFor time.Duration
}

// DefaultPolicy is that of event consumers, but for the tiers.
var DefaultPolicy = Policy{Tries: 3, TriesWithin: 2 * time.Second, Timeout: 10 * time.Second}

// maxTiers bounds the retry topics of one consumer.
const maxTiers = 16

func (p Policy) withDefaults() Policy {
	setDefault(&p.Tries, DefaultPolicy.Tries)
	setDefault(&p.TriesWithin, DefaultPolicy.TriesWithin)
	setDefault(&p.Timeout, DefaultPolicy.Timeout)
	return p
}

func (p Policy) validate() error {
	var faults []error
	if len(p.Tiers) > maxTiers {
		faults = append(faults, fmt.Errorf("%d tiers are more than %d", len(p.Tiers), maxTiers))
	}
	for i, delay := range p.Tiers {
		if delay < time.Millisecond {
			faults = append(faults, fmt.Errorf("a tier of %s is less than a millisecond", delay))
		}
		if slices.Contains(p.Tiers[:i], delay) {
			faults = append(faults, fmt.Errorf("the tier %s is given twice", delay))
		}
	}
	if p.RetryFor > 0 && len(p.Tiers) == 0 {
		faults = append(faults, errors.New("there is no tier to repeat"))
	}
	return errors.Join(faults...)
}

// ladder is a policy with the topics of its consumer.
type ladder struct {
	policy Policy
	tiers  []string
	replay string
	dlq    string
}

func newLadder(names Topics, consumer string, policy Policy) ladder {
	l := ladder{policy: policy, replay: names.Replay(consumer), dlq: names.DLQ(consumer)}
	for _, delay := range policy.Tiers {
		l.tiers = append(l.tiers, names.Retry(consumer, delay))
	}
	return l
}

// delays gives the topics that parked records are read from, with what their records wait at the most.
func (l ladder) delays() map[string]time.Duration {
	delays := map[string]time.Duration{l.replay: 0}
	for i, topic := range l.tiers {
		delays[topic] = l.policy.Tiers[i]
	}
	return delays
}

// delay gives what a record waits in a topic.
func (l ladder) delay(topic string) time.Duration {
	if i := slices.Index(l.tiers, topic); i >= 0 {
		return l.policy.Tiers[i]
	}
	return 0
}

// after gives where a record goes that came from a topic and failed for a passing reason. What comes from
// elsewhere than a tier, or was there only because of another record, starts at the first one.
func (l ladder) after(topic string, firstFailure, now time.Time) string {
	next := slices.Index(l.tiers, topic) + 1
	if next == len(l.tiers) && next > 0 && now.Sub(firstFailure) < l.policy.RetryFor {
		next--
	}
	if next < len(l.tiers) {
		return l.tiers[next]
	}
	return l.dlq
}

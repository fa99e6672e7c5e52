package webhook

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"andes/eventstore"
)

// served are the subscriptions that have got an event. It is kept between the attempts.
type served map[string]bool

// maxServed bounds what is kept; those beyond it may get an event again, under the same id.
const maxServed = 300

func readServed(progress string) served {
	s := served{}
	for id := range strings.SplitSeq(progress, ",") {
		if id != "" {
			s[id] = true
		}
	}
	return s
}

func (s served) text() string {
	ids := slices.Sorted(maps.Keys(s))
	return strings.Join(ids[:min(len(ids), maxServed)], ",")
}

// combine gives the failure of an event. As long as one endpoint may still get it, it is not permanent.
func combine(faults []error) error {
	var passing, final []error
	for _, fault := range faults {
		switch {
		case fault == nil:
		case eventstore.Classify(fault) == eventstore.Permanent:
			final = append(final, fault)
		default:
			passing = append(passing, fault)
		}
	}
	switch {
	case len(passing) == 0:
		return errors.Join(final...)
	case len(final) == 0:
		return errors.Join(passing...)
	}
	return fmt.Errorf("%w\n%v", errors.Join(passing...), errors.Join(final...)) // the text alone, without the mark
}

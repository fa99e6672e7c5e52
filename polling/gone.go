package polling

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"andes/eventstore"
)

// States lists all that Andes has of a category.
type States interface {
	// EachState gives the states in batches that are take's only during the call.
	EachState(ctx context.Context, category string, take func(records []eventstore.StateRecord) error) error
}

// maxGoneShare is which part of what Andes has may be gone at once, if that is more than a few. More is no
// change of the source but a fault: a user who may not see it any more, a database that was emptied.
const (
	maxGoneShare = 2 // 1/2
	fewGone      = 20
)

var errTooManyGone = errors.New("most of what is known is not there any more; nothing is removed")

// Missing gives the states of an aggregate that were not seen, by their keys, without those that are absent
// already.
func Missing[S any](ctx context.Context, states States, aggregate *eventstore.Aggregate[S], seen map[string]struct{}, absent func(S) bool) (map[string]S, error) {
	missing := map[string]S{}
	err := states.EachState(ctx, aggregate.Name, func(records []eventstore.StateRecord) error {
		for _, record := range records {
			if _, there := seen[record.Stream.Key]; there {
				continue
			}
			state, err := aggregate.Decode(record.State)
			if err != nil {
				return fmt.Errorf("what is known of %s: %w", record.Stream, err)
			}
			if !absent(state) {
				missing[record.Stream.Key] = state
			}
		}
		return nil
	})
	if known := len(seen) + len(missing); err == nil && len(missing) > fewGone && len(missing) > known/maxGoneShare {
		err = fmt.Errorf("%w: %d of %d", errTooManyGone, len(missing), known)
	}
	return missing, err
}

// Absence finds what a source lists no more: it is known, and was in neither of the last two rounds. One is
// not enough: a row whose stamp was put back while the round went on is in none of its pages.
type Absence[S any] struct {
	States    States
	Aggregate *eventstore.Aggregate[S]
	Absent    func(state S) bool                   // it is known to be gone
	Version   func(state S) int64                  // of the source
	Vanish    func(key string, version int64) Item // what to say of it

	suspects map[string]int64 // that the last round missed, with their versions
}

// Gone is for Round.Gone.
func (a *Absence[S]) Gone(ctx context.Context, seen map[string]struct{}) (items []Item, again bool, err error) {
	missing, err := Missing(ctx, a.States, a.Aggregate, seen, a.Absent)
	if err != nil {
		return nil, false, err
	}
	suspects := map[string]int64{}
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		version := a.Version(missing[key])
		if before, suspect := a.suspects[key]; suspect && before == version {
			items = append(items, a.Vanish(key, version))
			continue
		}
		suspects[key] = version
	}
	a.suspects = suspects
	return items, len(suspects) > 0, nil
}

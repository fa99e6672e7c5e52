package tryton

import (
	"context"
	"errors"
	"fmt"

	"andes/eventstore"
)

// maxGoneShare is which part of what Andes has may be gone at once, if that is more than a few. More is no
// change of the catalogue but a fault: a user who may not see it any more, a database that was emptied.
const (
	maxGoneShare = 2 // 1/2
	fewGone      = 20
)

var errTooManyGone = errors.New("tryton: most of what is known is not there any more; nothing is removed")

// missing lists the keys of an aggregate that were not seen, without those that are absent already.
func missing[S any](ctx context.Context, states States, aggregate *eventstore.Aggregate[S], seen map[string]struct{}, absent func(S) bool) ([]string, error) {
	var missing []string
	known := len(seen)
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
				known++
				missing = append(missing, record.Stream.Key)
			}
		}
		return nil
	})
	if err == nil && len(missing) > fewGone && len(missing) > known/maxGoneShare {
		err = fmt.Errorf("%w: %d of %d", errTooManyGone, len(missing), known)
	}
	return missing, err
}

package tryton

import (
	"context"
	"fmt"
	"time"

	"andes/eventstore"
	"andes/polling"
)

// kept reads what Andes has under the keys.
func kept[S any](ctx context.Context, reader eventstore.Reader, aggregate *eventstore.Aggregate[S], keys []string) (map[string]S, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	streams := make([]eventstore.Stream, len(keys))
	for i, key := range keys {
		streams[i] = aggregate.Stream(key)
	}
	records, err := reader.States(ctx, streams)
	if err != nil {
		return nil, fmt.Errorf("what is known of %s: %w", aggregate.Name, err)
	}
	found := make(map[string]S, len(records))
	for stream, record := range records {
		if found[stream.Key], err = aggregate.Decode(record.State); err != nil {
			return nil, fmt.Errorf("what is known of %s %s: %w", aggregate.Name, stream.Key, err)
		}
	}
	return found, nil
}

// version is that of a reading: the known one if it says the same, else one above it. It is of the order of
// the stamps, so that it looks like the versions of any other source.
func version(known int64, same bool, at time.Time) int64 {
	if same {
		return known
	}
	return max(at.UnixMicro(), known+1)
}

// idle is a command that changes nothing.
type idle struct{}

// Needs implements eventstore.Command.
func (idle) Needs() []eventstore.Stream { return nil }

// Decide implements eventstore.Command.
func (idle) Decide(*eventstore.Unit) (any, error) { return nil, nil }

// nothing holds the place of a row of which nothing is to be said.
var nothing = polling.Item{ID: "-", Command: idle{}}

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"andes/eventstore"
	"andes/test/bench/measure"
)

// blob is a stream whose events have a fixed size and whose state is empty.
type blob struct{}

// Written is an event of 540 bytes of JSON.
type Written struct {
	Payload string `json:"payload"`
}

var blobs = eventstore.NewAggregate(eventstore.Category[blob]{
	Name:   "blob",
	Events: []eventstore.Definition[blob]{eventstore.Define("blob.written", func(*blob, Written) {})},
})

// eventBytes is the size of the event's JSON.
const eventBytes = 540

var event = Written{Payload: strings.Repeat("x", eventBytes-len(`{"payload":""}`))}

// write appends one event to a stream at the version that its caller knows.
type write struct {
	key     string
	version int64
}

func (c write) Needs() []eventstore.Stream { return nil }

func (c write) Decide(u *eventstore.Unit) (any, error) {
	blobs.Expect(u, c.key, c.version, blob{})
	blobs.Append(u, c.key, event)
	return nil, nil
}

// batched appends through the executor, each caller to a stream of its own.
func batched(executor eventstore.Executor, run, callers int, duration time.Duration) measure.Load {
	ctx := context.Background()
	versions := make([]int64, callers)
	keys := make([]string, callers)
	for i := range keys {
		keys[i] = fmt.Sprintf("%d-%d", run, i)
	}
	return measure.Closed(callers, duration, func(caller, _ int) error {
		_, err := executor.Execute(ctx, eventstore.Request{
			Command: write{key: keys[caller], version: versions[caller]},
			Meta:    eventstore.Metadata{CorrelationID: "bench"},
		})
		if err == nil {
			versions[caller]++
		}
		return err
	})
}

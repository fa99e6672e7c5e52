package polling

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"andes/commands/source"
	"andes/eventstore"
)

// CodeFailed rejects a record that our own side fails at again and again.
const CodeFailed eventstore.Code = "RECORD_FAILED"

// maxFailures is after how many attempts in a row a failing record no longer stops the feed.
const maxFailures = 3

// applier runs the commands of records, whoever brought them.
type applier struct {
	executor eventstore.Executor
	inFlight int

	mu       sync.Mutex
	failures map[string]int // of records that fail on our side, attempts in a row
}

// result is what became of an item.
type result struct {
	changed bool // it was news
	word    source.Word
	refusal *eventstore.Refusal
	fault   error // it failed by itself and is to be tried again
}

// run runs the items' commands, many at once so that they share transactions. A refused item does not stop
// the others, nor does one that fails by itself; an executor that can't work now does.
func (a *applier) run(ctx context.Context, items []Item) ([]result, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(a.inFlight)
	results := make([]result, len(items))
	for i, item := range items {
		if item.Fault != nil {
			results[i].refusal = item.Fault
			continue
		}
		group.Go(func() error {
			outcome, err := a.executor.Execute(ctx, eventstore.Request{Command: item.Command, Meta: item.Meta})
			if err != nil && unable(ctx, err) {
				return err
			}
			results[i].changed = err == nil && outcome.Position > 0
			results[i].word, _ = outcome.Result.(source.Word)
			results[i].refusal, results[i].fault = a.judge(item, err)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("apply records: %w", err)
	}
	return results, nil
}

// unable tells whether the error is about the executor and not about the command.
func unable(ctx context.Context, err error) bool {
	return ctx.Err() != nil ||
		errors.Is(err, eventstore.ErrOverloaded) || errors.Is(err, eventstore.ErrUnavailable) ||
		errors.Is(err, eventstore.ErrOutcomeUnknown) || errors.Is(err, eventstore.ErrChanged) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// judge tells whether an item is refused, or has failed and is to be tried again.
func (a *applier) judge(item Item, err error) (*eventstore.Refusal, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := fmt.Sprintf("%s@%d", item.ID, item.Version)
	if err == nil {
		delete(a.failures, key)
		return nil, nil
	}
	if refusal, is := errors.AsType[*eventstore.Refusal](err); is {
		delete(a.failures, key)
		return refusal, nil
	}
	if a.failures == nil || len(a.failures) >= maxRemembered {
		a.failures = map[string]int{}
	}
	a.failures[key]++
	if eventstore.Classify(err) == eventstore.Permanent || a.failures[key] >= maxFailures {
		delete(a.failures, key)
		return eventstore.Refuse(CodeFailed, "%v", err), nil
	}
	return nil, fmt.Errorf("record %s: %w", key, err)
}

// doubt runs what refused items tell of the values that they were to replace. A doubt that is refused is of
// a record that names nothing.
func (a *applier) doubt(ctx context.Context, refused []Refused) error {
	var doubts []Item
	for _, r := range refused {
		if r.Item.Doubt == nil {
			continue
		}
		doubts = append(doubts, Item{ID: "doubt of " + r.Item.ID, Version: r.Item.Version, Command: r.Item.Doubt(r.Refusal.Code), Meta: r.Item.Meta})
	}
	if len(doubts) == 0 {
		return nil
	}
	results, err := a.run(ctx, doubts)
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.fault != nil {
			return r.fault
		}
	}
	return nil
}

package polling

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"andes/eventstore"
)

// CodeFailed rejects a record that our own side fails at again and again.
const CodeFailed eventstore.Code = "RECORD_FAILED"

// maxFailures is after how many polls in a row a failing record no longer stops the feed.
const maxFailures = 3

// applied is what became of a page.
type applied struct {
	refused []Refused
	failed  []error // records that the next poll has to try again; the first few of them
}

// apply runs the items' commands, many at once so that they share transactions. A refused item does not
// stop the others, nor does one that fails by itself; an executor that can't work now does.
func (p *Poller) apply(ctx context.Context, items []Item) (applied, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.cfg.InFlight)
	var mu sync.Mutex
	var a applied
	for _, item := range items {
		if item.Fault != nil {
			mu.Lock()
			a.refused = append(a.refused, Refused{Item: item, Refusal: item.Fault})
			mu.Unlock()
			continue
		}
		group.Go(func() error {
			_, err := p.cfg.Executor.Execute(ctx, eventstore.Request{Command: item.Command, Meta: item.Meta})
			if err != nil && unable(ctx, err) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			refusal, fault := p.judge(item, err)
			if refusal != nil {
				a.refused = append(a.refused, Refused{Item: item, Refusal: refusal})
			}
			if fault != nil && len(a.failed) < maxReported {
				a.failed = append(a.failed, fault)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return applied{}, fmt.Errorf("apply a page: %w", err)
	}
	return a, nil
}

// maxReported bounds how many failing records one error names.
const maxReported = 10

// unable tells whether the error is about the executor and not about the command.
func unable(ctx context.Context, err error) bool {
	return ctx.Err() != nil ||
		errors.Is(err, eventstore.ErrOverloaded) || errors.Is(err, eventstore.ErrUnavailable) ||
		errors.Is(err, eventstore.ErrOutcomeUnknown) || errors.Is(err, eventstore.ErrChanged) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// judge tells whether an item is refused, or has failed and is to be tried by the next poll.
func (p *Poller) judge(item Item, err error) (*eventstore.Refusal, error) {
	key := fmt.Sprintf("%s@%d", item.ID, item.Version)
	if err == nil {
		delete(p.failures, key)
		return nil, nil
	}
	if refusal, is := errors.AsType[*eventstore.Refusal](err); is {
		delete(p.failures, key)
		return refusal, nil
	}
	if len(p.failures) >= maxRemembered {
		clear(p.failures)
	}
	p.failures[key]++
	if eventstore.Classify(err) == eventstore.Permanent || p.failures[key] >= maxFailures {
		delete(p.failures, key)
		return eventstore.Refuse(CodeFailed, "%v", err), nil
	}
	return nil, fmt.Errorf("record %s: %w", key, err)
}

package quota

import (
	"context"
	"errors"
	"time"
)

var (
	errSilent = errors.New("no answer in time")
	errBusy   = errors.New("too many questions at once")
)

// answer is the store's.
type answer struct {
	level   Level
	granted int64
	err     error
}

// ask asks the store and waits no longer than the bound, whatever the store's client does: a question
// that is given up goes on by itself and is bounded by that client's own timeouts, and by the number of
// places. Its answer is still to come out of the channel.
func (q *Quotas) ask(ctx context.Context, need demand, asked question) (answer, <-chan answer) {
	select {
	case q.asking <- struct{}{}:
	default:
		return answer{err: errBusy}, nil
	}
	answers := make(chan answer, 1)
	detached := context.WithoutCancel(ctx)
	q.questions.Go(func() {
		defer func() { <-q.asking }()
		level, granted, err := q.config.Store.Take(detached, need.key, need.limit, asked.cost, asked.extra)
		answers <- answer{level, granted, err}
	})
	began := q.now()
	wait := time.NewTimer(q.config.Wait)
	defer wait.Stop()
	select {
	case got := <-answers:
		q.metrics.took.Observe(float64(q.now()-began) / micro)
		return got, nil
	case <-wait.C:
		select {
		case got := <-answers: // it was this process that was slow
			return got, nil
		default:
			return answer{err: errSilent}, answers
		}
	case <-ctx.Done():
		return answer{err: ctx.Err()}, answers
	}
}

// report follows whether the store works, and logs each change once.
func (q *Quotas) report(ctx context.Context, err error) {
	switch {
	case err == nil:
		if q.rest.worked() {
			q.config.Logger.InfoContext(ctx, "quota: the shared store works again")
		}
	case ctx.Err() != nil: // the caller left; nothing is known of the store
	default:
		q.metrics.failures.Inc()
		if q.rest.broke(q.now()) {
			q.config.Logger.WarnContext(ctx, "quota: the shared store fails; each instance counts by itself until it works", "error", err.Error())
		}
	}
}

// Close waits for the questions under way, which the store's own timeouts bound.
func (q *Quotas) Close() { q.questions.Wait() }

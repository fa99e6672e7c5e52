package deadletters

import (
	"context"
	"time"
)

// followPoll is between two looks at how far the consumer is.
const followPoll = 100 * time.Millisecond

// follow releases what was parked behind the run's letters while it was going on. It waits for the consumer
// to work off what was sent, because only then nothing more is parked behind it. done ends the run.
func (s *step) follow(ctx context.Context) (done bool, err error) {
	for first := true; first || s.Now().Before(s.until); first = false {
		if s.plan == nil || s.plan.finished() {
			if members, _, err := s.Log.Members(ctx, s.job.Consumer); err != nil || members == 0 {
				s.state.Note = "the consumer is not running: the letters wait for it, and what is parked behind them meanwhile is released by replaying it later"
				return err == nil, err
			}
			worked, err := s.worked(ctx)
			if err != nil || !worked {
				return false, err
			}
			if done, err := s.nextRound(ctx); err != nil || done {
				return done, err
			}
		}
		if finished, err := s.work(ctx); err != nil || !finished {
			return false, err
		}
		s.state.Since = s.Now()
	}
	return false, nil
}

// worked waits, within the step and within the time for following, until the consumer has finished what
// is in its replay topic.
func (s *step) worked(ctx context.Context) (bool, error) {
	for {
		backlog, err := s.Log.Backlog(ctx, s.job.Consumer)
		if err != nil || backlog == 0 {
			return err == nil, err
		}
		now := s.Now()
		if now.Sub(s.state.Since) >= s.FollowTime {
			s.state.Note = "the consumer has not worked off all yet: what is parked behind it meanwhile is released by replaying it later"
			return true, nil
		}
		if !now.Before(s.until) || !pause(ctx, followPoll) {
			return false, ctx.Err()
		}
	}
}

// nextRound plans what was parked behind; done when there is none, or too often something more.
func (s *step) nextRound(ctx context.Context) (done bool, err error) {
	if s.state.Round >= maxFollowRounds {
		s.state.Note = "more is parked behind all the time: replay it later"
		return true, nil
	}
	s.state.Round++
	bounds, err := s.Log.Bounds(ctx, s.job.Consumer)
	if err != nil {
		return false, err
	}
	s.plan, err = s.Service.plan(ctx, s.consumer, s.job, scope{run: s.state.Run, bounds: bounds, follow: true, before: s.plan})
	if err != nil {
		return false, err
	}
	s.state.Planned += int64(len(s.plan.entries))
	s.state.Returned = s.plan.back
	return s.plan.finished(), nil
}

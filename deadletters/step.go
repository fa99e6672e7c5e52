package deadletters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"andes/eventstore"
)

// Bounds of a chunk: what is claimed, sent and settled together.
const (
	chunkLetters = 1000
	chunkBytes   = 8 << 20
	chunkTime    = 30 * time.Second
	pacing       = 4 // chunks a second, at the least, when a rate is given
)

// step is the work on a run that one call does.
type step struct {
	*Service
	job      Job
	consumer Consumer
	state    *runState
	until    time.Time
	plan     *plan
}

// send works off the plan; finished tells that nothing of it is left.
func (s *step) send(ctx context.Context) (finished bool, err error) {
	if s.plan == nil {
		if s.plan, err = s.Service.plan(ctx, s.consumer, s.job, scope{run: s.state.Run, bounds: s.state.Cutoff, first: s.job.Cursor == ""}); err != nil {
			return false, err
		}
		if s.job.Cursor == "" {
			s.state.Planned, s.state.Left = int64(len(s.plan.entries)), s.plan.left
			if s.plan.orphans > 0 {
				s.state.Note = fmt.Sprintf("of those that were parked behind them, %d are now the first of their keys: replay them", s.plan.orphans)
			}
			if err := s.namedAreOpen(ctx); err != nil {
				return false, err
			}
		}
		if s.state.Partial = s.plan.cut; s.plan.cut && len(s.plan.entries) == 0 {
			return false, eventstore.Refuse(CodeFilterInvalid, "among the first letters of %s, as many as one run looks at, none can be sent: settle or discard those first", s.job.Consumer)
		}
	}
	if finished, err = s.work(ctx); err == nil && !finished {
		s.plans.keep(s.state.Run, s.plan) // after a failure it is not known what of it is left
	}
	return finished, err
}

// work sends chunk after chunk until the plan is finished, the step's time is over or ctx ends.
func (s *step) work(ctx context.Context) (finished bool, err error) {
	began, sent := s.Now(), 0
	for first := true; !s.plan.finished(); first = false {
		if ctx.Err() != nil || !first && !s.Now().Before(s.until) {
			return false, ctx.Err()
		}
		chunk := s.plan.chunk(s.chunkSize())
		if err := s.settle(ctx, chunk); err != nil {
			return false, err
		}
		if sent += len(chunk); s.job.Rate > 0 {
			due := began.Add(time.Duration(sent) * time.Second / time.Duration(s.job.Rate))
			if !pause(ctx, due.Sub(s.Now())) {
				return s.plan.finished(), ctx.Err()
			}
		}
	}
	return true, nil
}

func (s *step) chunkSize() int {
	if s.job.Rate > 0 {
		return min(chunkLetters, max(1, s.job.Rate/pacing))
	}
	return chunkLetters
}

// pause waits; false when ctx is done first.
func pause(ctx context.Context, wait time.Duration) bool {
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// settle fetches, claims, sends and settles the letters of a chunk. It is not interrupted half-way: an
// interruption is noticed between chunks.
func (s *step) settle(ctx context.Context, chunk []entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chunkTime)
	defer cancel()
	wanted, entries := s.wanted(chunk)
	letters, err := s.Log.Fetch(ctx, s.job.Consumer, chunk[0].Partition, wanted)
	if err != nil {
		return fmt.Errorf("read the DLQ of %s: %w", s.job.Consumer, err)
	}
	s.missing(letters, entries)
	returns, err := s.prepare(ctx, letters, entries)
	if err != nil || len(returns) == 0 {
		return err
	}
	returns, err = s.claim(ctx, returns, entries)
	if err != nil || len(returns) == 0 {
		return err
	}
	if err := s.recall(ctx, returns, entries); err != nil {
		return err
	}
	return s.deliver(ctx, returns, entries)
}

// wanted gives the offsets of a chunk, and its entries by letter.
func (s *step) wanted(chunk []entry) ([]int64, map[Ref]entry) {
	wanted := make([]int64, len(chunk))
	entries := make(map[Ref]entry, len(chunk))
	for i, e := range chunk {
		wanted[i] = e.Offset
		entries[Ref{s.job.Consumer, e.Partition, e.Offset}] = e
	}
	return wanted, entries
}

// missing counts the letters that are not there any more.
func (s *step) missing(letters []*Letter, entries map[Ref]entry) {
	if len(letters) == len(entries) {
		return
	}
	there := make(map[Ref]bool, len(letters))
	for _, l := range letters {
		there[l.Ref] = true
	}
	for ref := range entries {
		if !there[ref] {
			s.state.Left.add(WhyGone, ref)
		}
	}
}

// prepare gives the letters as they are sent, less those that would come back at once.
func (s *step) prepare(ctx context.Context, letters []*Letter, entries map[Ref]entry) ([]Return, error) {
	returns := make([]Return, 0, len(letters))
	if s.job.Action == Discarded {
		for _, l := range letters {
			returns = append(returns, Return{Letter: l, Run: s.state.Run, Replays: l.Replays, Discard: true})
		}
		return returns, nil
	}
	values, err := s.restore(ctx, letters)
	if err != nil {
		return nil, err
	}
	for _, l := range letters {
		value, restored := values[l.Ref]
		why := Why("")
		if !restored {
			why = WhyUnrestorable
		} else if !s.job.Force && !s.readable(l, value) {
			why = WhyUndecodable
		}
		if s.hold(entries[l.Ref], l.Ref, why) {
			continue
		}
		returns = append(returns, Return{Letter: l, Value: value, Run: s.state.Run, Replays: l.Replays + 1})
	}
	return returns, nil
}

// hold leaves a letter for a reason, and with it those of its key behind it.
func (s *step) hold(e entry, ref Ref, why Why) bool {
	if why == "" && s.plan.ordered && s.plan.blocked[e.line] {
		why = WhyHeld
	}
	if why == "" {
		return false
	}
	s.plan.blocked[e.line] = true
	s.state.Left.add(why, ref)
	return true
}

// readable tells whether this version can decode the letter.
func (s *Service) readable(l *Letter, value []byte) bool {
	record, err := s.Log.Event(l, value)
	if err != nil {
		return false
	}
	_, err = s.Registry.Decode(record)
	return err == nil
}

// mark is the run's claim on letters, which are of one partition.
func (s *step) mark(returns []Return) Claim {
	return Claim{
		Consumer: s.job.Consumer, Partition: returns[0].Letter.Partition, Run: s.state.Run,
		Action: s.job.Action, Actor: s.job.Actor, Reason: s.job.Reason,
	}
}

// claim keeps the letters that no other run has. Where another has one, it has those behind it too.
func (s *step) claim(ctx context.Context, returns []Return, entries map[Ref]entry) ([]Return, error) {
	got, err := s.Ledger.Claim(ctx, s.mark(returns), offsets(returns))
	if err != nil {
		return nil, fmt.Errorf("claim letters of %s: %w", s.job.Consumer, err)
	}
	mine := make(map[int64]bool, len(got))
	for _, offset := range got {
		mine[offset] = true
	}
	var kept, back []Return
	for _, r := range returns {
		switch ref := r.Letter.Ref; {
		case !mine[ref.Offset]:
			s.hold(entries[ref], ref, WhyBusy)
		case s.plan.ordered && s.hold(entries[ref], ref, ""):
			back = append(back, r)
		default:
			kept = append(kept, r)
		}
	}
	if len(back) > 0 {
		err = s.Ledger.Release(ctx, s.mark(back), offsets(back))
	}
	return kept, err
}

// clockSkew is by how much the clocks of database, broker and the run that died may differ.
const clockSkew = time.Minute

// recall finds out which letters were sent by runs that died before they could settle them, so that they
// are not sent twice.
func (s *step) recall(ctx context.Context, returns []Return, entries map[Ref]entry) error {
	var runs []string
	var since time.Time
	origins := map[int32]bool{} // a partition of the DLQ may hold what was read from several
	for _, r := range returns {
		if dead := entries[r.Letter.Ref].dead; dead != nil && !r.Discard {
			runs = append(runs, dead.Run)
			origins[r.Letter.Origin.Partition] = true
			if since.IsZero() || dead.At.Before(since) {
				since = dead.At
			}
		}
	}
	if len(runs) == 0 {
		return nil
	}
	slices.Sort(runs)
	runs = slices.Compact(runs)
	sent := map[Place]bool{}
	for partition := range origins {
		found, err := s.Log.Sent(ctx, s.job.Consumer, partition, since.Add(-clockSkew), runs)
		if err != nil {
			return fmt.Errorf("look for letters that were sent to %s: %w", s.job.Consumer, err)
		}
		maps.Copy(sent, found)
	}
	for i, r := range returns {
		returns[i].Sent = entries[r.Letter.Ref].dead != nil && sent[r.Letter.Origin.Place()]
	}
	return nil
}

// deliver sends what was claimed and makes it final. What was not acknowledged stays claimed, for it may have
// arrived: the run that takes it over finds out.
func (s *step) deliver(ctx context.Context, returns []Return, entries map[Ref]entry) error {
	var failed error
	if errs := s.Log.Send(ctx, s.job.Consumer, returns); errs != nil {
		var sent []Return
		for i, err := range errs {
			if err == nil {
				sent = append(sent, returns[i])
			} else {
				failed = err
			}
		}
		failed = fmt.Errorf("%w: %d letters of %s were not acknowledged; they can be replayed again in a minute: %w", ErrLogUnavailable, len(returns)-len(sent), s.job.Consumer, failed)
		returns = sent
	}
	if len(returns) == 0 {
		return failed
	}
	if err := s.Ledger.Finish(ctx, s.mark(returns), offsets(returns), s.opening(len(returns))); err != nil {
		return errors.Join(failed, fmt.Errorf("%d letters were sent to %s but not settled; that is made good by the next run, in a minute: %w", len(returns), s.job.Consumer, err))
	}
	s.state.Sent += int64(len(returns))
	for _, r := range returns {
		if entries[r.Letter.Ref].behind {
			s.state.Released++
		}
	}
	return failed
}

func offsets(returns []Return) []int64 {
	list := make([]int64, len(returns))
	for i, r := range returns {
		list[i] = r.Letter.Offset
	}
	return list
}

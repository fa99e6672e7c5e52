package changes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/eventstore"
	"andes/queries"
)

// Log is the event log, in the order of commits.
type Log interface {
	// End is the position of the last event, and that of the last one that was published: the read model can't
	// have what comes after that one.
	End(ctx context.Context) (end, published int64, err error)
	// Read looks at up to limit events with positions in (after, to].
	Read(ctx context.Context, after, to int64, limit int) (Slice, error)
	// Changed is when the stream was last changed, by the clock of the instance that did it; zero: never.
	Changed(ctx context.Context, stream eventstore.Stream) (time.Time, error)
	// Before is where the log had come to at a time, by the clocks of those who wrote it.
	Before(ctx context.Context, at time.Time) (position int64, err error)
	// Listen calls woken soon after each commit. It returns when ctx ends or it can't hear any more.
	Listen(ctx context.Context, woken func()) error
}

// Config is what a Feed reads from, and its bounds.
type Config struct {
	Log        Log
	Copy       queries.Since // the read model
	Reader     queries.Since // answers what the read model lacks too
	Watermarks Watermarks
	Now        func() time.Time
	Logger     *slog.Logger
	Metrics    prometheus.Registerer // nil: private

	Ring     int                  // changes that are kept
	Backfill int64                // positions before the log's end from which a new instance begins, and before the last published one from which it doubts the read model
	Horizon  int64                // positions that a cursor may be behind
	Look     int                  // events in one look at the log
	Scan     int                  // events that a page looks at which is older than the ring
	Scans    int                  // such pages at once; more are refused
	Confirm  int                  // streams looked for in the read model at a time
	Pause    time.Duration        // between two looks, so that many changes are one page
	Poll     time.Duration        // the safety net behind Listen
	Patience time.Duration        // with the read model; then the states are asked
	Recheck  time.Duration        // of what the read model did not get in time
	Rechecks int                  // then what it does not take is what it answers
	Settled  time.Duration        // how far back Resync begins: no reader is that far behind the read model
	Kept     func() time.Duration // how old answers of reads are given again at present: Resync begins that much further back. Nil: none are
	MostKept time.Duration        // Kept is never more
	Welcome  time.Duration        // how long whoever begins anew waits for an instance that has just begun to have looked at what is recent
	Policies time.Duration        // after which all instances go by a partner's new policy
}

// DefaultConfig has the defaults of all bounds.
func DefaultConfig() Config {
	return Config{
		Ring: 1 << 16, Backfill: 20_000, Horizon: 1_000_000, Look: 2_000, Scan: 10_000, Scans: 4, Confirm: 1_000,
		Pause: 20 * time.Millisecond, Poll: time.Second, Patience: 2 * time.Second, Recheck: time.Second, Rechecks: 5,
		Settled: 10 * time.Second, MostKept: 11 * time.Minute, Welcome: time.Second, Policies: 70 * time.Second,
	}
}

func (c Config) validate() error {
	var faults []error
	if c.Log == nil || c.Copy == nil || c.Reader == nil || c.Watermarks == nil || c.Now == nil || c.Logger == nil {
		faults = append(faults, errors.New("changes: Log, Copy, Reader, Watermarks, Now and Logger are needed"))
	}
	if min(c.Ring, c.Look, c.Scan, c.Scans, c.Confirm, c.Rechecks) < 1 || min(c.Backfill, c.Horizon) < 0 ||
		min(c.Pause, c.Poll, c.Patience, c.Recheck) <= 0 || min(c.Settled, c.MostKept, c.Welcome, c.Policies) < 0 {
		faults = append(faults, errors.New("changes: a bound is not above zero"))
	}
	return errors.Join(faults...)
}

// Feed is one instance's view of the changes. Any number of callers may ask it.
type Feed struct {
	config  Config
	scans   chan struct{} // a slot for each page from the log
	woken   chan struct{}
	metrics *metrics

	ready chan struct{} // closed when what was published before this instance began is confirmed

	mu      sync.Mutex
	ring    *ring // nil: not begun
	old     int64 // what was published up to here was so before this instance began
	marks   []passed
	older   passed        // before the marks, as the log said
	asked   time.Time     // when it did
	news    chan struct{} // closed when more is released
	looked  time.Time     // when the log was last read to its end
	checked time.Time     // when the late ones were last looked for
	tried   int           // how often a part of the log before the ring could not be confirmed
	triedAt time.Time     // the last time
}

// New checks the configuration.
func New(config Config) (*Feed, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	f := &Feed{
		config: config, scans: make(chan struct{}, config.Scans), woken: make(chan struct{}, 1),
		ready: make(chan struct{}), news: make(chan struct{}), looked: config.Now(),
	}
	var err error
	if f.metrics, err = newMetrics(config.Metrics, f.lag); err != nil {
		return nil, fmt.Errorf("changes: metrics: %w", err)
	}
	return f, nil
}

// Run follows the log until ctx ends. What fails is tried again.
func (f *Feed) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	listening.Go(func() { f.listen(ctx) })
	defer listening.Wait()
	failing := false
	for {
		err := f.step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if failed := err != nil; failed != failing {
			failing = failed
			f.config.Logger.WarnContext(ctx, "changes: the log is followed", "well", !failing, "error", err)
		}
		if !f.rest(ctx, err == nil && f.waiting()) {
			return nil
		}
	}
}

func (f *Feed) listen(ctx context.Context) {
	wake := func() {
		select {
		case f.woken <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		if err := f.config.Log.Listen(ctx, wake); err != nil && ctx.Err() == nil {
			f.config.Logger.WarnContext(ctx, "changes: not told of commits for a while", "error", err)
		}
		pause(ctx, f.config.Poll)
	}
}

// rest waits for something to do; false: the end.
func (f *Feed) rest(ctx context.Context, soon bool) bool {
	if !soon {
		idle := time.NewTimer(f.config.Poll)
		defer idle.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-f.woken:
		case <-idle.C:
		}
	}
	return pause(ctx, f.config.Pause)
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// step looks at the log and confirms what it found.
func (f *Feed) step(ctx context.Context) error {
	if err := f.begin(ctx); err != nil {
		return err
	}
	for more := true; more; {
		part, err := f.config.Log.Read(ctx, f.head(), endless, f.config.Look)
		if err != nil {
			return err
		}
		f.take(part)
		if err := f.confirm(ctx); err != nil {
			return err
		}
		more = part.More
	}
	return f.catchUp(ctx)
}

// endless is behind every position.
const endless = math.MaxInt64

func (f *Feed) begin(ctx context.Context) error {
	if f.head() >= 0 {
		return nil
	}
	end, published, err := f.config.Log.End(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.old = min(end, published)
	f.ring = newRing(f.config.Ring, max(0, end-f.config.Backfill), max(0, f.old-f.config.Backfill))
	return nil
}

// head is -1 before the beginning.
func (f *Feed) head() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ring == nil {
		return -1
	}
	return f.ring.head
}

func (f *Feed) take(part Slice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.config.Now()
	f.ring.take(part, now)
	f.mark(passed{now, part.Reached})
	if !part.More {
		f.looked = now
	}
	f.release()
}

// confirm looks for the fresh changes in the read model, and now and then for the late ones.
func (f *Feed) confirm(ctx context.Context) error {
	now := f.config.Now()
	f.mu.Lock()
	needs := f.ring.unconfirmed(&f.ring.fresh, f.config.Confirm)
	if now.Sub(f.checked) >= f.config.Recheck {
		f.checked = now
		needs = append(needs, f.ring.unconfirmed(&f.ring.late, f.config.Confirm)...)
	}
	f.mu.Unlock()
	if len(needs) == 0 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.release()
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, f.config.Patience)
	copied, away := read(asking, f.config.Copy, needs)
	cancel()
	var late []need
	for _, n := range needs {
		if _, there := copied[n.stream]; !there && now.Sub(n.since) >= f.config.Patience {
			late = append(late, n)
		}
	}
	var err error
	others := map[eventstore.Stream]value{}
	if len(late) > 0 {
		f.metrics.late.Add(float64(len(late)))
		others, err = read(ctx, f.config.Reader, late)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range needs {
		if v, there := copied[n.stream]; there {
			f.ring.settle(n, v, true)
		} else if v, there := others[n.stream]; there {
			f.ring.settle(n, v, false)
		}
	}
	f.ring.again(needs, now, f.config.Patience)
	f.release()
	if away != nil && err == nil && len(late) == 0 {
		return away
	}
	return err
}

// catchUp confirms changes that are older than the ring, a part of the log at a time. What the read model
// lacks is put there.
func (f *Feed) catchUp(ctx context.Context) error {
	now := f.config.Now()
	f.mu.Lock()
	from, to := f.ring.confirmed.position, f.ring.floor
	early := f.tried > 0 && now.Sub(f.triedAt) < f.config.Recheck
	f.mu.Unlock()
	if from >= to || early {
		return nil
	}
	part, err := f.config.Log.Read(ctx, from, to, f.config.Confirm)
	if err != nil {
		return err
	}
	if !part.More {
		part.Reached = to
	}
	lacking, err := lackingIn(ctx, f.config.Copy, needsOf(part.Changes))
	if err == nil && len(lacking) > 0 {
		if _, err = read(ctx, f.config.Reader, lacking); err == nil {
			lacking, err = lackingIn(ctx, f.config.Copy, lacking)
		}
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.triedAt = now
	if f.tried++; len(lacking) > 0 && f.tried <= f.config.Rechecks {
		return nil
	}
	f.tried = 0
	f.ring.confirmedUpTo(part.Reached)
	f.release()
	return nil
}

// needsOf gives each stream once, as new as its last change.
func needsOf(list []Change) []need {
	last := make(map[eventstore.Stream]int64, len(list))
	for _, change := range list {
		last[change.Stream] = change.Position
	}
	needs := make([]need, 0, len(last))
	for stream, position := range last {
		needs = append(needs, need{stream: stream, least: position})
	}
	return needs
}

// lackingIn gives the needs that a source does not fulfil.
func lackingIn(ctx context.Context, source queries.Since, needs []need) ([]need, error) {
	found, err := read(ctx, source, needs)
	return slices.DeleteFunc(needs, func(n need) bool { _, there := found[n.stream]; return there }), err
}

// release wakes those who wait when there is more.
func (f *Feed) release() {
	defer f.welcome()
	if f.ring.advance() {
		close(f.news)
		f.news = make(chan struct{})
	}
}

// waiting tells whether there is something to confirm.
func (f *Feed) waiting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ring != nil && (len(f.ring.fresh) > 0 || f.tried == 0 && f.ring.confirmed.position < f.ring.floor)
}

// News gives a channel that is closed when there are changes behind the position; it may be closed
// for others too.
func (f *Feed) News(after int64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ring != nil && f.ring.released.position > after {
		return closed
	}
	return f.news
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// lag is for how long changes have waited to be released, or the log was not read.
func (f *Feed) lag() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.config.Now()
	lag := max(0, now.Sub(f.looked)-f.config.Poll)
	if f.ring != nil && f.ring.released.number < f.ring.next {
		if held := f.ring.streams[f.ring.at(f.ring.released.number).Stream]; !held.since.IsZero() {
			lag = max(lag, now.Sub(held.since))
		}
	}
	return lag
}

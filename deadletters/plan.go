package deadletters

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"time"
)

// Actions on letters, as settlements and the audit log name them.
const (
	Replayed  = "replayed"
	Discarded = "discarded"
	Edited    = "edited"
)

// Bounds of a plan's memory. What is beyond them is left for the next run.
const (
	maxPlanned = 200_000
	maxIndexed = 1_000_000
	planTime   = 10 * time.Second
)

// entry is a letter in a plan, without what is in it.
type entry struct {
	place
	size   int
	line   uint64 // hash of its origin topic and key
	origin int64
	behind bool        // it goes along with an earlier one of its key
	dead   *Settlement // the claim of a run that died over it; nil: none
}

// plan is what a run is going to send, in this order.
type plan struct {
	ordered bool
	entries []entry
	at      int // the next one
	seed    maphash.Seed
	lines   map[uint64]bool // of which the run sends letters, or has sent some
	blocked map[uint64]bool // of which nothing more can be sent in this run
	left    leftovers
	orphans int64 // letters behind those that are let go
	back    int64 // letters of the run that have come back
	cut     bool  // the bounds were reached
}

func (p *plan) finished() bool { return p.at >= len(p.entries) }

// chunk takes the next entries: of one partition, bounded in number and bytes.
func (p *plan) chunk(most int) []entry {
	from, bytes := p.at, 0
	for p.at < len(p.entries) && p.at-from < most && p.entries[p.at].Partition == p.entries[from].Partition {
		bytes += p.entries[p.at].size
		if bytes > chunkBytes && p.at > from {
			break
		}
		p.at++
	}
	return p.entries[from:p.at]
}

// item is an outstanding letter that is being considered.
type item struct {
	entry
	isBehind bool
	wanted   bool
	why      Why // it is wanted but has to stay
}

// planner makes a plan.
type planner struct {
	*plan
	scope
	service  *Service
	consumer Consumer
	job      Job
	wanted   int              // within the limit
	waiting  map[uint64]int64 // letters that are parked behind others and not wanted
	until    time.Time        // no further window is looked at
}

// scope is what a plan is made of.
type scope struct {
	run    string
	bounds []Bounds // up to the cutoff
	first  bool     // the run has sent nothing yet
	follow bool     // only what is behind the run's own letters
	before *plan    // of the run, if it is still known
}

// plan finds out what the job is about.
func (s *Service) plan(ctx context.Context, consumer Consumer, job Job, of scope) (*plan, error) {
	p := &planner{
		plan: &plan{
			ordered: consumer.Ordered && job.Action != Discarded,
			seed:    maphash.MakeSeed(), lines: map[uint64]bool{}, blocked: map[uint64]bool{},
		},
		service: s, consumer: consumer, job: job, scope: of, waiting: map[uint64]int64{}, until: s.Now().Add(planTime),
	}
	if of.before != nil {
		p.seed, p.lines = of.before.seed, of.before.lines
	}
	for _, b := range of.bounds {
		items, err := p.index(ctx, b)
		if err != nil {
			return nil, err
		}
		if p.ordered {
			if err := p.reclaim(ctx, b, items); err != nil {
				return nil, err
			}
			p.line(items)
		}
		p.choose(items)
	}
	return p.plan, nil
}

// index lists the outstanding letters of a partition. Stretches that are done with are skipped, unless they have to
// tell which keys the run has sent letters of.
func (p *planner) index(ctx context.Context, b Bounds) (items []item, err error) {
	skip := p.first || p.before != nil
	for !p.cut && b.First < b.End {
		if skip {
			if b.First, err = p.service.Ledger.FirstOutstanding(ctx, p.consumer.Name, b.Partition, b.First); err != nil {
				return nil, err
			}
		}
		next := b.End
		err := p.service.sweep(ctx, p.consumer.Name, b, withoutValue, func(w swept) (bool, error) {
			found, err := p.window(ctx, w)
			items = append(items, found...)
			next = w.next
			p.cut = p.cut || len(items) >= maxIndexed || !p.service.Now().Before(p.until)
			return !p.cut && (!skip || len(found) > 0 || len(w.settlements) < len(w.letters)), err
		})
		if err != nil {
			return nil, err
		}
		b.First = next
	}
	return items, nil
}

func withoutValue(l *Letter) bool {
	l.Value = nil
	return true
}

// window lists the outstanding letters of a window.
func (p *planner) window(ctx context.Context, w swept) ([]item, error) {
	partners := map[Ref]string{}
	if p.job.Filter.Partner != "" {
		var err error
		if partners, err = p.service.partners(ctx, w.letters); err != nil {
			return nil, err
		}
	}
	var items []item
	for _, l := range w.letters {
		settlement, settled := w.settlements[l.Offset]
		if settled && !settlement.Free {
			p.settled(l, settlement, partners)
			continue
		}
		if one, relevant := p.consider(l, partners); relevant {
			if settled {
				one.dead = &settlement
			}
			items = append(items, one)
		}
	}
	return items, nil
}

// settled notes what a settlement means for the letters behind it, and that another run is at one which this run
// should send.
func (p *planner) settled(l *Letter, settlement Settlement, partners map[Ref]string) {
	line := maphash.String(p.seed, l.line())
	if !settlement.Done && p.first && p.selects(l, partners) {
		p.left.add(WhyBusy, l.Ref)
	}
	switch {
	case !settlement.Done && l.Foreign == "":
		p.blocked[line] = true // it is being sent; what is behind it is the affair of who does that
	case settlement.Run == p.run && settlement.Action != Discarded:
		p.lines[line] = true
	}
}

// consider judges an outstanding letter.
func (p *planner) consider(l *Letter, partners map[Ref]string) (item, bool) {
	one := item{entry: entry{place: place{l.Partition, l.Offset}, size: l.Size, origin: l.Origin.Offset}, isBehind: l.Class == Behind}
	one.line = maphash.String(p.seed, l.line())
	if l.Run == p.run {
		p.back++
	}
	one.wanted = !p.follow && p.selects(l, partners)
	if p.job.Action == Discarded {
		if p.consumer.Ordered && one.isBehind && !one.wanted {
			p.waiting[one.line]++
		}
		return one, one.wanted
	}
	switch {
	case l.Foreign != "":
		one.why = WhyForeign
		one.line = 0
	case l.Replays >= p.service.MaxReplays && !p.job.Force:
		one.why = WhyReturned
	}
	return one, one.wanted || p.ordered && l.Foreign == ""
}

// line puts the letters of each key into the order of their origins, in the places that they have.
func (p *planner) line(items []item) {
	byLine := map[uint64][]int{}
	for i := range items {
		byLine[items[i].line] = append(byLine[items[i].line], i)
	}
	for line, places := range byLine {
		if line == 0 || len(places) == 1 && !items[places[0]].isBehind {
			continue
		}
		same := make([]item, len(places))
		for i, at := range places {
			same[i] = items[at]
		}
		slices.SortStableFunc(same, func(a, b item) int { return cmp.Or(cmp.Compare(a.origin, b.origin), cmp.Compare(a.Offset, b.Offset)) })
		p.hold(same)
		for i, at := range places {
			items[at] = same[i]
		}
	}
}

// heldBy says why a letter has to wait: for one that stays, or for one that another run is sending.
var heldBy = map[bool]Why{false: WhyHeld, true: WhyBusy}

// hold decides for the outstanding letters of one key, in their order, which go along with an earlier one and
// which have to wait for one that stays.
func (p *planner) hold(same []item) {
	goes, stays := p.lines[same[0].line], p.blocked[same[0].line]
	for i := range same {
		one := &same[i]
		switch {
		case stays:
			if one.wanted && one.why == "" {
				one.why = heldBy[p.blocked[one.line]]
			}
		case one.isBehind && goes && one.why == "":
			one.behind, one.wanted = true, true
		case !one.wanted || one.why != "":
			stays = true
		default:
			goes = true
		}
	}
}

// choose takes the items that go into the plan, within its limits.
func (p *planner) choose(items []item) {
	taken, dropped := map[uint64]bool{}, map[uint64]bool{}
	for _, one := range items {
		ref := Ref{p.consumer.Name, one.Partition, one.Offset}
		switch {
		case !one.wanted:
		case one.why != "":
			p.left.add(one.why, ref)
		case len(p.entries) >= maxPlanned:
			p.cut = true
			return
		case one.behind && !dropped[one.line] && (taken[one.line] || p.lines[one.line]):
			p.entries = append(p.entries, one.entry)
		case one.behind, p.job.Limit > 0 && p.wanted >= p.job.Limit:
			dropped[one.line] = p.ordered
		case !dropped[one.line]:
			p.wanted++
			taken[one.line] = p.consumer.Ordered
			p.entries = append(p.entries, one.entry)
		}
	}
	for line := range taken {
		p.lines[line] = true
		p.orphans += p.waiting[line]
	}
}

package deadletters

import (
	"context"
	"hash/maphash"
)

// predecessor is the settled letter of a line that comes last before its first outstanding one.
type predecessor struct {
	before   int64 // the origin of the first outstanding letter
	origin   int64
	known    bool
	selected bool // the job selects it, and it was sent back
}

// reclaim selects letters that were parked behind one which the job selects and which has been sent back already, by
// a run that was interrupted before it could take them along: their own error tells nothing. Of a line it is
// enough to select the first, for the others go along. The settled letters are read only if there is such a first.
func (p *planner) reclaim(ctx context.Context, b Bounds, items []item) error {
	firsts := p.stranded(items)
	if len(firsts) == 0 || p.cut {
		return nil
	}
	found := make(map[uint64]predecessor, len(firsts))
	for line, i := range firsts {
		found[line] = predecessor{before: items[i].origin}
	}
	keep := func(l *Letter) bool {
		l.Value = nil
		_, asked := found[maphash.String(p.seed, l.line())]
		return asked && l.Foreign == "" && l.Class != Behind
	}
	err := p.service.sweep(ctx, p.consumer.Name, b, keep, func(w swept) (bool, error) {
		err := p.precede(ctx, w, found)
		p.cut = p.cut || !p.service.Now().Before(p.until)
		return !p.cut, err
	})
	if err != nil {
		return err
	}
	for line, i := range firsts {
		items[i].wanted = found[line].selected
	}
	return nil
}

// stranded gives, by line, the first outstanding letters that are parked behind something and that the job does not
// select itself.
func (p *planner) stranded(items []item) map[uint64]int {
	if p.follow || p.job.Filter.Empty() || p.job.Action == Discarded {
		return nil
	}
	firsts := map[uint64]int{}
	for i := range items {
		if first, known := firsts[items[i].line]; !known || items[i].origin < items[first].origin {
			firsts[items[i].line] = i
		}
	}
	for line, i := range firsts {
		if line == 0 || !items[i].isBehind || items[i].wanted || items[i].why != "" || p.lines[line] || p.blocked[line] {
			delete(firsts, line)
		}
	}
	return firsts
}

// precede looks for the predecessors among the settled letters of a window. A letter that failed again and was sent
// back again is there several times: one that the job selects is enough.
func (p *planner) precede(ctx context.Context, w swept, found map[uint64]predecessor) error {
	partners := map[Ref]string{}
	if p.job.Filter.Partner != "" {
		var err error
		if partners, err = p.service.partners(ctx, w.letters); err != nil {
			return err
		}
	}
	for _, l := range w.letters {
		settlement := w.settlements[l.Offset]
		line := maphash.String(p.seed, l.line())
		last := found[line]
		if !settlement.Done || l.Origin.Offset >= last.before || last.known && l.Origin.Offset < last.origin {
			continue
		}
		selected := settlement.Action != Discarded && p.selects(l, partners)
		if last.known && l.Origin.Offset == last.origin {
			selected = selected || last.selected
		}
		found[line] = predecessor{before: last.before, origin: l.Origin.Offset, known: true, selected: selected}
	}
	return nil
}

// selects tells whether the job is about the letter.
func (p *planner) selects(l *Letter, partners map[Ref]string) bool {
	return p.job.Filter.matches(l) && (p.job.Filter.Partner == "" || partners[l.Ref] == p.job.Filter.Partner)
}

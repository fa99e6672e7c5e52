package rebuild

import (
	"context"
	"errors"
	"slices"
	"time"

	"andes/eventstore"
	"andes/projections"
)

// errEnough ends a comparison whose outcome is plain.
var errEnough = errors.New("more keys differ than the limit")

// recheckPause is between two looks at the keys that differ.
const recheckPause = 100 * time.Millisecond

// maxPatience bounds how often the patience begins anew, because suspects go on clearing up.
const maxPatience = 6

// suspect has a key looked up that the states did not give.
func (c *comparison) suspect(stream eventstore.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspects = append(c.suspects, suspect{stream: stream, key: c.model.Name + ":" + stream.Key, present: true, compared: true})
}

func (c *comparison) settle(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settleLocked(ctx)
}

// settleLocked reads the suspects again until they agree or have had time enough to, then counts, names
// and mends those that differ. The others wait for it: what is compared meanwhile would only add to them.
func (c *comparison) settleLocked(ctx context.Context) error {
	pending := c.suspects
	c.suspects = nil
	differing, err := c.outlast(ctx, pending)
	if err != nil || len(differing) == 0 {
		return err
	}
	total := c.found.Missing + c.found.Extra + c.found.Different + int64(len(differing))
	enough := total > int64(c.check.Limit)
	if c.check.Repair && !enough {
		if differing, err = c.mend(ctx, differing); err != nil {
			return err
		}
	}
	for _, d := range differing {
		c.count(d)
	}
	if enough {
		c.report.Stopped = true
		return errEnough
	}
	return nil
}

// observed is a suspect as it was last read.
type observed struct {
	suspect
	kept   Kept
	entry  projections.Entry
	fault  error
	mended bool
}

// outlast gives the suspects that differ even after they had the time to arrive.
func (c *comparison) outlast(ctx context.Context, pending []suspect) ([]observed, error) {
	began := c.config.Now()
	limit := began.Add(maxPatience * c.config.Patience)
	for len(pending) > 0 {
		differing, err := c.again(ctx, pending)
		if err != nil {
			return nil, err
		}
		now := c.config.Now()
		if len(differing) < len(pending) {
			began = now // they are arriving
		}
		if len(differing) == 0 || now.Sub(began) > c.config.Patience || now.After(limit) {
			return differing, nil
		}
		pending = pending[:0]
		for _, d := range differing {
			pending = append(pending, d.suspect)
		}
		if err := pause(ctx, recheckPause); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// again reads suspects on both sides, Redis first: what it has is in PostgreSQL by then.
func (c *comparison) again(ctx context.Context, suspects []suspect) ([]observed, error) {
	var differing []observed
	for part := range slices.Chunk(suspects, maxAsked) {
		keys, streams := make([]string, len(part)), make([]eventstore.Stream, len(part))
		for i, s := range part {
			keys[i], streams[i] = s.key, s.stream
		}
		kept, err := c.config.Copy.Kept(ctx, c.generation, keys)
		if err != nil {
			return nil, err
		}
		states, err := c.config.States.States(ctx, streams)
		if err != nil {
			return nil, err
		}
		for i, s := range part {
			if d, differs := c.look(s, kept[i], states); differs {
				differing = append(differing, d)
			}
		}
	}
	return differing, nil
}

// look judges a suspect by what was read.
func (c *comparison) look(s suspect, kept Kept, states map[eventstore.Stream]eventstore.StateRecord) (observed, bool) {
	found := observed{kept: kept, entry: projections.Entry{Key: s.key}}
	if record, exists := states[s.stream]; exists {
		found.entry, found.fault = c.model.Project(record)
	}
	if kept.There && !s.present {
		c.present.add(hashOf(s.key))
		s.present = true
	}
	switch {
	case found.fault != nil:
	case agree(found.entry, kept):
		if !s.compared {
			c.digest += digestOf(hashOf(s.key), found.entry, kept)
		}
		return found, false
	case moves(s, kept, found.entry):
		c.found.Moving++
		return found, false
	}
	setDefault(&s.seen, found.entry.Position)
	found.suspect = s
	return found, true
}

// moves tells that what PostgreSQL had has arrived and that it has gone on since: the key is alive, and
// changes faster than it can be compared.
func moves(s suspect, kept Kept, entry projections.Entry) bool {
	position := projections.PositionOf(kept.Text)
	return kept.There && s.seen > 0 && position >= s.seen && entry.Position > position
}

func (c *comparison) count(d observed) {
	difference := Difference{Key: d.key, HasPosition: -1, WantPosition: d.entry.Position, Mended: d.mended}
	if d.kept.There {
		difference.HasPosition = projections.PositionOf(d.kept.Text)
		difference.Has, _ = projections.ValueOf(d.kept.Text)
	}
	difference.Want = string(d.entry.Value)
	if d.fault != nil {
		difference.Fault = d.fault.Error()
	}
	switch {
	case d.entry.Position == 0:
		difference.Kind = Extra
		c.found.Extra++
	case !d.kept.There:
		difference.Kind = Missing
		c.found.Missing++
	default:
		difference.Kind = Different
		c.found.Different++
	}
	if d.mended {
		c.found.Mended++
	}
	c.name(difference)
}

// maxMends bounds how often a key is tried that changes while it is mended.
const maxMends = 3

// mend gives the read model what PostgreSQL has. A key that changes meanwhile is looked at again: most
// likely the live feed has brought what it lacked. It gives all that differed, mended or not.
func (c *comparison) mend(ctx context.Context, differing []observed) ([]observed, error) {
	var all []observed
	for range maxMends {
		var mends []Mend
		var mendable []suspect
		for _, d := range differing {
			if d.fault != nil {
				all = append(all, d)
				continue
			}
			mends = append(mends, Mend{Was: d.kept, Entry: d.entry})
			mendable = append(mendable, d.suspect)
		}
		if len(mends) == 0 {
			return all, nil
		}
		if _, err := c.config.Copy.Mend(ctx, c.generation, mends); err != nil {
			return nil, err
		}
		rest, err := c.again(ctx, mendable)
		if err != nil {
			return nil, err
		}
		for _, d := range differing {
			if d.fault == nil && !slices.ContainsFunc(rest, func(r observed) bool { return r.key == d.key }) {
				d.mended = true
				all = append(all, d)
			}
		}
		differing = rest
	}
	return append(all, differing...), nil
}

package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"andes/eventstore"
	"andes/projections"
)

// Check says what to compare with PostgreSQL.
type Check struct {
	Models     []string                                  // none: all
	Generation func(model string) projections.Generation // nil: the serving ones
	Only       []string                                  // SKUs; none: every key
	Repair     bool                                      // mend what differs
	Limit      int                                       // more differences end the check; 0: DefaultDifferences
	Actor      string                                    // of a repair
	Reason     string
}

// DefaultDifferences is how many keys may differ before a check gives up: rebuilding is quicker then.
const DefaultDifferences = 10_000

// Verify compares every key of the read models with the states, and names those that differ. Changes may
// go on meanwhile: a key that differs is read again, on both sides, until both have it at one position or
// it is plain that it does not arrive. With Repair these keys are mended, unless they change by then.
func (r *Rebuilder) Verify(ctx context.Context, check Check) (Report, error) {
	if _, err := r.config.Set.Only(check.Models...); err != nil {
		return Report{}, err
	}
	if !check.Repair {
		return r.check(ctx, check)
	}
	var report Report
	err := r.config.Ledger.Exclusively(ctx, func(ctx context.Context) (err error) {
		if report, err = r.check(ctx, check); report.Mended() == 0 {
			return err
		}
		return errors.Join(err, r.record(ctx, Action{
			Name: "projections.repair", Actor: check.Actor, Reason: check.Reason,
			Target: strings.Join(slices.Concat(check.Models, check.Only), ","), Count: report.Mended(), At: r.config.Now(),
		}))
	})
	return report, err
}

func (r *Rebuilder) check(ctx context.Context, check Check) (Report, error) {
	if len(check.Models) == 0 {
		check.Models = r.config.Set.Names()
	}
	setDefault(&check.Limit, DefaultDifferences)
	if check.Generation == nil {
		named, err := r.config.Copy.Generations(ctx)
		if err != nil {
			return Report{}, err
		}
		check.Generation = func(model string) projections.Generation { return named.Of(model).Serving }
	}
	var report Report
	all := make([]*comparison, len(check.Models))
	for i, name := range check.Models {
		model, _ := r.config.Set.Projection(name)
		all[i] = &comparison{
			Rebuilder: r, check: check, model: model, generation: check.Generation(name), report: &report,
			found:   ModelReport{Model: name, Generation: check.Generation(name)},
			present: new(cells), listed: new(cells),
		}
	}
	var err error
	if len(check.Only) > 0 {
		err = onlySome(ctx, all)
	} else {
		err = everything(ctx, all)
	}
	for _, c := range all {
		if c.begun {
			c.found.Digest = fmt.Sprintf("%016x", c.digest)
			report.Models = append(report.Models, c.found)
		}
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return report, err
}

// onlySome compares the keys of the check's SKUs.
func onlySome(ctx context.Context, all []*comparison) error {
	for _, c := range all {
		c.begin()
		if err := c.runOnly(ctx); err != nil {
			return err
		}
	}
	tellUnknown(all)
	return nil
}

// tellUnknown names the SKUs that no read model, and no state that one is made of, is about: most likely a mistake.
func tellUnknown(all []*comparison) {
	for _, sku := range all[0].check.Only {
		if !slices.ContainsFunc(all, func(c *comparison) bool { return c.knows(sku) }) {
			all[0].report.Unknown = append(all[0].report.Unknown, sku)
		}
	}
}

// knows tells whether there is a state of the SKU, or a key that should not be there.
func (c *comparison) knows(sku string) bool {
	return c.ofSKU[sku] || slices.ContainsFunc(c.report.Differences, func(d Difference) bool { return d.Key == c.model.Name+":"+sku })
}

// everything compares every key of PostgreSQL, one read model after the other. Meanwhile the keys of all of
// them are listed, so that Redis is gone through once.
func everything(ctx context.Context, all []*comparison) error {
	comparing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var listing sync.WaitGroup
	listing.Go(func() {
		if err := list(comparing, all); err != nil {
			stop(err)
		}
	})
	for _, c := range all {
		c.begin()
		if err := c.compareAll(comparing); err != nil {
			stop(err)
			break
		}
	}
	listing.Wait()
	if err := context.Cause(comparing); err != nil {
		return err
	}
	return extras(ctx, all)
}

// comparison is the check of one read model.
type comparison struct {
	*Rebuilder
	check      Check
	model      projections.Projection
	generation projections.Generation
	report     *Report
	begun      bool
	listed     *cells          // of the keys that the read model has
	ofSKU      map[string]bool // of the SKUs asked for, those with a state

	mu       sync.Mutex // guards what is below while batches are compared side by side
	found    ModelReport
	digest   uint64
	present  *cells    // of the keys that the read model has, as far as PostgreSQL knows them
	suspects []suspect // differed when they were first seen
	meter    meter
	told     time.Time // when the progress was last reported
}

func (c *comparison) begin() {
	c.begun, c.meter, c.told = true, newMeter(c.config.Now, 0), c.config.Now()
}

// suspect is a key that has to be read again.
type suspect struct {
	stream   eventstore.Stream
	key      string
	seen     int64 // PostgreSQL's position then
	present  bool  // counted among those that the read model has
	compared bool  // counted in the digest, if it was right
}

const (
	// maxSuspects bounds what waits to be read again.
	maxSuspects = 5000
	// maxAsked bounds one question to Redis and PostgreSQL, so that others are answered in between.
	maxAsked = 250
)

// compareAll looks at every state, and again at those that differ.
func (c *comparison) compareAll(ctx context.Context) error {
	comparing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	courtesy := c.config.courtesy()
	batches := make(chan []eventstore.StateRecord, courtesy.parallel)
	var workers sync.WaitGroup
	for range courtesy.parallel {
		workers.Go(func() {
			for batch := range batches {
				for few := range slices.Chunk(batch, courtesy.keys) {
					began := c.config.Now()
					if err := c.compare(comparing, few); err != nil {
						stop(err)
					}
					if err := courtesy.after(comparing, c.config.Now().Sub(began)); err != nil {
						break
					}
				}
			}
		})
	}
	err := c.config.States.EachState(comparing, c.model.Category, func(batch []eventstore.StateRecord) error {
		select {
		case batches <- batch:
			return nil
		case <-comparing.Done():
			return context.Cause(comparing)
		}
	})
	close(batches)
	workers.Wait()
	if cause := context.Cause(comparing); cause != nil {
		err = cause
	}
	if err != nil {
		return err
	}
	return c.settle(ctx)
}

// runOnly compares the keys of some SKUs, those that PostgreSQL does not know among them.
func (c *comparison) runOnly(ctx context.Context) error {
	records, err := c.config.States.StatesOfSKUs(ctx, c.model.Category, c.check.Only)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(records))
	c.ofSKU = make(map[string]bool, len(records))
	for batch := range slices.Chunk(records, maxAsked) {
		for _, record := range batch {
			known[record.Stream.Key] = true
			_, sku, listed := strings.Cut(record.Stream.Key, "|") // of a price's key
			c.ofSKU[record.Stream.Key], c.ofSKU[sku] = true, c.ofSKU[sku] || listed
		}
		if err := c.compare(ctx, batch); err != nil {
			return err
		}
	}
	for _, sku := range c.check.Only {
		if !known[sku] {
			c.suspect(eventstore.Stream{Category: c.model.Category, Key: sku})
		}
	}
	return c.settle(ctx)
}

// compare looks at a batch of states for the first time.
func (c *comparison) compare(ctx context.Context, records []eventstore.StateRecord) error {
	entries := make([]projections.Entry, 0, len(records))
	keys := make([]string, 0, len(records))
	for _, record := range records {
		entry, err := c.model.Project(record)
		if err != nil {
			c.unprojectable(entry, err)
			continue
		}
		entries, keys = append(entries, entry), append(keys, entry.Key)
	}
	kept, err := c.config.Copy.Kept(ctx, c.generation, keys)
	if err != nil {
		return err
	}
	hashes, agreed := make([]uint64, len(entries)), make([]bool, len(entries))
	digest := uint64(0)
	for i, entry := range entries {
		hashes[i] = hashOf(entry.Key)
		if agreed[i] = agree(entry, kept[i]); agreed[i] {
			digest += digestOf(hashes[i], entry, kept[i])
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found.Keys += int64(len(entries))
	c.digest += digest
	for i, entry := range entries {
		if kept[i].There {
			c.present.add(hashes[i])
		}
		if !agreed[i] {
			c.suspects = append(c.suspects, suspect{stream: c.streamOf(entry.Key), key: entry.Key, seen: entry.Position, present: kept[i].There})
		}
	}
	c.tell()
	if len(c.suspects) >= maxSuspects {
		return c.settleLocked(ctx)
	}
	return nil
}

func (c *comparison) streamOf(key string) eventstore.Stream {
	return eventstore.Stream{Category: c.model.Category, Key: strings.TrimPrefix(key, c.model.Name+":")}
}

// agree tells whether a query is answered alike from both.
func agree(entry projections.Entry, kept Kept) bool {
	if entry.Value != nil {
		return kept.There && entry.KeptAs(kept.Text)
	}
	_, there := projections.ValueOf(kept.Text)
	return !kept.There || !there && projections.PositionOf(kept.Text) >= 0
}

// digestOf is the part of the digest of an entry that agrees with what is kept; it does not depend on their
// order. What is not there has none: the read model may know of it or not.
func digestOf(key uint64, entry projections.Entry, kept Kept) uint64 {
	if entry.Value == nil {
		return 0
	}
	return mixed(key ^ mixed(hashOf(kept.Text)))
}

// tell reports the progress, now and then.
func (c *comparison) tell() {
	now := c.config.Now()
	if now.Sub(c.told) < c.config.ReportEvery {
		return
	}
	c.told = now
	c.config.Report(Progress{
		Phase: Verifying, Generation: c.generation, Models: []string{c.model.Name},
		Done: c.found.Keys, PerSecond: c.meter.perSecond(c.found.Keys), Left: -1,
	})
}

// unprojectable reports a state that no read model can be made of.
func (c *comparison) unprojectable(entry projections.Entry, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found.Different++
	c.name(Difference{Key: entry.Key, Kind: Different, HasPosition: -1, WantPosition: entry.Position, Fault: err.Error()})
}

func (c *comparison) name(difference Difference) {
	if len(c.report.Differences) < MaxNamed {
		c.report.Differences = append(c.report.Differences, difference)
	}
}

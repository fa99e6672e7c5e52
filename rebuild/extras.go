package rebuild

import (
	"context"

	"andes/projections"
)

// list counts the keys that the read models have. It runs beside the comparison; what comes and goes
// meanwhile is looked up afterwards.
func list(ctx context.Context, all []*comparison) error {
	return each(ctx, all, func(c *comparison, key string) error {
		c.listed.add(hashOf(key))
		return nil
	})
}

// extras looks for keys that PostgreSQL does not know. Counts and digests tell whether there are any, and
// about where; only there the keys are looked up.
func extras(ctx context.Context, all []*comparison) error {
	var differing []*comparison
	for _, c := range all {
		if *c.listed != *c.present {
			differing = append(differing, c)
		}
	}
	if len(differing) == 0 {
		return nil
	}
	err := each(ctx, differing, func(c *comparison, key string) error {
		hash := hashOf(key)
		if *c.listed.of(hash) == *c.present.of(hash) {
			return nil
		}
		c.suspect(c.streamOf(key))
		if len(c.suspects) < maxSuspects {
			return nil
		}
		return c.lookUp(ctx)
	})
	if err != nil {
		return err
	}
	for _, c := range differing {
		if err := c.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// each lists the keys of the read models, with the comparison that each belongs to.
func each(ctx context.Context, all []*comparison, take func(c *comparison, key string) error) error {
	byModel := make(map[string]*comparison, len(all))
	generations := make(map[string]projections.Generation, len(all))
	for _, c := range all {
		byModel[c.model.Name], generations[c.model.Name] = c, c.generation
	}
	config := all[0].config
	return config.Copy.Each(ctx, generations, config.courtesy().listed, func(keys []string) error {
		for _, key := range keys {
			if err := take(byModel[projections.ModelOf(key)], key); err != nil {
				return err
			}
		}
		return nil
	})
}

// lookUp clears the suspects that are as they should be, without waiting for the others.
func (c *comparison) lookUp(ctx context.Context) error {
	differing, err := c.again(ctx, c.suspects)
	if err != nil {
		return err
	}
	c.suspects = c.suspects[:0]
	for _, d := range differing {
		c.suspects = append(c.suspects, d.suspect)
	}
	if len(c.suspects) >= maxSuspects/2 {
		return c.settle(ctx)
	}
	return nil
}

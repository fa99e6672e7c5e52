package rebuild

import "context"

// list counts the keys that the read model has. It runs beside the comparison; what comes and goes
// meanwhile is looked up afterwards.
func (c *comparison) list(ctx context.Context) (*cells, error) {
	listed := new(cells)
	err := c.each(ctx, func(key string) error {
		listed.add(hashOf(key))
		return nil
	})
	return listed, err
}

// extras looks for keys that PostgreSQL does not know. Counts and digests tell whether there are any, and
// about where; only there the keys are looked up.
func (c *comparison) extras(ctx context.Context, listed *cells) error {
	if *listed == *c.present {
		return nil
	}
	return c.each(ctx, func(key string) error {
		hash := hashOf(key)
		if *listed.of(hash) == *c.present.of(hash) {
			return nil
		}
		c.suspect(c.streamOf(key))
		if len(c.suspects) < maxSuspects {
			return nil
		}
		return c.lookUp(ctx)
	})
}

func (c *comparison) each(ctx context.Context, take func(key string) error) error {
	return c.config.Copy.Each(ctx, c.generation, []string{c.model.Name}, func(keys []string) error {
		for _, key := range keys {
			if err := take(key); err != nil {
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

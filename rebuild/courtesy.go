package rebuild

import (
	"context"
	"time"
)

// courtesy is how large the steps of a run are, and how long it rests between them. Redis works on one step at
// a time and a reader who comes meanwhile waits for its end; on a machine that is shared, processor time is
// waited for as well.
type courtesy struct {
	parallel int // parts that are read, and batches that are compared, at a time
	keys     int // that are written or asked for in one step
	listed   int // that are looked at in one step of a listing
	rest     int // after each step, so many times as long as it took
}

var (
	// gentle is for a read model that is read meanwhile.
	gentle = courtesy{parallel: 1, keys: 50, listed: 500, rest: 2}
	// hasty is for one that nobody reads, or that is of no use until it is rebuilt.
	hasty = courtesy{parallel: 4, keys: 500, listed: 2000}
)

func (c Config) courtesy() courtesy {
	if c.Hasty {
		return hasty
	}
	return gentle
}

// after rests when a step is done.
func (c courtesy) after(ctx context.Context, took time.Duration) error {
	if c.rest == 0 {
		return nil
	}
	return pause(ctx, time.Duration(c.rest)*took)
}

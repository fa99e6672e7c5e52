package polling

import (
	"sync"
	"time"
)

// restFactor is how many times as long as its slowest answer a source is left alone, so that one poller
// takes at most a sixth of the time of a source that can do one thing at a time.
const restFactor = 5

// interval adapts to how fast a source answers. It lengthens at once, so that a source that is overloaded
// gets rest, and shortens by half a poll, so that one quick answer among slow ones does not end the rest.
type interval struct {
	least, most time.Duration

	mu      sync.Mutex
	current time.Duration
}

// answered takes the slowest answer of a poll and gives the interval from now on.
func (i *interval) answered(slowest time.Duration) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	wanted := min(slowest, i.most/restFactor) * restFactor
	i.current = max(i.least, wanted, i.current/2)
	return i.current
}

// rest is how long to wait after a poll that took so long. A clock that was put back adds nothing to it.
func (i *interval) rest(took time.Duration) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current - max(took, 0)
}

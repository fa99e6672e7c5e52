package sim

import (
	"maps"
	"sync"
	"time"
)

const (
	rateWindowSeconds = 10
	maxRoutes         = 64
)

// Outcomes of a call that got no status.
const (
	outcomeCut  = "cut"  // connection closed by an outage
	outcomeLost = "lost" // the work was done, its answer was cut
	outcomeLeft = "left" // the client went away while it waited
)

// CallStats counts the calls of one simulator by route and outcome.
type CallStats struct {
	Total         int64                       `json:"total"`
	PerSecond     float64                     `json:"perSecond"`     // over the last 10 s
	PeakPerSecond int64                       `json:"peakPerSecond"` // busiest single second since the reset
	ByRoute       map[string]map[string]int64 `json:"byRoute"`
}

type callCounter struct {
	mu      sync.Mutex
	total   int64
	peak    int64
	byRoute map[string]map[string]int64
	seconds [rateWindowSeconds + 1]int64
	stamps  [rateWindowSeconds + 1]int64 // the unix second that each slot counts
}

func (c *callCounter) arrive(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	second := now.Unix()
	slot := int(second % int64(len(c.seconds)))
	if c.stamps[slot] != second {
		c.stamps[slot], c.seconds[slot] = second, 0
	}
	c.seconds[slot]++
	c.peak = max(c.peak, c.seconds[slot])
	c.total++
}

func (c *callCounter) finish(route, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRoute == nil {
		c.byRoute = map[string]map[string]int64{}
	}
	if c.byRoute[route] == nil {
		if len(c.byRoute) >= maxRoutes {
			return
		}
		c.byRoute[route] = map[string]int64{}
	}
	c.byRoute[route][outcome]++
}

func (c *callCounter) snapshot(now time.Time) CallStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := CallStats{Total: c.total, PeakPerSecond: c.peak, ByRoute: map[string]map[string]int64{}}
	for route, outcomes := range c.byRoute {
		out.ByRoute[route] = maps.Clone(outcomes)
	}
	second := now.Unix()
	var recent int64
	for slot, stamp := range c.stamps {
		// The running second is left out: it would make the rate look lower.
		if stamp < second && stamp >= second-rateWindowSeconds {
			recent += c.seconds[slot]
		}
	}
	out.PerSecond = float64(recent) / rateWindowSeconds
	return out
}

func (c *callCounter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total, c.peak, c.byRoute = 0, 0, nil
	clear(c.seconds[:])
	clear(c.stamps[:])
}

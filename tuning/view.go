package tuning

import "time"

// Overview is how the guards of a process stand, and what is set for those of all.
type Overview struct {
	Items  []Guard         `json:"items" doc:"The guards of the process that answers"`
	Set    []GuardStanding `json:"set,omitempty" doc:"What is set for the guards of all processes"`
	Unread string          `json:"unread,omitempty" doc:"What is set can't be read now, and why: it is not told"`
}

// Guard is how the guard of a legacy system stands in this process. Durations are in Go's notation, as 2s.
type Guard struct {
	System   string        `json:"system" example:"oms"`
	Breaker  GuardBreaker  `json:"breaker"`
	InFlight int           `json:"inFlight" doc:"Calls at this moment"`
	Waiting  int           `json:"waiting" doc:"Calls that wait for a place"`
	Settings GuardSettings `json:"settings"`
}

// GuardBreaker is a breaker and what it has counted.
type GuardBreaker struct {
	State     string    `json:"state" enum:"closed,open,half-open"`
	Since     time.Time `json:"since"`
	ProbesAt  time.Time `json:"probesAt,omitzero" doc:"Open: when it lets probes through"`
	Results   int       `json:"results" doc:"Closed: results in the window"`
	Failures  int       `json:"failures" doc:"Of them"`
	Slow      int       `json:"slow" doc:"Of them"`
	Probing   int       `json:"probing" doc:"Half-open: probes without a result"`
	Recovered int       `json:"recovered" doc:"Half-open: probes that succeeded"`
	Opened    int64     `json:"opened" doc:"Times, since the process started"`
	Late      int64     `json:"late" doc:"Results that did not count, as they came after a change of the state"`
}

// GuardSettings are a guard's settings of the moment.
type GuardSettings struct {
	Concurrency int      `json:"concurrency" doc:"Calls at once"`
	Rate        int      `json:"rate" doc:"Calls a second"`
	QueueWait   string   `json:"queueWait" example:"5s"`
	Timeout     string   `json:"timeout" example:"2s"`
	Attempts    int      `json:"attempts" doc:"Of an idempotent call"`
	Waits       []string `json:"waits" doc:"Between them"`
	Window      int      `json:"window" doc:"Results that the breaker judges"`
	MinCalls    int      `json:"minCalls"`
	FailPercent int      `json:"failPercent"`
	OpenFor     string   `json:"openFor" example:"30s"`
	OpenFirst   string   `json:"openFirst" example:"2s" doc:"The first time; 0s: openFor"`
	Probes      int      `json:"probes"`

	MaxRetryAfter string `json:"maxRetryAfter" example:"5s"`
	SlowAfter     string `json:"slowAfter" example:"1.5s"`
	SlowPercent   int    `json:"slowPercent"`
	ProbeWait     string `json:"probeWait" example:"10s"`
}

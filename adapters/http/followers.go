package httpapi

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/eventstore"
)

// Following bounds those who follow changes, of one instance.
type Following struct {
	PerPartner int           // streams and waiting requests of a partner at once
	Total      int           // and of all partners
	Pace       time.Duration // between two pages of a stream, so that changes of the same SKU are told once
	Heartbeat  time.Duration // of a stream on which nothing happens
	Stall      time.Duration // how long a client may leave a page unread: there is no queue behind it
	Retry      time.Duration // after which clients reconnect, on average
	MaxAge     time.Duration // of a stream, so that new instances get their share
}

// DefaultFollowing has the defaults of all bounds.
var DefaultFollowing = Following{
	PerPartner: 10, Total: 1000, Pace: 100 * time.Millisecond, Heartbeat: 15 * time.Second,
	Stall: 10 * time.Second, Retry: 2 * time.Second, MaxAge: time.Hour,
}

func (f Following) valid() bool {
	return min(f.PerPartner, f.Total) > 0 && min(f.Pace, f.Heartbeat, f.Stall, f.Retry, f.MaxAge) > 0
}

// How changes are followed.
const (
	followsByPolling = "poll"
	followsByStream  = "stream"
)

// Why streams end.
const (
	endedByClient = "client"
	endedSlow     = "slow"
	endedToken    = "token"
	endedAge      = "age"
	endedStop     = "stop"
	endedFault    = "fault"
)

// followers counts who follows.
type followers struct {
	bounds  Following
	present *prometheus.GaugeVec
	ended   *prometheus.CounterVec

	mu        sync.Mutex
	total     int
	byPartner map[string]int
}

func newFollowers(bounds Following, registerer prometheus.Registerer) (*followers, error) {
	f := &followers{
		bounds: bounds, byPartner: map[string]int{},
		present: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "andes_changes_followers", Help: "Callers that follow changes now: by a stream, or by a request that waits.",
		}, []string{"by"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_changes_streams_ended_total",
			Help: "Streams of changes that ended, by why: the client left, was too slow, its token ended, age, this instance stopped, or a fault.",
		}, []string{"why"}),
	}
	for _, by := range []string{followsByPolling, followsByStream} {
		f.present.WithLabelValues(by)
	}
	for _, why := range []string{endedByClient, endedSlow, endedToken, endedAge, endedStop, endedFault} {
		f.ended.WithLabelValues(why)
	}
	if err := errors.Join(registerer.Register(f.present), registerer.Register(f.ended)); err != nil {
		return nil, fmt.Errorf("http edge: register metrics: %w", err)
	}
	return f, nil
}

// enter takes a place, which leave gives back.
func (f *followers) enter(partner, by string) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.byPartner[partner] >= f.bounds.PerPartner:
		return nil, eventstore.Refuse(CodeTooManyFollowers, "at most %d streams and waiting requests are open at once", f.bounds.PerPartner)
	case f.total >= f.bounds.Total:
		return nil, eventstore.ErrOverloaded
	}
	f.total++
	f.byPartner[partner]++
	f.present.WithLabelValues(by).Inc()
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.total--
		if f.byPartner[partner]--; f.byPartner[partner] == 0 {
			delete(f.byPartner, partner)
		}
		f.present.WithLabelValues(by).Dec()
	}, nil
}

package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// observer counts and logs calls. It sees routes, never paths, queries, headers or bodies.
type observer struct {
	log      *slog.Logger
	clock    func() time.Time
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	lost     *meters // calls without a route
}

// meters are one endpoint's.
type meters struct {
	route    string
	requests *prometheus.CounterVec
	took     prometheus.Observer
	counters [maxStatus + 1]atomic.Pointer[prometheus.Counter] // by status, once it was answered
}

// maxStatus is the highest status there is.
const maxStatus = 599

// answered gives the counter of a status.
func (m *meters) answered(status int) prometheus.Counter {
	if status < 0 || status > maxStatus {
		return m.requests.WithLabelValues(strconv.Itoa(status))
	}
	if known := m.counters[status].Load(); known != nil {
		return *known
	}
	counter := m.requests.WithLabelValues(strconv.Itoa(status))
	m.counters[status].Store(&counter)
	return counter
}

// tookBuckets cover a read from memory up to a command at its time limit.
var tookBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

func newObserver(config Config) (*observer, error) {
	o := &observer{
		log: config.Logger, clock: config.Clock,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_http_requests_total", Help: "Requests by route and status.",
		}, []string{"route", "status"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "andes_http_request_seconds", Help: "Time from a request's header to the end of its answer.", Buckets: tookBuckets,
		}, []string{"route"}),
	}
	for _, collector := range []prometheus.Collector{o.requests, o.took} {
		if err := config.Registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("http edge: register metrics: %w", err)
		}
	}
	o.lost = o.named("none")
	return o, nil
}

func (o *observer) of(e *endpoint) *meters { return o.named(e.pattern()) }

func (o *observer) named(route string) *meters {
	return &meters{route: route, requests: o.requests.MustCurryWith(prometheus.Labels{"route": route}), took: o.took.WithLabelValues(route)}
}

// saw counts and logs a call that is over.
func (o *observer) saw(c *call) {
	seen, frequent, lasting := o.lost, false, false
	if c.endpoint != nil {
		seen, frequent, lasting = c.endpoint.seen, c.endpoint.frequent, c.endpoint.lasting
	}
	took := o.clock().Sub(c.started)
	seen.answered(c.status).Inc()
	if !lasting {
		seen.took.Observe(took.Seconds())
	}
	level := slog.LevelInfo
	switch {
	case c.fault != nil && c.status != statusGone:
		level = slog.LevelError
	case frequent && c.status < http.StatusBadRequest:
		level = slog.LevelDebug
	}
	ctx := c.request.Context()
	if !o.log.Enabled(ctx, level) {
		return
	}
	attributes := []slog.Attr{
		slog.String("correlationId", c.correlation), slog.String("route", seen.route), slog.Int("status", c.status),
		slog.Duration("took", took), slog.String("partner", c.principal.Partner),
	}
	if c.fault != nil {
		attributes = append(attributes, slog.String("error", c.fault.Error()))
	}
	o.log.LogAttrs(ctx, level, "http request", attributes...)
}

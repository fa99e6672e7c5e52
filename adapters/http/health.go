package httpapi

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readyTimeout bounds the look at all parts.
const readyTimeout = 2 * time.Second

type healthBody struct {
	Status string `json:"status" enum:"ok"`
}

type readyBody struct {
	Ready    bool     `json:"ready"`
	Missing  []string `json:"missing,omitempty" example:"[\"postgres\"]" doc:"The parts without which nothing can be answered; why is in the logs"`
	Degraded []string `json:"degraded,omitempty" example:"[\"redis\"]" doc:"The parts that are away while requests are still answered; why is in the logs"`
}

// Readiness tells what each part lacks that a process needs. Nil errors are parts that are there.
type Readiness struct {
	Missing  map[string]error // requests should not be sent here
	Degraded map[string]error // requests are answered without it: taking the process away would make it worse
}

func (a *API) healthEndpoints() []*endpoint {
	metrics := promhttp.HandlerFor(a.Gatherer, promhttp.HandlerOpts{})
	return []*endpoint{
		{
			method: http.MethodGet, path: "/healthz", id: "alive", tag: "operations", frequent: true,
			summary: "Whether the process works",
			answers: []answer{{status: 200, description: "It does", body: reflect.TypeFor[healthBody]()}},
			handle:  func(c *call) error { return c.json(http.StatusOK, healthBody{Status: "ok"}) },
		},
		{
			method: http.MethodGet, path: "/readyz", id: "ready", tag: "operations", frequent: true,
			summary: "Whether requests should be sent here",
			answers: []answer{
				{status: 200, description: "They should", body: reflect.TypeFor[readyBody]()},
				{status: 503, description: "They should not", body: reflect.TypeFor[readyBody]()},
			},
			handle: a.ready,
		},
		{
			method: http.MethodGet, path: "/metrics", id: "metrics", tag: "operations", frequent: true,
			summary: "Prometheus metrics",
			answers: []answer{{status: 200, description: "Text format", media: "text/plain", body: reflect.TypeFor[string]()}},
			handle:  func(c *call) error { metrics.ServeHTTP(c, c.request); return nil },
		},
	}
}

func (a *API) ready(c *call) error {
	var found Readiness
	if a.Ready != nil {
		ctx, cancel := context.WithTimeout(c.request.Context(), readyTimeout)
		defer cancel()
		found = a.Ready(ctx)
	}
	body := readyBody{Missing: a.lacking(c, found.Missing, "not ready"), Degraded: a.lacking(c, found.Degraded, "degraded")}
	if a.draining.Load() {
		body.Missing = append([]string{"stopping"}, body.Missing...)
	}
	if body.Ready = len(body.Missing) == 0; body.Ready {
		return c.json(http.StatusOK, body)
	}
	return c.json(http.StatusServiceUnavailable, body)
}

// lacking names the parts that are not there, and logs why.
func (a *API) lacking(c *call, parts map[string]error, message string) []string {
	var names []string
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		if err := parts[part]; err != nil {
			names = append(names, part)
			a.Logger.LogAttrs(c.request.Context(), slog.LevelWarn, message, slog.String("part", part), slog.String("error", err.Error()))
		}
	}
	return names
}

// json answers with a value. For what is asked often there is raw.
func (c *call) json(status int, value any) error {
	data, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return err
	}
	c.send(status, "application/json", data)
	return nil
}

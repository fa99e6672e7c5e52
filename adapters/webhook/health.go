package webhook

import (
	"sync"
	"time"
)

// health knows which endpoints keep failing. Such a one is left alone for a while; then one delivery is let
// through to see whether it is back.
type health struct {
	pause time.Duration

	mu        sync.Mutex
	endpoints map[string]*endpoint // by subscription; only those that failed last time
}

type endpoint struct {
	failures int // deliveries in a row
	until    time.Time
	asked    time.Time // it asked to be left alone until then
}

// patience is how many deliveries in a row may fail before the endpoint is left alone.
const patience = 3

// maxEndpoints bounds the memory; when it is full all is forgotten, and failing endpoints are found anew.
const maxEndpoints = 10_000

func (h *health) mayTry(id string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, failing := h.endpoints[id]
	if failing && now.Before(e.asked) {
		return false
	}
	if !failing || e.failures < patience {
		return true
	}
	if now.Before(e.until) {
		return false
	}
	e.until = now.Add(h.pause) // this one tries, the next ones wait for what it finds
	return true
}

func (h *health) failed(id string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.of(id)
	e.failures++
	e.until = now.Add(h.pause)
}

// pauseUntil obeys an endpoint that answered and asked for a pause.
func (h *health) pauseUntil(id string, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of(id).asked = until
}

// of gives what is known of the endpoint.
func (h *health) of(id string) *endpoint {
	if h.endpoints == nil || len(h.endpoints) >= maxEndpoints {
		h.endpoints = map[string]*endpoint{}
	}
	e, known := h.endpoints[id]
	if !known {
		e = &endpoint{}
		h.endpoints[id] = e
	}
	return e
}

func (h *health) succeeded(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.endpoints, id)
}

package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	maxLabBodyBytes = 64 << 20
	defaultLimit    = 200
	maxLimit        = 1000
)

// Stats is the answer of GET /_lab/stats.
type Stats struct {
	System   string    `json:"system"`
	Since    string    `json:"since"`
	Waiting  int       `json:"waiting"` // delayed work that is not due yet
	Calls    CallStats `json:"calls"`
	Business any       `json:"business,omitempty"`
}

func (c *Core[K]) labRoutes() {
	c.Lab("GET /_lab/knobs", func(w http.ResponseWriter, r *http.Request) { Answer(w, http.StatusOK, c.Knobs()) })
	c.Lab("PUT /_lab/knobs", c.putKnobs)
	c.Lab("GET /_lab/stats", func(w http.ResponseWriter, r *http.Request) { Answer(w, http.StatusOK, c.Stats()) })
	c.Lab("POST /_lab/reset", func(w http.ResponseWriter, r *http.Request) {
		c.calls.reset()
		c.since.Store(c.now().UnixNano())
		if c.onReset != nil {
			c.onReset()
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func (c *Core[K]) putKnobs(w http.ResponseWriter, r *http.Request) {
	patch, err := io.ReadAll(r.Body)
	if err != nil {
		Refuse(w, http.StatusBadRequest, "body: %v", err)
		return
	}
	err = c.replaceKnobs(func(current K) (K, error) { return merge(current, patch) })
	if err != nil {
		Refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	Answer(w, http.StatusOK, c.Knobs())
}

// Stats is what GET /_lab/stats answers.
func (c *Core[K]) Stats() Stats {
	s := Stats{
		System: c.name, Since: Stamp(time.Unix(0, c.since.Load())),
		Waiting: c.Waiting(), Calls: c.calls.snapshot(time.Now()),
	}
	if c.business != nil {
		s.Business = c.business()
	}
	return s
}

const stampLayout = "2006-01-02T15:04:05.000Z"

// Stamp writes a time as all simulators do: UTC with milliseconds.
func Stamp(t time.Time) string { return t.UTC().Format(stampLayout) }

// Answer writes v as JSON.
func Answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, `{"error":"answer cannot be written"}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that left is not this system's fault.
	_, _ = w.Write(body)
}

// Refuse writes an error answer.
func Refuse(w http.ResponseWriter, status int, format string, args ...any) {
	Answer(w, status, map[string]string{"error": fmt.Sprintf(format, args...)})
}

// Read decodes the body, or answers 400 and returns false.
func Read(w http.ResponseWriter, r *http.Request, v any) bool {
	dec := json.NewDecoder(r.Body)
	err := dec.Decode(v)
	if err == nil && dec.More() {
		err = errors.New("more than one value")
	}
	if err != nil {
		Refuse(w, http.StatusBadRequest, "body is not the JSON expected: %v", err)
		return false
	}
	return true
}

// Limit reads the page size: 1..1000, 200 when it is not given; above it is
// cut to 1000.
func Limit(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("limit %q is not a positive number", text)
	}
	return min(n, maxLimit), nil
}

// After reads the sequence number after which a page starts.
func After(r *http.Request) (int64, error) {
	text := r.URL.Query().Get("after")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("after %q is not a sequence number", text)
	}
	return n, nil
}

// Page is one page of a list that is numbered by a sequence.
type Page[T any] struct {
	Items   []T    `json:"items"`
	HasMore bool   `json:"hasMore"`
	Now     string `json:"now,omitempty"`
}

// Paged serves a list; read returns at most limit items after the number
// given and whether there are more.
func Paged[T any](read func(after int64, limit int) ([]T, bool), now func() time.Time) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		limit, errLimit := Limit(r)
		after, errAfter := After(r)
		if err := errors.Join(errLimit, errAfter); err != nil {
			Refuse(w, http.StatusBadRequest, "%v", err)
			return
		}
		items, more := read(after, limit)
		if items == nil {
			items = []T{}
		}
		Answer(w, http.StatusOK, Page[T]{Items: items, HasMore: more, Now: Stamp(now())})
	}
}

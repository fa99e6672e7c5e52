// Package labtest calls a simulator's handler without a network, so that a
// test can run in a testing/synctest bubble where all waits take no time.
package labtest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Cut is the status of a call whose connection was closed without an answer.
const Cut = 0

// Answer of one call.
type Answer struct {
	Status int
	Body   []byte
}

// Call makes one call; body may be empty, headers are name, value, name …
func Call(ctx context.Context, h http.Handler, method, target, body string, headers ...string) (answer Answer) {
	req := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case http.ErrAbortHandler:
			answer = Answer{Status: Cut}
		default:
			panic(cause)
		}
	}()
	h.ServeHTTP(rec, req)
	return Answer{Status: rec.Code, Body: rec.Body.Bytes()}
}

// Do makes one call, expects the status and decodes the answer into a T.
func Do[T any](t *testing.T, h http.Handler, method, target, body string, status int, headers ...string) T {
	t.Helper()
	answer := Call(t.Context(), h, method, target, body, headers...)
	if answer.Status != status {
		t.Fatalf("%s %s: status %d, want %d; answer %s", method, target, answer.Status, status, answer.Body)
	}
	var v T
	if len(answer.Body) > 0 {
		if err := json.Unmarshal(answer.Body, &v); err != nil {
			t.Fatalf("%s %s: answer %s: %v", method, target, answer.Body, err)
		}
	}
	return v
}

// Turn sets knobs through the lab's door.
func Turn(t *testing.T, h http.Handler, knobs string) {
	t.Helper()
	Do[map[string]any](t, h, http.MethodPut, "/_lab/knobs", knobs, http.StatusOK)
}

// Transport carries an http.Client's requests straight to a handler.
type Transport struct{ Handler http.Handler }

// RoundTrip implements http.RoundTripper. A connection that the handler cuts is an error, as in a network.
func (tr Transport) RoundTrip(r *http.Request) (response *http.Response, err error) {
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case http.ErrAbortHandler:
			response, err = nil, io.ErrUnexpectedEOF
			if r.Context().Err() != nil {
				err = r.Context().Err()
			}
		default:
			panic(cause)
		}
	}()
	rec := httptest.NewRecorder()
	tr.Handler.ServeHTTP(rec, r)
	return rec.Result(), nil
}

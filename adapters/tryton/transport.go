package tryton

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"regexp"
	"slices"
)

// Transport makes the failures of a Tryton server visible to the guard. Whatever goes wrong in a call,
// Tryton answers with status 200: that a customer has no address and that its database is gone. The first
// is a healthy answer, the second must count for the breaker, and becomes a 500.
type Transport struct {
	Base http.RoundTripper // nil: http.DefaultTransport
}

// failure is the beginning of an answer that holds an error. Tryton writes the members in this order.
var failure = regexp.MustCompile(`^\{"id":\s*[0-9]+,\s*"error":\s*\[\s*"((?:[^"\\]|\\.)*)`)

// named are the errors that are answers.
var named = []string{userError, userWarning, loginException, concurrencyException}

// beginning is as much of an answer as is looked at.
const beginning = 128

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	response, err := base.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	body := bufio.NewReaderSize(response.Body, beginning)
	head, _ := body.Peek(beginning) // a fault comes again when the body is read
	found := failure.FindSubmatch(head)
	response.Body = struct {
		io.Reader
		io.Closer
	}{body, response.Body}
	if found != nil && !slices.ContainsFunc(named, func(name string) bool { return bytes.Equal(found[1], []byte(name)) }) {
		response.StatusCode, response.Status = http.StatusInternalServerError, "500 Internal Server Error"
	}
	return response, nil
}

package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"andes/commands/partner"
	"andes/eventstore"
	"andes/quota"
)

// statusGone is logged when the caller left before the answer.
const statusGone = 499

// call is one request with its answer. It is the http.ResponseWriter of the mux, so that what the mux
// says itself (no route, wrong method) becomes a problem document too.
type call struct {
	api         *API
	inner       http.ResponseWriter
	request     *http.Request
	endpoint    *endpoint // nil: no route
	started     time.Time
	correlation string
	sku         string // in the path, exactly as it was sent
	trace       string // W3C traceparent, if the caller sent a valid one
	principal   Principal
	caller      *partner.State // once it is known
	asked       quota.Ask      // of the quotas, when the request was admitted
	flight      *landing       // of the microcache, whose answer this call makes; nil: none
	making      *recollection  // which is to be remembered; nil: none
	status      int
	fault       error // of ours, for the log

	reading lazyTimeout    // of all that is read for the answer
	fields  [fields]string // values of headers
	filled  int
}

// fields is how many values of headers have room in a call; more of them cost an allocation each.
const fields = 6

// field sets a header by its canonical name.
func (c *call) field(name, value string) {
	if c.filled == fields {
		c.Header()[name] = []string{value}
		return
	}
	at := c.filled
	c.filled++
	c.fields[at] = value
	c.Header()[name] = c.fields[at:c.filled:c.filled]
}

var traceParent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// maxID bounds the ids that a request may bring.
const maxID = 64

// saneID tells whether a text is letters, digits, dots, dashes and underscores, from 1 to maxID of them.
func saneID(text string) bool {
	for i := range len(text) {
		switch b := text[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '.', b == '_', b == '-':
		default:
			return false
		}
	}
	return text != "" && len(text) <= maxID
}

// Headers of requests, in the form in which http.Header has them.
const (
	correlationHeader   = "X-Correlation-Id"
	traceHeader         = "Traceparent"
	authorizationHeader = "Authorization"
)

// first is what Header.Get gives of a header whose name has that form.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// Values of headers that many answers have. They have no room, so nobody can append to them.
var (
	noSniff  = []string{"nosniff"}[:1:1]
	noStore  = []string{"no-store"}[:1:1]
	ofJSON   = []string{jsonMedia}[:1:1]
	sniffKey = http.CanonicalHeaderKey("X-Content-Type-Options")
	mediaKey = http.CanonicalHeaderKey("Content-Type")
	sizeKey  = http.CanonicalHeaderKey("Content-Length")
)

const jsonMedia = "application/json"

func (a *API) newCall(w http.ResponseWriter, r *http.Request) *call {
	c := &call{api: a, inner: w, request: r, started: a.Clock(), correlation: first(r.Header[correlationHeader])}
	if !saneID(c.correlation) {
		c.correlation = a.NewID()
	}
	if sent := first(r.Header[traceHeader]); sent != "" && validTrace(sent) {
		c.trace = sent
	}
	c.reading.parent, c.reading.after = r.Context(), a.Limits.ReadTimeout
	c.field(correlationHeader, c.correlation)
	header := w.Header()
	header[sniffKey], header[cacheControlKey] = noSniff, noStore
	return c
}

func validTrace(sent string) bool {
	parts := traceParent.FindStringSubmatch(sent)
	return parts != nil && parts[1] != "ff" && strings.Trim(parts[2], "0") != "" && strings.Trim(parts[3], "0") != ""
}

// Header implements http.ResponseWriter.
func (c *call) Header() http.Header { return c.inner.Header() }

// Unwrap lets http.ResponseController reach the connection.
func (c *call) Unwrap() http.ResponseWriter { return c.inner }

// WriteHeader implements http.ResponseWriter. Without an endpoint it is the mux that speaks.
func (c *call) WriteHeader(status int) {
	if c.status != 0 {
		return
	}
	if c.endpoint == nil {
		if status == http.StatusMethodNotAllowed {
			c.fail(eventstore.Refuse(CodeMethodNotAllowed, ""))
		} else {
			c.Header().Del("Location")
			c.fail(eventstore.Refuse(CodeRouteUnknown, ""))
		}
		return
	}
	c.status = status
	c.inner.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *call) Write(data []byte) (int, error) {
	if c.endpoint == nil {
		return len(data), nil
	}
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	return c.inner.Write(data)
}

// serve runs the endpoint that was found.
func (c *call) serve(r *http.Request, e *endpoint) {
	c.request, c.endpoint = r, e
	if err := c.admit(); err != nil {
		c.fail(err)
		return
	}
	if err := e.handle(c); err != nil {
		c.fail(err)
	}
}

// admit authenticates the caller and checks role and quota.
func (c *call) admit() error {
	if c.endpoint.access == anyone {
		return nil
	}
	if err := c.authenticate(); err != nil {
		return err
	}
	if !c.endpoint.queried && c.request.URL.RawQuery != "" {
		if _, err := c.query(); err != nil {
			return err
		}
	}
	return c.takeQuota()
}

func (c *call) authenticate() error {
	token, ok := bearer(c.request.Header)
	if !ok {
		return eventstore.Refuse(CodeUnauthenticated, "send one header Authorization: Bearer <token>")
	}
	ctx := c.patience()
	principal, err := c.api.Verify(ctx, token)
	if err != nil {
		if unjudged, ok := errors.AsType[interface {
			error
			Outage() bool
		}](err); ok && unjudged.Outage() || ctx.Err() != nil {
			return fmt.Errorf("%w: %w", eventstore.ErrUnavailable, err)
		}
		return eventstore.Refuse(CodeUnauthenticated, "the token is not valid here")
	}
	if !saneID(principal.Partner) {
		principal.Partner = "" // no partner can be called that, and it may be anything: an address, a secret
	}
	c.principal = principal
	switch c.endpoint.access {
	case partners:
		if principal.Partner == "" {
			return eventstore.Refuse(CodeForbidden, "the token names no partner")
		}
	case opsViewers:
		if !slices.Contains(principal.Roles, OpsViewer) && !slices.Contains(principal.Roles, OpsAdmin) {
			return eventstore.Refuse(CodeForbidden, "the role %s is needed", OpsViewer)
		}
	case opsAdmins:
		if !slices.Contains(principal.Roles, OpsAdmin) {
			return eventstore.Refuse(CodeForbidden, "the role %s is needed", OpsAdmin)
		}
	}
	return nil
}

func bearer(header http.Header) (string, bool) {
	sent := header[authorizationHeader]
	if len(sent) != 1 {
		return "", false
	}
	scheme, token, found := strings.Cut(sent[0], " ")
	token = strings.TrimSpace(token)
	return token, found && strings.EqualFold(scheme, "Bearer") && token != ""
}

// channel gives the partner that calls. What it gives is the call's own.
func (c *call) channel(ctx context.Context) (*partner.State, error) {
	if c.caller != nil {
		return c.caller, nil
	}
	channel, known, err := c.api.Partners.Partner(ctx, c.principal.Partner)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, eventstore.Refuse(partner.CodeUnknown, "an operator has to set the partner up first")
	}
	if most := c.api.promo().Degraded.Cap; most > 0 && (channel.Policy.VisibleCap == 0 || channel.Policy.VisibleCap > most) {
		channel.Policy.VisibleCap = most
	}
	c.caller = &channel
	return c.caller, nil
}

// meta is what events say of where they come from.
func (c *call) meta() eventstore.Metadata {
	actor := c.principal.Partner
	if c.endpoint.access == opsAdmins {
		actor = OpsAdmin
		if saneID(c.principal.Subject) {
			actor += ":" + c.principal.Subject
		}
	}
	return eventstore.Metadata{CorrelationID: c.correlation, Actor: actor, TraceParent: c.trace}
}

// operator names who calls for the audit log, which has to tell operators apart: by the token's subject, which may be a URN
// or an address. Events and logs are told less (meta).
func (c *call) operator() string {
	subject := c.principal.Subject
	if subject == "" {
		return OpsAdmin
	}
	if len(subject) > maxSubject {
		digest := sha256.Sum256([]byte(subject))
		subject = strings.ToValidUTF8(subject[:maxSubject], "") + "~" + hex.EncodeToString(digest[:4])
	}
	if strings.ContainsFunc(subject, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(subject) {
		quoted := strconv.Quote(subject)
		subject = quoted[1 : len(quoted)-1]
	}
	return OpsAdmin + ":" + subject
}

// maxSubject bounds what the audit log keeps of a token's subject, in bytes. Of a longer one it has the beginning and a digest.
const maxSubject = 256

// timeout bounds the work for this call.
func (c *call) timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.request.Context(), d)
}

// patience bounds all that is read for this call together. It costs nothing as long as nobody waits.
func (c *call) patience() context.Context { return &c.reading }

// execute runs a command that is idempotent by its own state.
func (c *call) execute(command eventstore.Command, meta eventstore.Metadata) (any, error) {
	ctx, cancel := c.timeout(c.api.Limits.CommandTimeout)
	defer cancel()
	outcome, err := c.api.Executor.Execute(ctx, eventstore.Request{Command: command, Meta: meta})
	return outcome.Result, err
}

// fail answers with a problem document.
func (c *call) fail(err error) {
	refusal := refused(err)
	means := meanings[refusal.Code]
	if means.status >= http.StatusInternalServerError {
		c.fault = err
	}
	header := c.Header()
	if means.retryAfter > 0 && header.Get("Retry-After") == "" {
		header.Set("Retry-After", seconds(means.retryAfter))
	}
	if refusal.Code == CodeUnauthenticated {
		header.Set("WWW-Authenticate", c.challenge())
	}
	status, body := renderProblem(refusal, c.correlation)
	c.send(status, problemMedia, body)
}

// send writes the answer.
func (c *call) send(status int, media string, body []byte) {
	if c.status != 0 {
		return // too late: the answer has begun
	}
	header := c.Header()
	if body != nil {
		header[mediaKey] = ofJSON
		if media != jsonMedia {
			header[mediaKey] = []string{media}
		}
		c.field(sizeKey, strconv.Itoa(len(body)))
	}
	c.status = status
	c.inner.WriteHeader(status)
	if c.request.Method != http.MethodHead {
		_, _ = c.inner.Write(body) // a caller that left can't be told
	}
}

// finish answers a panic and logs the call.
func (c *call) finish() {
	defer c.reading.end()
	if cause := recover(); cause != nil {
		if cause == http.ErrAbortHandler {
			panic(cause)
		}
		c.fail(fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
	}
	if c.request.Context().Err() != nil && c.fault != nil {
		c.status = statusGone
	}
	c.api.observer.saw(c)
}

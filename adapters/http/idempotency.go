package httpapi

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"andes/eventstore"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotent-Replayed"
)

var keyText = regexp.MustCompile(`^[\x20-\x7E]{1,256}$`)

// idempotencyKey reads the key: a structured-field string, or the bare text. Both forms of one text
// are the same key.
func idempotencyKey(header http.Header) (string, error) {
	sent := header.Values(keyHeader)
	if len(sent) == 0 {
		return "", eventstore.Refuse(CodeKeyRequired, "send a header %s", keyHeader)
	}
	key, ok := sent[0], len(sent) == 1
	if ok && strings.HasPrefix(key, `"`) {
		key, ok = unquote(key)
	}
	if !ok || !keyText.MatchString(key) {
		return "", eventstore.Refuse(CodeKeyInvalid, "a key is one text of 1 to 256 printable ASCII characters")
	}
	return key, nil
}

// unquote reads a structured-field string (RFC 8941, 3.3.3) without parameters.
func unquote(quoted string) (string, bool) {
	if len(quoted) < 2 || !strings.HasSuffix(quoted, `"`) {
		return "", false
	}
	inner := quoted[1 : len(quoted)-1]
	var text strings.Builder
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case '"':
			return "", false
		case '\\':
			if i++; i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return "", false
			}
		}
		text.WriteByte(inner[i])
	}
	return text.String(), true
}

// refuse is a command that was refused before it reached the write side. It goes through the executor
// all the same: only there it is known whether its idempotency key was used before, and for what.
type refuse struct{ why error }

// Needs implements eventstore.Command.
func (refuse) Needs() []eventstore.Stream { return nil }

// Decide implements eventstore.Command.
func (r refuse) Decide(*eventstore.Unit) (any, error) { return nil, r.why }

// executeKeyed runs a command under the caller's key and answers. render gives the body of the good
// answer; where gives its Location.
func (c *call) executeKeyed(key string, doc document, command eventstore.Command, good int, render func(result any) ([]byte, error), where func(body []byte) string) error {
	ctx, cancel := c.timeout(c.api.Limits.CommandTimeout)
	defer cancel()
	outcome, err := c.api.Executor.Execute(ctx, eventstore.Request{
		Command: command, Meta: c.meta(),
		Idempotency: &eventstore.Idempotency{
			IdempotencyKey: eventstore.IdempotencyKey{Scope: c.principal.Partner, Key: key},
			Fingerprint:    doc.fingerprint(c.endpoint.pattern()), TTL: c.api.Limits.KeyTTL,
			Answer: c.keepable(good, render),
		},
	})
	if outcome.Answer.Status == 0 {
		if err == nil {
			err = errNoAnswer
		}
		return err
	}
	header, media := c.Header(), problemMedia
	if outcome.Answer.Status < http.StatusBadRequest {
		media = "application/json"
		header.Set("Location", where(outcome.Answer.Body))
	}
	if outcome.Replayed {
		header.Set(replayedHeader, "true")
	}
	c.send(outcome.Answer.Status, media, outcome.Answer.Body)
	return nil
}

// keepable renders an outcome as it is kept. It may run more than once.
func (c *call) keepable(good int, render func(result any) ([]byte, error)) func(any, error) (eventstore.Answer, bool) {
	return func(result any, err error) (eventstore.Answer, bool) {
		if err == nil {
			body, fault := render(result)
			if fault != nil {
				return eventstore.Answer{}, false
			}
			return eventstore.Answer{Status: good, Body: body}, true
		}
		refusal := refused(err)
		if means := meanings[refusal.Code]; means.free || means.status >= http.StatusInternalServerError {
			return eventstore.Answer{}, false
		}
		status, body := renderProblem(refusal, c.correlation)
		return eventstore.Answer{Status: status, Body: body}, true
	}
}

// orderIDIn reads the order's id out of an answer, fresh or kept.
func orderIDIn(body []byte) string {
	var named struct {
		OrderID string `json:"orderId"`
	}
	_ = json.Unmarshal(body, &named) // our own answer
	return named.OrderID
}

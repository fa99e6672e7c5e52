// Package opsclient is the command line's side of the ops API. What an operator may do and how it is told is the
// same as on the server: its refusals come back with their codes.
package opsclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"andes/deadletters"
	"andes/eventstore"
)

// Config says where the ops API is.
type Config struct {
	URL       string
	Token     string            // bearer
	Transport http.RoundTripper // nil: the default one
}

// Bounds of a call.
const (
	callTimeout    = 40 * time.Second
	maxAnswerBytes = 64 << 20
	maxProblem     = 1 << 20
)

// Client asks the ops API. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// New makes a client.
func New(config Config) (*Client, error) {
	base, err := url.Parse(config.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("the ops API's URL %q is no http or https URL", config.URL)
	}
	return &Client{
		base: strings.TrimSuffix(config.URL, "/"), token: config.Token,
		// A redirect would carry the token to where nobody meant it to go.
		http: &http.Client{Transport: config.Transport, Timeout: callTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
	}, nil
}

// ErrNoAnswer says that the ops API could not be reached.
var ErrNoAnswer = errors.New("the ops API does not answer (--direct works without it)")

// call sends a request and decodes its answer.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, target, sent)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("%w at %s: %w", ErrNoAnswer, c.base, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return refusal(response)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswerBytes)).Decode(answer); err != nil {
		return fmt.Errorf("the answer of the ops API can't be read: %w", err)
	}
	return nil
}

// refusal makes the error of a problem document.
func refusal(response *http.Response) error {
	var problem struct {
		Code          eventstore.Code      `json:"code"`
		Title         string               `json:"title"`
		Detail        string               `json:"detail"`
		CorrelationID string               `json:"correlationId"`
		Errors        []eventstore.Problem `json:"errors"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxProblem)).Decode(&problem); err != nil || problem.Code == "" {
		return fmt.Errorf("the ops API answered with status %d", response.StatusCode)
	}
	detail := problem.Title
	if problem.Detail != "" {
		detail = problem.Detail
	}
	for _, fault := range problem.Errors {
		detail += "; " + strings.TrimSpace(fault.Pointer+" "+fault.Detail)
	}
	if response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("the ops API: %s: %s (correlation id %s)", problem.Code, detail, problem.CorrelationID)
	}
	return &eventstore.Refusal{Code: problem.Code, Detail: detail, Problems: problem.Errors}
}

func lettersPath(consumer string) string { return "/ops/dlq/" + url.PathEscape(consumer) }

func letterPath(ref deadletters.Ref) string {
	return fmt.Sprintf("%s/letters/%d/%d", lettersPath(ref.Consumer), ref.Partition, ref.Offset)
}

// Stats tells how the DLQs stand.
func (c *Client) Stats(ctx context.Context, consumer string) ([]deadletters.Queue, error) {
	query := url.Values{}
	set(query, "consumer", consumer)
	var answer struct{ Items []deadletters.Queue }
	err := c.call(ctx, http.MethodGet, "/ops/dlq", query, nil, &answer)
	return answer.Items, err
}

// List gives a page of letters.
func (c *Client) List(ctx context.Context, q deadletters.Query) (deadletters.Page, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"topic": q.Filter.Topic, "class": q.Filter.Class, "partner": q.Filter.Partner, "key": q.Filter.Key,
		"type": q.Filter.Type, "error": q.Filter.Error, "cursor": q.Cursor,
		"since": moment(q.Filter.Since), "until": moment(q.Filter.Until),
	} {
		set(query, name, value)
	}
	for _, header := range q.Filter.Headers {
		query.Add("header", header.Name+"="+header.Value)
	}
	if q.All {
		query.Set("all", "true")
	}
	if q.Payload {
		query.Set("payload", "true")
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	var page deadletters.Page
	err := c.call(ctx, http.MethodGet, lettersPath(q.Consumer)+"/letters", query, nil, &page)
	return page, err
}

// Show tells all about a letter.
func (c *Client) Show(ctx context.Context, letter deadletters.Ref) (deadletters.Detail, error) {
	var detail deadletters.Detail
	err := c.call(ctx, http.MethodGet, letterPath(letter), nil, nil, &detail)
	return detail, err
}

// jobBody is a job as the API takes it.
type jobBody struct {
	Action string     `json:"action,omitempty"`
	Filter filterBody `json:"filter"`
	All    bool       `json:"all,omitempty"`
	Limit  int        `json:"limit,omitempty"`
	Rate   int        `json:"rate,omitempty"`
	Force  bool       `json:"force,omitempty"`
	Reason string     `json:"reason,omitempty"`
	Cursor string     `json:"cursor,omitempty"`
}

// filterBody is a filter as the API takes it: letters are named in one text each.
type filterBody struct {
	deadletters.Filter
	Letters []string `json:"letters,omitempty"`
}

func bodyOf(job deadletters.Job) jobBody {
	body := jobBody{
		Action: job.Action, Filter: filterBody{Filter: job.Filter}, All: job.All, Limit: job.Limit, Rate: job.Rate,
		Force: job.Force, Reason: job.Reason, Cursor: job.Cursor,
	}
	body.Filter.Filter.Letters = nil
	for _, letter := range job.Filter.Letters {
		body.Filter.Letters = append(body.Filter.Letters, letter.String())
	}
	return body
}

// Advance makes a step of a run.
func (c *Client) Advance(ctx context.Context, job deadletters.Job) (deadletters.Progress, error) {
	var progress deadletters.Progress
	err := c.call(ctx, http.MethodPost, lettersPath(job.Consumer)+"/runs", nil, bodyOf(job), &progress)
	return progress, err
}

// Rehearse tells what a replay would do.
func (c *Client) Rehearse(ctx context.Context, job deadletters.Job) (deadletters.Rehearsals, error) {
	body := bodyOf(job)
	body.Action, body.Rate, body.Reason, body.Cursor = "", 0, "", ""
	var result deadletters.Rehearsals
	err := c.call(ctx, http.MethodPost, lettersPath(job.Consumer)+"/rehearsals", nil, body, &result)
	return result, err
}

// Edit replays a letter with another payload.
func (c *Client) Edit(ctx context.Context, correction deadletters.Correction) (deadletters.Progress, error) {
	body := map[string]any{"payload": string(correction.Payload), "reason": correction.Reason, "force": correction.Force}
	var progress deadletters.Progress
	err := c.call(ctx, http.MethodPost, letterPath(correction.Letter)+"/edit", nil, body, &progress)
	return progress, err
}

// Audit lists the audit log, newest first.
func (c *Client) Audit(ctx context.Context, q deadletters.AuditQuery) ([]deadletters.AuditEntry, error) {
	query := url.Values{}
	for name, value := range map[string]string{"subject": q.Subject, "actor": q.Actor, "action": q.Action, "run": q.Run} {
		set(query, name, value)
	}
	if q.Before > 0 {
		query.Set("before", strconv.FormatInt(q.Before, 10))
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	var answer struct{ Items []deadletters.AuditEntry }
	err := c.call(ctx, http.MethodGet, "/ops/audit", query, nil, &answer)
	return answer.Items, err
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

func moment(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

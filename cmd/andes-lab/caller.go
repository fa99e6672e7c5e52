package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	callTimeout   = 15 * time.Second
	maxAnswer     = 32 << 20
	maxIdleConns  = 64
	idleConnLimit = 30 * time.Second
)

// transport is shared: connections are kept across callers.
var transport = &http.Transport{MaxIdleConnsPerHost: maxIdleConns, IdleConnTimeout: idleConnLimit}

// caller makes JSON calls to one base address.
type caller struct {
	base   string
	token  string // bearer; may be empty
	client *http.Client
}

func newCaller(base, token string) *caller {
	return &caller{base: base, token: token, client: &http.Client{Transport: transport, Timeout: callTimeout}}
}

// answer of a call, whatever its status.
type answer struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

// call sends body as JSON (nil: none); headers are name, value, name …
func (c *caller) call(ctx context.Context, method, path string, body any, headers ...string) (answer, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer{}, fmt.Errorf("%s %s: %w", method, path, err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return answer{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	start := time.Now()
	resp, err := c.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: text, took: time.Since(start)}, nil
}

// get decodes the answer of a successful call into v.
func (c *caller) get(ctx context.Context, path string, v any) error {
	return c.into(ctx, http.MethodGet, path, nil, v)
}

// into makes a call that has to succeed and decodes its answer into v.
func (c *caller) into(ctx context.Context, method, path string, body, v any, headers ...string) error {
	answer, err := c.call(ctx, method, path, body, headers...)
	if err != nil {
		return err
	}
	if answer.status/100 != 2 {
		return fmt.Errorf("%s %s: %d %.300s", method, path, answer.status, answer.body)
	}
	if v == nil || len(answer.body) == 0 {
		return nil
	}
	if err := json.Unmarshal(answer.body, v); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

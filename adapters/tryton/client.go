package tryton

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Caller makes one guarded call: it gives the status of an answer that the system meant and decodes the
// JSON of a 2xx answer; everything else is an error. It repeats a POST by itself only if that has an
// Idempotency-Key.
type Caller interface {
	Call(request *http.Request, answer any) (status int, err error)
}

// Config of a client.
type Config struct {
	URL      string // of the server, without a slash at its end
	Database string
	User     string
	Password string
	Caller   Caller
	Now      func() time.Time // nil: time.Now
}

// lockout is how long a login that was refused is not repeated: Tryton counts such attempts, and slows
// down and in the end shuts out whoever makes many.
const lockout = time.Minute

// ErrAccess says that Tryton does not let this user in. It concerns every call, and a person puts it right.
var ErrAccess = errors.New("tryton: the user is not let in")

// Client calls a Tryton server in the name of one user. It is safe for concurrent use.
type Client struct {
	cfg     Config
	address string
	serial  atomic.Int64
	access  *access
}

// access is what a user has of a server. Opening a session costs the server half a second: hashing a password
// is made to be slow.
type access struct {
	login chan struct{} // held while a session is being opened

	mu      sync.Mutex
	session string
	refused time.Time // when the last login was
	company company
}

// Through gives a client with the same session that makes its calls through another caller.
func (c *Client) Through(caller Caller) *Client {
	cfg := c.cfg
	cfg.Caller = caller
	return &Client{cfg: cfg, address: c.address, access: c.access}
}

// New makes a client and reports all that is missing. It calls nobody yet.
func New(cfg Config) (*Client, error) {
	var faults []error
	base, err := url.ParseRequestURI(cfg.URL)
	switch {
	case err != nil:
		faults = append(faults, errors.New("tryton: the URL can't be read")) // it may hold a secret
	case base.User != nil:
		faults = append(faults, errors.New("tryton: the URL must not hold a user; there are settings for that"))
	}
	if cfg.Database == "" || cfg.User == "" || cfg.Password == "" {
		faults = append(faults, errors.New("tryton: database, user and password are needed"))
	}
	if cfg.Caller == nil {
		faults = append(faults, errors.New("tryton: no caller"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	address := cfg.URL + "/" + url.PathEscape(cfg.Database) + "/"
	return &Client{cfg: cfg, address: address, access: &access{login: make(chan struct{}, 1)}}, errors.Join(faults...)
}

// kind of a call: whether it may be repeated without doing its work twice.
type kind bool

const (
	reading kind = true
	writing kind = false
)

// call carries out a method and decodes its result. A session that has ended is opened anew: the server
// has done nothing of a call that it answers so.
func (c *Client) call(ctx context.Context, kind kind, method string, result any, params ...any) error {
	session, err := c.open(ctx, "")
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	status, err := c.send(ctx, kind, session, method, result, params)
	if err == nil && status == http.StatusUnauthorized {
		if session, err = c.open(ctx, session); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		status, err = c.send(ctx, kind, session, method, result, params)
	}
	if err == nil {
		err = judge(status)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// judge tells what a status other than 200 says. None of them is about the record that a call is about.
func judge(status int) error {
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: status %d", ErrAccess, status)
	case http.StatusNotFound:
		return errors.New("tryton: there is no such database")
	}
	return fmt.Errorf("tryton: status %d", status)
}

// open gives the session, or opens one in place of the one that has ended.
func (c *Client) open(ctx context.Context, ended string) (string, error) {
	select {
	case c.access.login <- struct{}{}:
		defer func() { <-c.access.login }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	session, refused := c.access.known()
	switch {
	case session != "" && session != ended:
		return session, nil
	case !refused.IsZero() && c.cfg.Now().Sub(refused) < lockout:
		return "", fmt.Errorf("%w; the login is not repeated before %s", ErrAccess, refused.Add(lockout).UTC().Format(time.TimeOnly))
	}
	var opened [2]json.RawMessage
	parameters := map[string]string{"password": c.cfg.Password}
	status, err := c.send(ctx, writing, "", "common.db.login", &opened, []any{c.cfg.User, parameters, "en"})
	switch {
	case err != nil:
		return "", fmt.Errorf("log in: %w", err)
	case status == http.StatusUnauthorized:
		c.access.remember("", c.cfg.Now())
		return "", fmt.Errorf("log in: %w", ErrAccess)
	case status != http.StatusOK:
		return "", fmt.Errorf("log in: %w", judge(status))
	}
	var uid int64
	var token string
	if err := errors.Join(json.Unmarshal(opened[0], &uid), json.Unmarshal(opened[1], &token)); err != nil || token == "" {
		return "", errors.New("log in: tryton: the answer holds no session")
	}
	session = base64.StdEncoding.EncodeToString([]byte(c.cfg.User + ":" + strconv.FormatInt(uid, 10) + ":" + token))
	c.access.remember(session, time.Time{})
	return session, nil
}

func (a *access) known() (session string, refused time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session, a.refused
}

func (a *access) remember(session string, refused time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session, a.refused = session, refused
}

// send makes one request. The server keeps to JSON-RPC only if these three members are all there are.
func (c *Client) send(ctx context.Context, kind kind, session, method string, result any, params []any) (int, error) {
	id := c.serial.Add(1)
	body, err := json.Marshal(struct {
		ID     int64  `json:"id"`
		Method string `json:"method"`
		Params []any  `json:"params"`
	}{id, method, params})
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	if session != "" {
		request.Header.Set("Authorization", "Session "+session)
	}
	if kind == reading {
		request.Header.Set("Idempotency-Key", strconv.FormatInt(id, 10)) // it only tells the guard
	}
	var got struct {
		ID     *int64          `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	status, err := c.cfg.Caller.Call(request, &got)
	switch {
	case err != nil || status != http.StatusOK:
		return status, err
	case got.Error != nil:
		return status, refusal(got.Error)
	case got.ID == nil || *got.ID != id:
		return status, errors.New("tryton: the answer is to another call")
	}
	if result == nil {
		return status, nil
	}
	if err := json.Unmarshal(got.Result, result); err != nil {
		return status, fmt.Errorf("tryton: the result can't be read: %w", err)
	}
	return status, nil
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// page is what is told.
type page struct {
	Stock struct {
		Items []struct {
			SKU       string
			Available int64
		}
	}
	NextCursor string
}

const maxPage = 1 << 20

// watcher hears of values.
type watcher struct {
	heard chan heard
	fault atomic.Pointer[error]
}

type heard struct {
	value int64
	at    time.Time
}

const mostHeard = 10_000 // between two that are waited for

func newWatcher() *watcher { return &watcher{heard: make(chan heard, mostHeard)} }

func (w *watcher) hear(ctx context.Context, data []byte, at time.Time) (page, error) {
	var told page
	if err := json.Unmarshal(data, &told); err != nil {
		return told, fmt.Errorf("%w: %s", err, data)
	}
	for _, item := range told.Stock.Items {
		select {
		case w.heard <- heard{item.Available, at}:
		case <-ctx.Done():
			return told, ctx.Err()
		}
	}
	return told, nil
}

func (w *watcher) failed(err error) {
	if err != nil {
		w.fault.CompareAndSwap(nil, &err)
	}
}

// await gives when a value was heard of.
func (w *watcher) await(ctx context.Context, value int64) (time.Time, error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		select {
		case h := <-w.heard:
			if h.value == value {
				return h.at, nil
			}
		case <-waiting.Done():
			if fault := w.fault.Load(); fault != nil {
				return time.Time{}, *fault
			}
			return time.Time{}, fmt.Errorf("level %d was not told within %s", value, patience)
		}
	}
}

// watch follows by requests that wait, and by a stream.
func (p *platform) watch(ctx context.Context) (polled, streamed *watcher, stop func()) {
	polled, streamed = newWatcher(), newWatcher()
	following, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { polled.failed(p.waitFor(following, polled)) })
	all.Go(func() {
		streamed.failed(p.stream(following, p.tokens[0], func(data []byte) error {
			_, err := streamed.hear(following, data, time.Now())
			return err
		}))
	})
	return polled, streamed, func() { cancel(); all.Wait() }
}

// settle waits until both are told of what happens now.
func (p *platform) settle(ctx context.Context, all ...*watcher) error {
	first, err := p.change(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		if _, err := w.await(ctx, first.value); err != nil {
			return err
		}
	}
	return nil
}

func (p *platform) request(ctx context.Context, method, target, token string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, p.instance.URL()+target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(request)
	if err == nil && response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxPage))
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s %s: %s %s", method, target, response.Status, text)
	}
	return response, err
}

func (p *platform) whole(ctx context.Context, method, target, token string, body []byte) ([]byte, error) {
	response, err := p.request(ctx, method, target, token, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(io.LimitReader(response.Body, maxPage))
}

// waitFor asks for page after page; each request waits for one.
func (p *platform) waitFor(ctx context.Context, w *watcher) error {
	since := ""
	for ctx.Err() == nil {
		data, err := p.whole(ctx, http.MethodGet, "/v1/changes?kinds=stock&limit=1000&wait=20s"+since, p.tokens[0], nil)
		if err != nil {
			return err
		}
		told, err := w.hear(ctx, data, time.Now())
		if err != nil {
			return err
		}
		since = "&since=" + told.NextCursor
	}
	return nil
}

// stream follows by server-sent events.
func (p *platform) stream(ctx context.Context, token string, told func(data []byte) error) error {
	response, err := p.request(ctx, http.MethodGet, "/v1/changes/stream?kinds=stock&limit=1000", token, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxPage)
	for lines.Scan() {
		if data, is := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); is {
			if err := told(data); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("a stream ended: %w", lines.Err())
}

// crowd are many who follow, or who ask again and again. They only count what they are told.
type crowd struct {
	values, bytes atomic.Int64
	seen          []atomic.Int64 // the newest level that each was told
	changed       chan struct{}
	stop          func()
	fault         atomic.Pointer[error]
}

// gather starts a crowd and waits until each is told of what happens now; every: between two polls of those who do not follow.
func (p *platform) gather(ctx context.Context, many int, every *time.Duration) (*crowd, error) {
	following, cancel := context.WithCancel(ctx)
	c := &crowd{seen: make([]atomic.Int64, many), changed: make(chan struct{}, 1)}
	var all sync.WaitGroup
	c.stop = func() { cancel(); all.Wait() }
	for i := range many {
		all.Go(func() {
			var err error
			if every == nil {
				err = p.stream(following, p.tokens[i%len(p.tokens)], func(data []byte) error { c.told(i, data); return nil })
			} else {
				err = p.askAgain(following, i, *every, c)
			}
			if err != nil && following.Err() == nil {
				c.fault.CompareAndSwap(nil, &err)
			}
		})
	}
	first, err := p.change(ctx)
	if err == nil {
		_, err = c.await(ctx, first)
	}
	if err != nil {
		c.stop()
	}
	return c, err
}

// askAgain asks for all SKUs, again and again.
func (p *platform) askAgain(ctx context.Context, i int, every time.Duration, c *crowd) error {
	var body struct {
		SKUs []string `json:"skus"`
	}
	for n := range p.skus {
		body.SKUs = append(body.SKUs, skuName(n))
	}
	question, err := json.Marshal(body)
	if err != nil {
		return err
	}
	pause(ctx, every*time.Duration(i)/time.Duration(len(c.seen))) // not all at once
	for ctx.Err() == nil {
		began := time.Now()
		data, err := p.whole(ctx, http.MethodPost, "/v1/stock/query", p.tokens[i%len(p.tokens)], question)
		if err != nil {
			return err
		}
		c.told(i, data)
		pause(ctx, every-time.Since(began))
	}
	return nil
}

func (c *crowd) reset() { c.values.Store(0); c.bytes.Store(0) }

var available = []byte(`"available":`)

// told counts, without decoding: the generator shares the cores.
func (c *crowd) told(follower int, data []byte) {
	newest, count := int64(0), int64(0)
	for rest := data; ; count++ {
		at := bytes.Index(rest, available)
		if at < 0 {
			break
		}
		rest = rest[at+len(available):]
		end := bytes.IndexByte(rest, ',')
		if value, err := strconv.ParseInt(string(rest[:max(0, end)]), 10, 64); err == nil {
			newest = max(newest, value)
		}
	}
	c.bytes.Add(int64(len(data)))
	c.values.Add(count)
	if newest > c.seen[follower].Load() {
		c.seen[follower].Store(newest)
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
}

// await gives how late the last of the crowd was told of a change.
func (c *crowd) await(ctx context.Context, change made) (time.Duration, error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		missing := 0
		for i := range c.seen {
			if c.seen[i].Load() < change.value {
				missing++
			}
		}
		if missing == 0 {
			return max(0, time.Since(change.at)), nil
		}
		select {
		case <-c.changed:
		case <-waiting.Done():
			if fault := c.fault.Load(); fault != nil {
				return 0, *fault
			}
			return 0, fmt.Errorf("%d of %d were not told of level %d within %s", missing, len(c.seen), change.value, patience)
		}
	}
}

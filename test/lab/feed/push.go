package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"andes/test/lab/sim"
)

// Push is the knobs of a system that tells of its changes by itself, beside
// being asked. It tells as soon as it can and forgets what was not taken
// after a few tries: who wants to know all has to ask.
type Push struct {
	PushURL    string  `json:"pushURL"`    // empty: nobody is told
	PushSecret string  `json:"pushSecret"` // whsec_…
	PushLost   float64 `json:"pushLostRate"`
}

// Validate reports every fault of the knobs.
func (p Push) Validate() error {
	faults := []error{sim.CheckRate("pushLostRate", p.PushLost)}
	if p.PushURL != "" {
		if !strings.HasPrefix(p.PushURL, "http://") && !strings.HasPrefix(p.PushURL, "https://") {
			faults = append(faults, fmt.Errorf("pushURL: %q is not an http address", p.PushURL))
		}
		if _, err := standardwebhooks.NewWebhook(p.PushSecret); err != nil {
			faults = append(faults, fmt.Errorf("pushSecret: %w", err))
		}
	}
	return errors.Join(faults...)
}

const (
	pushQueue   = 10_000
	pushBatch   = 500
	pushTries   = 4
	pushPause   = 250 * time.Millisecond
	pushTimeout = 5 * time.Second
	maxPushRead = 1 << 20
)

// Pushed counts what was told.
type Pushed struct {
	Calls    int64 `json:"calls"` // repeats included
	Records  int64 `json:"records"`
	Taken    int64 `json:"taken"`    // records of calls that were answered well
	Lost     int64 `json:"lost"`     // by pushLostRate
	GivenUp  int64 `json:"givenUp"`  // after the last try, or for want of room
	Rejected int64 `json:"rejected"` // of those taken: refused or failed
}

// Pusher tells of changes, some at a time and in order.
type Pusher struct {
	knobs  func() Push
	chance func(rate float64) bool
	client *http.Client
	queue  chan []byte

	mu     sync.Mutex
	counts Pushed
}

// Worker runs work until it is told to stop: a sim.Core.
type Worker interface {
	Go(work func(ctx context.Context))
	Chance(rate float64) bool
}

// NewPusher starts a pusher on a simulator's own goroutine.
func NewPusher(core Worker, knobs func() Push) *Pusher {
	p := &Pusher{
		knobs: knobs, chance: core.Chance, queue: make(chan []byte, pushQueue),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: pushTimeout}, Timeout: pushTimeout},
	}
	core.Go(p.run)
	return p
}

// Tell queues a record of a kind, if anybody is to be told.
func (p *Pusher) Tell(kind string, record any) {
	k := p.knobs()
	if k.PushURL == "" {
		return
	}
	text, err := json.Marshal(record)
	if err != nil || len(text) < 2 || text[0] != '{' {
		panic(fmt.Sprintf("a record of a feed is an object: %s %v", text, err))
	}
	named := append([]byte(`{"kind":`+fmt.Sprintf("%q", kind)+`,`), text[1:]...)
	if p.chance(k.PushLost) {
		p.count(func(c *Pushed) { c.Lost++ })
		return
	}
	select {
	case p.queue <- named:
	default:
		p.count(func(c *Pushed) { c.GivenUp++ })
	}
}

func (p *Pusher) run(ctx context.Context) {
	defer p.client.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-p.queue:
			p.deliver(ctx, p.collect([][]byte{first}))
		}
	}
}

// collect takes what is there.
func (p *Pusher) collect(records [][]byte) [][]byte {
	for len(records) < pushBatch {
		select {
		case record := <-p.queue:
			records = append(records, record)
		default:
			return records
		}
	}
	return records
}

func (p *Pusher) deliver(ctx context.Context, records [][]byte) {
	body := append(append([]byte(`{"changes":[`), bytes.Join(records, []byte(","))...), `]}`...)
	id := "msg_" + uuid.NewString()
	for try := range pushTries {
		rejected, err := p.send(ctx, id, body)
		p.count(func(c *Pushed) {
			c.Calls++
			if err == nil {
				c.Records, c.Taken, c.Rejected = c.Records+int64(len(records)), c.Taken+int64(len(records)), c.Rejected+rejected
			}
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		pause := time.NewTimer(pushPause << try)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
	p.count(func(c *Pushed) { c.Records, c.GivenUp = c.Records+int64(len(records)), c.GivenUp+int64(len(records)) })
}

// send reads the knobs anew, so that a repeat profits from a repaired setting.
func (p *Pusher) send(ctx context.Context, id string, body []byte) (rejected int64, err error) {
	k := p.knobs()
	signer, err := standardwebhooks.NewWebhook(k.PushSecret)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	signature, err := signer.Sign(id, now, body)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, k.PushURL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, fmt.Sprint(now.Unix()))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	response, err := p.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxPushRead))
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("push: %s", response.Status)
	}
	var answer struct{ Refused, Failed int64 }
	if err := json.Unmarshal(text, &answer); err != nil {
		return 0, err
	}
	return answer.Refused + answer.Failed, nil
}

func (p *Pusher) count(change func(*Pushed)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.counts)
}

// Counts gives what was told so far.
func (p *Pusher) Counts() Pushed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

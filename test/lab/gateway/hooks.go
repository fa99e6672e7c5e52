package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"andes/test/lab/sim"
)

const (
	hookWorkers      = 8
	hookQueue        = 10_000
	hookQueueRetry   = 100 * time.Millisecond
	hookTimeout      = 5 * time.Second
	maxHookAnswer    = 64 << 10
	maxHookIdleConns = 16
)

// hookBackoff is how long each repeat waits; after the last one it is given up.
var hookBackoff = []time.Duration{
	500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
}

// Hooks counts the webhooks.
type Hooks struct {
	Events    int64            `json:"events"`   // things worth telling
	Attempts  int64            `json:"attempts"` // copies and repeats included
	Delivered int64            `json:"delivered"`
	Lost      int64            `json:"lost"` // by lostWebhookRate
	GivenUp   int64            `json:"givenUp"`
	Untold    int64            `json:"untold"` // no webhookURL
	ByStatus  map[string]int64 `json:"byStatus"`
}

type hookData struct {
	ChargeID string `json:"chargeId"`
	OrderID  string `json:"orderId"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Reason   string `json:"reason,omitempty"`
	RefundID string `json:"refundId,omitempty"`
}

type hook struct {
	id      string
	body    []byte
	attempt int // repeats done so far
}

// hooks sends webhooks with a bounded number of workers.
type hooks struct {
	core   *sim.Core[Knobs]
	client *http.Client
	queue  chan hook

	mu     sync.Mutex
	counts Hooks
}

func newHooks(core *sim.Core[Knobs], transport http.RoundTripper) *hooks {
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: maxHookIdleConns, IdleConnTimeout: hookTimeout}
	}
	h := &hooks{
		core: core, queue: make(chan hook, hookQueue),
		client: &http.Client{Transport: transport, Timeout: hookTimeout},
	}
	for range hookWorkers {
		core.Go(h.work)
	}
	core.Go(func(ctx context.Context) {
		<-ctx.Done()
		h.client.CloseIdleConnections()
	})
	return h
}

// tell queues one event, with the copies, losses and delays that the knobs say.
func (h *hooks) tell(kind, subject string, data hookData) {
	body, err := json.Marshal(map[string]any{"type": kind, "timestamp": sim.Stamp(h.core.Now()), "data": data})
	if err != nil {
		panic(fmt.Sprintf("webhook body of plain strings: %v", err)) // cannot happen
	}
	k := h.core.Knobs()
	h.count(func(c *Hooks) { c.Events++ })
	if k.WebhookURL == "" {
		h.count(func(c *Hooks) { c.Untold++ })
		return
	}
	if h.core.Chance(k.LostWebhookRate) {
		h.count(func(c *Hooks) { c.Lost++ })
		return
	}
	msg := hook{id: idOf("msg_", kind+subject), body: body}
	for range 1 + k.DuplicateWebhooks {
		h.later(sim.Millis(k.LateWebhookMs), msg)
	}
}

func (h *hooks) later(delay time.Duration, msg hook) {
	if h.core.After(delay, func() { h.enqueue(msg) }) != nil {
		h.count(func(c *Hooks) { c.GivenUp++ })
	}
}

func (h *hooks) enqueue(msg hook) {
	select {
	case h.queue <- msg:
	default:
		h.later(hookQueueRetry, msg)
	}
}

func (h *hooks) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-h.queue:
			h.deliver(ctx, msg)
		}
	}
}

func (h *hooks) deliver(ctx context.Context, msg hook) {
	outcome, ok := h.send(ctx, msg)
	if ctx.Err() != nil {
		return
	}
	h.count(func(c *Hooks) {
		c.Attempts++
		c.ByStatus[outcome]++
		if ok {
			c.Delivered++
		}
	})
	if ok {
		return
	}
	if msg.attempt == len(hookBackoff) {
		h.count(func(c *Hooks) { c.GivenUp++ })
		return
	}
	delay := hookBackoff[msg.attempt]
	msg.attempt++
	h.later(delay, msg)
}

// send reads the knobs anew, so that a repeat profits from a repaired setting.
func (h *hooks) send(ctx context.Context, msg hook) (string, bool) {
	k := h.core.Knobs()
	secret := k.WebhookSecret
	if k.WrongSignature {
		secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("not the secret that was agreed on"))
	}
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return "bad secret", false
	}
	now := h.core.Now()
	signature, err := signer.Sign(msg.id, now, msg.body)
	if err != nil {
		return "bad secret", false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, k.WebhookURL, bytes.NewReader(msg.body))
	if err != nil {
		return "bad url", false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(standardwebhooks.HeaderWebhookID, msg.id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, fmt.Sprint(now.Unix()))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	resp, err := h.client.Do(req)
	if err != nil {
		return "no answer", false
	}
	// Only the status counts; the body is read so that the connection is kept.
	_, _ = io.CopyN(io.Discard, resp.Body, maxHookAnswer)
	_ = resp.Body.Close()
	return fmt.Sprint(resp.StatusCode), resp.StatusCode/100 == 2
}

func (h *hooks) count(change func(*Hooks)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts.ByStatus == nil {
		h.counts.ByStatus = map[string]int64{}
	}
	change(&h.counts)
}

func (h *hooks) snapshot() Hooks {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.counts
	out.ByStatus = map[string]int64{}
	for status, n := range h.counts.ByStatus {
		out.ByStatus[status] = n
	}
	return out
}

func (h *hooks) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts = Hooks{}
}

// Package gateway simulates a payment gateway: charges and refunds that are
// accepted at once, decided a little later, and told by a signed webhook.
//
//	charge:  pending ──decideDelayMs──▶ approved | rejected
//	refund:  pending ──decideDelayMs──▶ completed
//
// A token's prefix decides its fate: tok_reject… is rejected, tok_silent… is
// decided but never told, tok_pending… is never decided. The same
// Idempotency-Key is the same charge; the counters show an order that was
// charged under two keys.
package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"andes/test/lab/money"
	"andes/test/lab/sim"
)

// Statuses of charges and refunds.
const (
	Pending   = "pending"
	Approved  = "approved"
	Rejected  = "rejected"
	Completed = "completed"
)

// Knobs are the gateway's settings.
type Knobs struct {
	sim.Faults
	RejectRate        float64 `json:"rejectRate"`
	DecideDelayMs     int     `json:"decideDelayMs"`
	WrongSignature    bool    `json:"wrongSignature"`
	DuplicateWebhooks int     `json:"duplicateWebhooks"` // extra copies of each
	LostWebhookRate   float64 `json:"lostWebhookRate"`
	LateWebhookMs     int     `json:"lateWebhookMs"`
	WebhookURL        string  `json:"webhookURL"` // empty: nobody is told
	WebhookSecret     string  `json:"webhookSecret"`
}

// DefaultDecideDelayMs is how long a decision takes.
const DefaultDecideDelayMs = 300

const maxDuplicates = 20

// Validate reports every fault of the settings.
func (k Knobs) Validate() error {
	faults := []error{
		k.Faults.Validate(), sim.CheckRate("rejectRate", k.RejectRate), sim.CheckRate("lostWebhookRate", k.LostWebhookRate),
		sim.CheckMs("decideDelayMs", k.DecideDelayMs), sim.CheckMs("lateWebhookMs", k.LateWebhookMs),
	}
	if k.DuplicateWebhooks < 0 || k.DuplicateWebhooks > maxDuplicates {
		faults = append(faults, fmt.Errorf("duplicateWebhooks: %d is outside 0..%d", k.DuplicateWebhooks, maxDuplicates))
	}
	if k.WebhookURL != "" && !strings.HasPrefix(k.WebhookURL, "http://") && !strings.HasPrefix(k.WebhookURL, "https://") {
		faults = append(faults, fmt.Errorf("webhookURL: %q is not an http address", k.WebhookURL))
	}
	if _, err := standardwebhooks.NewWebhook(k.WebhookSecret); err != nil {
		faults = append(faults, errors.New("webhookSecret: not whsec_ and base64"))
	}
	return errors.Join(faults...)
}

// Charge as the lab shows it; the token itself is never kept.
type Charge struct {
	Seq      int64  `json:"seq"`
	Key      string `json:"key"`
	ChargeID string `json:"chargeId"`
	OrderID  string `json:"orderId"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Status   string `json:"status"`
	Reason   string `json:"reason,omitempty"`
	Refunded string `json:"refunded"` // sum of its refunds, pending ones included
	At       string `json:"at"`
}

// Refund as the lab shows it.
type Refund struct {
	Seq      int64  `json:"seq"`
	Key      string `json:"key"`
	RefundID string `json:"refundId"`
	ChargeID string `json:"chargeId"`
	OrderID  string `json:"orderId"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Status   string `json:"status"`
	At       string `json:"at"`
}

type charge struct {
	Charge
	amount   money.Amount
	refunded money.Amount
	fate     fate
}

type fate int

const (
	fateByRate fate = iota
	fateReject
	fateSilent
	fateNever
)

func fateOf(token string) fate {
	switch {
	case strings.HasPrefix(token, "tok_reject"):
		return fateReject
	case strings.HasPrefix(token, "tok_silent"):
		return fateSilent
	case strings.HasPrefix(token, "tok_pending"):
		return fateNever
	}
	return fateByRate
}

// Config of one gateway.
type Config struct {
	Seed      uint64
	Now       func() time.Time
	Knobs     *Knobs            // nil: decides after DefaultDecideDelayMs, tells nobody
	Transport http.RoundTripper // of the webhooks; nil is a transport of its own
	Snapshot  *Snapshot
}

const (
	maxCharges = 500_000
	maxRefunds = 500_000
	maxKey     = 256
)

// Sim is a running gateway.
type Sim struct {
	*sim.Core[Knobs]
	hooks *hooks

	mu        sync.Mutex
	charges   []*charge // in order of arrival
	byKey     map[string]*charge
	byID      map[string]*charge
	byOrder   map[string][]*charge
	refunds   []*Refund
	refundKey map[string]*Refund
	counts    Events
}

// New builds a gateway. Close it at the end.
func New(cfg Config) (*Sim, error) {
	knobs := Knobs{DecideDelayMs: DefaultDecideDelayMs}
	if cfg.Knobs != nil {
		knobs = *cfg.Knobs
	}
	if err := knobs.Validate(); err != nil {
		return nil, fmt.Errorf("gateway simulator: %w", err)
	}
	s := &Sim{
		byKey: map[string]*charge{}, byID: map[string]*charge{}, byOrder: map[string][]*charge{},
		refundKey: map[string]*Refund{},
	}
	s.Core = sim.NewCore(sim.Config{Name: "payment", Seed: cfg.Seed, Now: cfg.Now}, knobs)
	s.hooks = newHooks(s.Core, cfg.Transport)
	s.OnStats(func() any { return s.counters() })
	s.OnReset(s.reset)
	s.routes()
	if cfg.Snapshot != nil {
		if err := s.restore(*cfg.Snapshot); err != nil {
			s.Close()
			return nil, fmt.Errorf("gateway simulator: %w", err)
		}
	}
	return s, nil
}

func (s *Sim) reset() {
	s.mu.Lock()
	s.counts = Events{}
	s.mu.Unlock()
	s.hooks.reset()
}

func (s *Sim) routes() {
	s.Handle("POST /charges", s.postCharge)
	s.Handle("GET /charges/{key}", s.getCharge)
	s.Handle("POST /refunds", s.postRefund)
	s.Handle("GET /refunds/{key}", s.getRefund)
	s.Lab("GET /_lab/charges", sim.Paged(s.chargesAfter, s.Now))
	s.Lab("GET /_lab/refunds", sim.Paged(s.refundsAfter, s.Now))
	s.Lab("GET /_lab/orders", sim.Paged(s.ordersAfter, s.Now))
	s.Lab("GET /_lab/orders/{id}", s.labOrder)
}

// idOf depends on the idempotency key only: an id never comes twice with
// another meaning, not even after a restart of the lab.
func idOf(prefix, key string) string {
	sum := sha256.Sum256([]byte(prefix + key))
	return prefix + hex.EncodeToString(sum[:12])
}

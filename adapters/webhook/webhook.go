// Package webhook tells partners of their orders and payments, at their own URLs.
//
//	event ──► body, once, from the event alone
//	      ──► partner ──► its subscriptions that want the type
//	            each: one attempt, signed anew ──2xx──► delivered
//	                                           ──410──► subscription removed
//	                                           ──else─► a transient error: the retry topics bring the
//	                                                    event again, for those that have not got it
//
// A delivery is made at least once, under an id that is the same each time. The body tells what the event
// said, never what is so now, and carries neither personal data nor a token. sequence counts the events of
// one order's stream, and of its payment's stream; time orders them across the two.
//
// A partner's endpoint is foreign ground. The call is bounded in time, in the bytes that are read and in
// number per partner; redirects are failures; an address inside our own network is never connected to,
// whatever the name resolved to. An endpoint that keeps failing is left alone for a while, so that it does
// not hold up the other partners: its events fail at once, as transient, and wait in the retry topics.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/commands/order"
	"andes/commands/subscription"
	"andes/eventstore"
)

// Config of the sender.
type Config struct {
	Executor eventstore.Executor
	Registry *eventstore.Registry
	// Subscriptions lists the partner's subscriptions.
	Subscriptions func(ctx context.Context, partner string) ([]subscription.State, error)
	// Order finds an order, to learn whose it is.
	Order func(ctx context.Context, orderID string) (order.State, bool, error)

	// Deliveries remembers what was delivered, so that an event which comes again, because its topic was published
	// again, say, is not told again; nil: nothing does.
	Deliveries Deliveries

	Log        *slog.Logger
	Registerer prometheus.Registerer // nil: counted, but not shown
	Now        func() time.Time      // nil: time.Now

	Development   bool              // permits http and addresses of our own network
	Ports         []int             // that production may connect to; nil: DefaultPorts
	Transport     http.RoundTripper // nil: one that refuses addresses of our own network, except in development
	Timeout       time.Duration     // of one attempt; 0: DefaultTimeout
	Deadline      time.Duration     // of one event, to all its subscriptions; 0: DefaultDeadline
	PerPartner    int               // deliveries to one partner at once; 0: DefaultPerPartner
	PartnerWait   time.Duration     // longest wait for one of these places; 0: DefaultPartnerWait
	LeaveAloneFor time.Duration     // an endpoint that keeps failing; 0: DefaultLeaveAloneFor
}

// Deliveries remembers deliveries by their ids.
type Deliveries interface {
	// Made tells which of these were made.
	Made(ctx context.Context, ids []string) (map[string]bool, error)
	// Remember notes that they were.
	Remember(ctx context.Context, ids []string) error
}

// Defaults of the sender.
const (
	DefaultTimeout       = 5 * time.Second
	DefaultDeadline      = 10 * time.Second
	DefaultPerPartner    = 8
	DefaultPartnerWait   = time.Second
	DefaultLeaveAloneFor = 30 * time.Second
)

// DefaultPorts are those that production may connect to.
var DefaultPorts = []int{443, 8443}

// Sender delivers webhooks. It is safe for concurrent use.
type Sender struct {
	cfg     Config
	client  *http.Client
	metrics *metrics
	health  health

	mu     sync.Mutex
	places map[string]chan struct{} // by partner
}

// New makes a sender and reports all that is missing.
func New(cfg Config) (*Sender, error) {
	var faults []error
	if cfg.Executor == nil || cfg.Registry == nil || cfg.Subscriptions == nil || cfg.Order == nil {
		faults = append(faults, errors.New("webhook: executor, registry, subscriptions and order are needed"))
	}
	cfg = cfg.withDefaults()
	metrics, err := newMetrics(cfg.Registerer)
	faults = append(faults, err)
	s := &Sender{cfg: cfg, metrics: metrics, places: map[string]chan struct{}{}}
	s.health.pause = cfg.LeaveAloneFor
	s.client = client(cfg)
	return s, errors.Join(faults...)
}

func (cfg Config) withDefaults() Config {
	orElse := func(given *time.Duration, preset time.Duration) {
		if *given == 0 {
			*given = preset
		}
	}
	orElse(&cfg.Timeout, DefaultTimeout)
	orElse(&cfg.Deadline, DefaultDeadline)
	orElse(&cfg.PartnerWait, DefaultPartnerWait)
	orElse(&cfg.LeaveAloneFor, DefaultLeaveAloneFor)
	if cfg.PerPartner == 0 {
		cfg.PerPartner = DefaultPerPartner
	}
	if cfg.Ports == nil {
		cfg.Ports = DefaultPorts
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Transport == nil {
		cfg.Transport = transport(cfg)
	}
	return cfg
}

// Handle delivers an event to the partner that it concerns. Events that partners can't subscribe to are none
// of its business.
func (s *Sender) Handle(ctx context.Context, record eventstore.Record) error {
	if !slices.Contains(subscription.Types, record.Type) {
		return nil
	}
	event, err := s.cfg.Registry.Decode(record)
	if err != nil {
		return eventstore.MarkPermanent(fmt.Errorf("webhook: %w", err))
	}
	body, partner, err := render(record, event)
	if err != nil {
		return eventstore.MarkPermanent(fmt.Errorf("webhook: %w", err))
	}
	if partner == "" {
		if partner, err = s.ownerOf(ctx, record); err != nil {
			return fmt.Errorf("webhook: %w", err)
		}
	}
	subscriptions, err := s.cfg.Subscriptions(ctx, partner)
	if err != nil {
		return fmt.Errorf("webhook: subscriptions of %s: %w", partner, err)
	}
	var wanted []subscription.State
	for _, candidate := range subscriptions {
		if candidate.Wants(record.Type) && candidate.Partner == partner {
			wanted = append(wanted, candidate)
		}
	}
	return s.deliverAll(ctx, record, body, wanted)
}

func (s *Sender) ownerOf(ctx context.Context, record eventstore.Record) (string, error) {
	found, exists, err := s.cfg.Order(ctx, record.Stream.Key)
	if err != nil {
		return "", fmt.Errorf("order %s: %w", record.Stream.Key, err)
	}
	if !exists || found.Partner == "" {
		return "", fmt.Errorf("order %s is not there yet", record.Stream.Key)
	}
	return found.Partner, nil
}

// deliverAll delivers at once to all subscriptions that have not got the event, so that none waits for
// another. After a crash some may get it again, under the same id.
func (s *Sender) deliverAll(ctx context.Context, record eventstore.Record, body []byte, to []subscription.State) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Deadline)
	defer cancel()
	served := readServed(eventstore.Progress(ctx))
	if err := s.madeBefore(ctx, record, to, served); err != nil {
		return eventstore.WithProgress(fmt.Errorf("webhook: deliveries: %w", err), served.text())
	}
	faults := make([]error, len(to))
	var deliveries sync.WaitGroup
	var made []string
	for i, target := range to {
		if served[target.ID] {
			continue
		}
		deliveries.Go(func() {
			faults[i] = s.deliver(ctx, delivery{record: record, body: body, to: target, id: deliveryID(record.ID, target.ID)})
		})
	}
	deliveries.Wait()
	for i, target := range to {
		if faults[i] == nil && !served[target.ID] {
			served[target.ID] = true
			made = append(made, deliveryID(record.ID, target.ID))
		}
	}
	s.remember(ctx, made)
	return eventstore.WithProgress(combine(faults), served.text())
}

// madeBefore marks the subscriptions that were told of the event when it came before.
func (s *Sender) madeBefore(ctx context.Context, record eventstore.Record, to []subscription.State, served served) error {
	if s.cfg.Deliveries == nil || len(to) == 0 {
		return nil
	}
	ids := make([]string, len(to))
	for i, target := range to {
		ids[i] = deliveryID(record.ID, target.ID)
	}
	made, err := s.cfg.Deliveries.Made(ctx, ids)
	for i, target := range to {
		if made[ids[i]] {
			served[target.ID] = true
		}
	}
	return err
}

// rememberTime bounds the noting of deliveries, which is done however much time they took.
const rememberTime = 2 * time.Second

// remember notes deliveries. What can't be noted may be delivered again, under the same id.
func (s *Sender) remember(ctx context.Context, ids []string) {
	if s.cfg.Deliveries == nil || len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rememberTime)
	defer cancel()
	if err := s.cfg.Deliveries.Remember(ctx, ids); err != nil {
		s.cfg.Log.WarnContext(ctx, "webhook: deliveries are not noted", "error", err)
	}
}

// enter takes one of the partner's places.
func (s *Sender) enter(ctx context.Context, partner string) (leave func(), err error) {
	s.mu.Lock()
	places, known := s.places[partner]
	if !known {
		places = make(chan struct{}, s.cfg.PerPartner)
		s.places[partner] = places
	}
	s.mu.Unlock()
	timer := time.NewTimer(s.cfg.PartnerWait)
	defer timer.Stop()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, errors.New("too many deliveries to the partner are under way")
	}
}

package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"andes/commands/subscription"
	"andes/eventstore"
)

// Bounds of a delivery.
const (
	maxAnswerBytes = 4 << 10
	maxRetryAfter  = time.Hour // an endpoint that asks for a longer pause gets this one
)

// delivery is one event on its way to one subscription.
type delivery struct {
	record eventstore.Record
	body   []byte
	to     subscription.State
	id     string
}

// deliveries is the name space of the delivery ids.
var deliveries = uuid.MustParse("5f0c3a3e-6a54-4d0e-9f3c-7f5b1a0b8c11")

// deliveryID is the same for each attempt to bring an event to a subscription, also after a restart.
func deliveryID(eventID, subscriptionID string) string {
	return uuid.NewSHA1(deliveries, []byte(eventID+"/"+subscriptionID)).String()
}

// Faults of deliveries.
var (
	errLeftAlone = errors.New("the endpoint keeps failing and is left alone for a while")
	errGone      = errors.New("the endpoint is gone")
	errLater     = errors.New("the endpoint asks for a pause")
	errSecret    = errors.New("the subscription's secret can't sign")
	errInsecure  = errors.New("the URL is not https")
)

// deliver makes one attempt. Its error is permanent where another attempt would be none.
func (s *Sender) deliver(ctx context.Context, d delivery) error {
	result, err := s.settle(ctx, d)
	s.metrics.deliveries.WithLabelValues(result).Inc()
	if err == nil {
		return nil
	}
	return fmt.Errorf("webhook: deliver %s to subscription %s: %w", d.record.Type, d.to.ID, err)
}

// settle gives the delivery's result as it is counted.
func (s *Sender) settle(ctx context.Context, d delivery) (string, error) {
	if !s.health.mayTry(d.to.ID, s.cfg.Now()) {
		return "put_off", errLeftAlone
	}
	leave, err := s.enter(ctx, d.to.Partner)
	if err != nil {
		return "put_off", err
	}
	defer leave()
	retryAfter, err := s.try(ctx, d)
	switch {
	case err == nil:
		s.health.succeeded(d.to.ID)
		return "delivered", nil
	case errors.Is(err, errGone):
		return "unsubscribed", s.unsubscribe(ctx, d)
	case errors.Is(err, context.Canceled):
		return "interrupted", err
	case retryAfter > 0:
		s.health.pauseUntil(d.to.ID, s.cfg.Now().Add(min(retryAfter, maxRetryAfter)))
		return "put_off", fmt.Errorf("%w: %w", errLater, err)
	}
	s.health.failed(d.to.ID, s.cfg.Now())
	if errors.Is(err, errSecret) || errors.Is(err, errInsecure) || errors.Is(err, errForbidden) {
		err = eventstore.MarkPermanent(err)
	}
	return "failed", err
}

// try makes one attempt, signed at its own time.
func (s *Sender) try(ctx context.Context, d delivery) (retryAfter time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	request, err := s.request(ctx, d)
	if err != nil {
		return 0, err
	}
	begun := s.cfg.Now()
	status, retryAfter, err := s.send(request)
	took := s.cfg.Now().Sub(begun)
	s.metrics.seconds.Observe(took.Seconds())
	s.metrics.attempts.WithLabelValues(outcome(status, err)).Inc()
	log := s.cfg.Log.With("partner", d.to.Partner, "subscription", d.to.ID, "webhookId", d.id, "type", d.record.Type,
		"stream", d.record.Stream.String(), "status", status, "took", took, "correlationId", d.record.Meta.CorrelationID)
	switch {
	case err != nil:
		log.WarnContext(ctx, "webhook attempt failed", "error", err)
		return 0, err
	case status/100 == 2:
		log.InfoContext(ctx, "webhook delivered")
		return 0, nil
	}
	log.WarnContext(ctx, "webhook attempt failed")
	if status == http.StatusGone {
		return 0, errGone
	}
	return retryAfter, fmt.Errorf("the endpoint answered with status %d", status)
}

func (s *Sender) request(ctx context.Context, d delivery) (*http.Request, error) {
	if !s.cfg.Development && !strings.HasPrefix(d.to.URL, "https://") {
		return nil, errInsecure
	}
	signer, err := standardwebhooks.NewWebhook(d.to.Secret)
	if err != nil || d.to.Secret == "" {
		return nil, errSecret // without the cause: it may quote the secret
	}
	now := s.cfg.Now()
	signature, err := signer.Sign(d.id, now, d.body)
	if err != nil {
		return nil, errSecret
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.to.URL, bytes.NewReader(d.body))
	if err != nil {
		return nil, withoutURL(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Andes-Webhooks/1")
	request.Header.Set(standardwebhooks.HeaderWebhookID, d.id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	if d.record.Meta.CorrelationID != "" {
		request.Header.Set("X-Correlation-Id", d.record.Meta.CorrelationID)
	}
	return request, nil
}

// send gives the status. The partner's words are not kept; a little of them is read so that the connection
// can be used again.
func (s *Sender) send(request *http.Request) (status int, retryAfter time.Duration, err error) {
	response, err := s.client.Do(request)
	if err != nil {
		return 0, 0, withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	// The status decides; how the body ends does not matter.
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswerBytes)
	if response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable {
		if seconds, err := strconv.ParseInt(response.Header.Get("Retry-After"), 10, 32); err == nil {
			retryAfter = max(0, time.Duration(seconds)*time.Second)
		}
	}
	return response.StatusCode, retryAfter, nil
}

// withoutURL drops the URL from the client's error: partners put secrets into theirs.
func withoutURL(err error) error {
	if wrapped, is := errors.AsType[*url.Error](err); is {
		return fmt.Errorf("call the endpoint: %w", wrapped.Err)
	}
	return err
}

// unsubscribe obeys a 410.
func (s *Sender) unsubscribe(ctx context.Context, d delivery) error {
	_, err := s.cfg.Executor.Execute(ctx, eventstore.Request{
		Command: subscription.Remove{ID: d.to.ID, Partner: d.to.Partner, Reason: "the endpoint answered 410 Gone"},
		Meta:    eventstore.Metadata{CorrelationID: d.record.Meta.CorrelationID, CausationID: d.record.ID, Actor: "webhook"},
	})
	if err != nil && eventstore.CodeOf(err) != subscription.CodeUnknown {
		return fmt.Errorf("unsubscribe: %w", err)
	}
	s.cfg.Log.WarnContext(ctx, "a subscription ended: its endpoint is gone", "partner", d.to.Partner, "subscription", d.to.ID)
	return nil
}

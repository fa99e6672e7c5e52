// Package ratelimit lets a mesh enforce the partners' quotas: it is Envoy's global rate limit service (gRPC,
// envoy.service.ratelimit.v3), deciding by the same quotas as the partner API.
//
// # What Envoy sends
//
// The domain is the configured one ("andes" by default). Each descriptor names one quota:
//
//	partner      the partner's id, the claim partner_id of its token
//	route_group  reads or orders
//	channel      may be left out: the token's subject, for partners with a quota for each channel
//
// hits_addend is the cost, 1 if there is none. A partner that is not set up has the quota of the smallest tier.
// Where a mesh enforces quotas, the partner API need not count the same requests again: ANDES_QUOTA=off.
//
// # What it answers
//
// OVER_LIMIT as soon as one descriptor is over its quota, with the fields and the problem document of the partner
// API. What it does not understand, another domain included, is an error and never OK: a mistake in the mesh's
// configuration shows at the first request, instead of lifting every limit unnoticed. Envoy lets requests
// through on errors unless failure_mode_deny is set.
package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"andes/queries"
	"andes/quota"
)

// Quotas decides.
type Quotas interface {
	Take(ctx context.Context, ask quota.Ask) quota.Verdict
}

// Config is all that the service needs.
type Config struct {
	Addr     string // to listen on
	Domain   string
	Quotas   Quotas
	Partners queries.Partners
	Logger   *slog.Logger
}

// Bounds of the server.
const (
	maxMessage     = 64 << 10
	maxStreams     = 1000
	connectTimeout = 5 * time.Second
	lookupTimeout  = 2 * time.Second
	idleTimeout    = 5 * time.Minute
	drainTimeout   = 5 * time.Second
)

// Service is a server that listens already.
type Service struct {
	envoy.UnimplementedRateLimitServiceServer
	config   Config
	listener net.Listener
	server   *grpc.Server
}

// New checks the configuration and begins to listen.
func New(ctx context.Context, config Config) (*Service, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", config.Addr)
	if err != nil {
		return nil, fmt.Errorf("rate limit service: %w", err)
	}
	s := &Service{config: config, listener: listener}
	s.server = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout}),
	)
	envoy.RegisterRateLimitServiceServer(s.server, s)
	grpc_health_v1.RegisterHealthServer(s.server, health.NewServer())
	return s, nil
}

func (c Config) validate() error {
	var faults []error
	need := func(there bool, text string) {
		if !there {
			faults = append(faults, errors.New("rate limit service: "+text))
		}
	}
	need(c.Addr != "", "an address is needed")
	need(c.Domain != "", "a domain is needed")
	need(c.Quotas != nil && c.Partners != nil && c.Logger != nil, "Quotas, Partners and Logger are needed")
	return errors.Join(faults...)
}

// Addr is where the service listens.
func (s *Service) Addr() string { return s.listener.Addr().String() }

// Run answers until ctx ends; then it drains.
func (s *Service) Run(ctx context.Context) error {
	s.config.Logger.InfoContext(ctx, "rate limits are served", "grpc", s.Addr(), "domain", s.config.Domain)
	failed := make(chan error, 1)
	go func() { failed <- s.server.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("rate limit service: %w", err)
	case <-ctx.Done():
	}
	cut := time.AfterFunc(drainTimeout, s.server.Stop)
	defer cut.Stop()
	s.server.GracefulStop()
	return nil
}

// ShouldRateLimit implements Envoy's service.
func (s *Service) ShouldRateLimit(ctx context.Context, request *envoy.RateLimitRequest) (*envoy.RateLimitResponse, error) {
	asks, err := s.asks(request)
	if err != nil {
		s.config.Logger.WarnContext(ctx, "rate limit service: a request that is not understood", "error", err.Error())
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.identify(ctx, asks); err != nil {
		return nil, status.Error(codes.Unavailable, "the partner could not be looked up")
	}
	verdicts := make([]quota.Verdict, len(asks))
	for i, ask := range asks {
		verdicts[i] = s.config.Quotas.Take(ctx, ask)
	}
	return answer(verdicts), nil
}

// identify completes the questions by what is known of their partners.
func (s *Service) identify(ctx context.Context, asks []quota.Ask) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	for i := range asks {
		channel, known, err := s.config.Partners.Partner(ctx, asks[i].Key.Partner)
		if err != nil {
			return err
		}
		if known {
			asks[i].Tier = channel.Tier
		}
		if !known || !channel.Policy.QuotaPerChannel {
			asks[i].Key.Channel = ""
		}
	}
	return nil
}

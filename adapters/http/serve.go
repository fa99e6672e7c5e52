package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// ServerConfig bounds a server.
type ServerConfig struct {
	ReadHeaderTimeout time.Duration
	ReadTimeout       time.Duration
	WriteTimeout      time.Duration
	IdleTimeout       time.Duration
	MaxHeaderBytes    int
	// DrainDelay is how long requests are still taken after /readyz says no, so that a load balancer
	// notices before a connection is refused.
	DrainDelay time.Duration
	// DrainTimeout bounds the wait for requests that are being answered.
	DrainTimeout time.Duration
	Logger       *slog.Logger
}

// DefaultServerConfig bounds every phase of a connection. A header has room for a large token.
func DefaultServerConfig(logger *slog.Logger) ServerConfig {
	return ServerConfig{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 75 * time.Second,
		MaxHeaderBytes: 64 << 10, DrainDelay: 2 * time.Second, DrainTimeout: 20 * time.Second, Logger: logger,
	}
}

// Serve listens on addr and answers until ctx ends; then it drains and returns. Requests are not
// cancelled by ctx: they have DrainTimeout to end.
func Serve(ctx context.Context, addr string, handler http.Handler, config ServerConfig) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("http server: %w", err)
	}
	return ServeOn(ctx, listener, handler, config)
}

// ServeOn is Serve with a listener, which it closes.
func ServeOn(ctx context.Context, listener net.Listener, handler http.Handler, config ServerConfig) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: config.ReadHeaderTimeout, ReadTimeout: config.ReadTimeout,
		WriteTimeout: config.WriteTimeout, IdleTimeout: config.IdleTimeout, MaxHeaderBytes: config.MaxHeaderBytes,
		ErrorLog: slog.NewLogLogger(config.Logger.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("http server: %w", err)
	case <-ctx.Done():
	}
	if draining, ok := handler.(interface{ Drain() }); ok {
		draining.Drain()
	}
	pause := time.NewTimer(config.DrainDelay)
	defer pause.Stop()
	select {
	case err := <-failed:
		return fmt.Errorf("http server: %w", err)
	case <-pause.C:
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.DrainTimeout)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		return errors.Join(fmt.Errorf("http server: requests were cut off after %s: %w", config.DrainTimeout, err), server.Close())
	}
	return nil
}

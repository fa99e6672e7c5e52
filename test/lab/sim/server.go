package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	shutdownTimeout   = 2 * time.Second
	maxHeaderBytes    = 64 << 10
)

// Start serves on addr (port 0 picks a free one) until ctx ends or the
// simulator is closed, and returns its base URL.
func (c *Core[K]) Start(ctx context.Context, addr string) (string, error) {
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("%s simulator: %w", c.name, err)
	}
	srv := &http.Server{
		Handler: c.Handler(), ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	c.workers.Go(func() {
		// Serve returns as soon as Shutdown begins; nothing is lost by that.
		if err := srv.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			c.stop()
		}
	})
	c.workers.Go(func() {
		select {
		case <-ctx.Done():
			c.stop()
		case <-c.ctx.Done():
		}
		// ctx is over already: the grace period needs a context of its own.
		grace, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			_ = srv.Close()
		}
	})
	return "http://" + ln.Addr().String(), nil
}

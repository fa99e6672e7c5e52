//go:build linux

package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"andes/test/bench/andes"
)

// untilReady stops a server that does not become ready.
func untilReady(ctx context.Context, server *andes.Server) error {
	err := server.Ready(ctx)
	if err != nil {
		server.Stop()
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// serveBare is the handler that the edge is measured against. Its body comes by standard input.
func serveBare(address string) error {
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
}

func (p *platform) serveBare(ctx context.Context, body []byte) (*andes.Server, error) {
	address, err := andes.FreeAddress()
	if err != nil {
		return nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, executable, "-bare", address)
	command.Stdin = strings.NewReader(string(body))
	command.Env = append(os.Environ(), "GOGC=400") // as andes has it
	server, err := andes.Start(command, address)
	if err != nil {
		return nil, err
	}
	return server, untilReady(ctx, server)
}

// meters are CPU times so far.
type meters struct{ self, server time.Duration }

func metersOf(server *andes.Server) meters { return meters{andes.OwnCPU(), server.CPU()} }

// Package andes runs the platform's own binary for what measures it: built, migrated, with a schema, topics and keys of its
// own.
package andes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Secret is of webhooks: the gateway's, which no bench uses, and of feeds that are pushed.
const Secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// Installation is a binary and the settings of its processes.
type Installation struct {
	Name   string // of the schema, and before topics and keys
	Folder string
	Binary string
	Env    []string
}

// Install builds the binary, unless there is one, and migrates. It gives what it made even when it fails.
func Install(ctx context.Context, name, binary string, settings ...string) (*Installation, error) {
	i := &Installation{Name: fmt.Sprintf("bench_%s_%d", name, time.Now().UnixNano()), Binary: binary}
	var err error
	if i.Folder, err = os.MkdirTemp("", "bench-"+name); err != nil {
		return i, err
	}
	if binary == "" {
		i.Binary = filepath.Join(i.Folder, "andes")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", i.Binary, "./cmd/andes").CombinedOutput(); err != nil {
			return i, fmt.Errorf("build: %w: %s", err, out)
		}
	}
	i.Env = slices.Concat(os.Environ(), []string{
		"ANDES_ENV=development", "ANDES_LOG_LEVEL=warn", "ANDES_PAYMENT_WEBHOOK_SECRET=" + Secret, "ANDES_DEV_KEY_FILE=" + filepath.Join(i.Folder, "issuer.pem"),
		"ANDES_POSTGRES_SCHEMA=" + i.Name, "ANDES_REDIS_PREFIX=" + i.Name + ":", "ANDES_KAFKA_PREFIX=" + i.Name + ".",
	}, settings)
	migrate := exec.CommandContext(ctx, i.Binary, "migrate")
	migrate.Env = i.Env
	if out, err := migrate.CombinedOutput(); err != nil {
		return i, fmt.Errorf("migrate: %w: %s", err, out)
	}
	return i, nil
}

// Remove drops the folder.
func (i *Installation) Remove() {
	if i.Folder != "" {
		_ = os.RemoveAll(i.Folder)
	}
}

// Serve starts a process of the roles on a free port; it is not ready yet.
func (i *Installation) Serve(ctx context.Context, roles string, settings ...string) (*Server, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, i.Binary, "serve", "--roles", roles)
	command.Env = slices.Concat(i.Env, []string{"ANDES_HTTP_ADDR=" + address}, settings)
	return Start(command, address)
}

// Server is a process that answers at an address.
type Server struct {
	Process *exec.Cmd
	Address string
}

// Start starts a server, whichever it is; it is not ready yet.
func Start(command *exec.Cmd, address string) (*Server, error) {
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		return nil, err
	}
	return &Server{command, address}, nil
}

// URL is before every path.
func (s *Server) URL() string { return "http://" + s.Address }

const (
	readyWait  = 30 * time.Second
	readyPause = 50 * time.Millisecond
	maxAnswer  = 1 << 16
)

// Ready waits until the server says that it is.
func (s *Server) Ready(ctx context.Context) error {
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(readyWait); time.Now().Before(deadline); {
		response, err := client.Get(s.URL() + "/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(readyPause):
		}
	}
	return fmt.Errorf("%s did not become ready", s.Process.Path)
}

// Token asks the development issuer for a partner's token.
func (s *Server) Token(ctx context.Context, partner string) (string, error) {
	body := []byte(`{"partner_id":` + strconv.Quote(partner) + `,"roles":[]}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/dev/token", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	var token struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(text, &token); err != nil || token.AccessToken == "" {
		return "", fmt.Errorf("no token: %s %s: %w", response.Status, text, err)
	}
	return token.AccessToken, nil
}

// CPU is what the server has used so far.
func (s *Server) CPU() time.Duration { return CPUOf(s.Process.Process.Pid) }

// Stop ends the server.
func (s *Server) Stop() {
	_ = s.Process.Process.Signal(syscall.SIGTERM)
	_ = s.Process.Wait()
}

// clockTick is the unit of /proc/<pid>/stat on Linux.
const clockTick = 10 * time.Millisecond

// CPUOf is what a process has used so far. Where it can't be read it is 0.
func CPUOf(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name may have spaces
	const user, system = 11, 12
	if len(fields) <= system {
		return 0
	}
	u, _ := strconv.ParseInt(fields[user], 10, 64)
	k, _ := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+k) * clockTick
}

// OwnCPU is what this process has used so far.
func OwnCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// FreeAddress is a port that was free a moment ago.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a process that answers at an address.
type server struct {
	process *exec.Cmd
	address string
}

func startServer(ctx context.Context, command *exec.Cmd, address string) (*server, error) {
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		return nil, err
	}
	s := &server{process: command, address: address}
	if err := s.ready(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

const (
	readyWait  = 30 * time.Second
	readyPause = 50 * time.Millisecond
)

func (s *server) ready(ctx context.Context) error {
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(readyWait); time.Now().Before(deadline); {
		response, err := client.Get("http://" + s.address + "/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := pause(ctx, readyPause); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s did not become ready", s.process.Path)
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

func (s *server) stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	_ = s.process.Wait()
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
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

func (p *platform) serveBare(ctx context.Context, body []byte) (*server, error) {
	address, err := freeAddress()
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
	return startServer(ctx, command, address)
}

// meters are CPU times so far.
type meters struct{ self, server time.Duration }

func (s *server) meters() meters { return meters{self(), s.cpu()} }

func self() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// clockTick is the unit of /proc/<pid>/stat.
const clockTick = 10 * time.Millisecond

// cpu reads what the server has used. Where it can't be read it is 0.
func (s *server) cpu() time.Duration {
	file, err := os.Open("/proc/" + strconv.Itoa(s.process.Process.Pid) + "/stat")
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	text, err := bufio.NewReader(file).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	_, rest, _ := strings.Cut(text, ") ") // the name may have spaces
	fields := strings.Fields(rest)
	const user, system = 11, 12
	if len(fields) <= system {
		return 0
	}
	u, _ := strconv.ParseInt(fields[user], 10, 64)
	k, _ := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+k) * clockTick
}

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// instance is a process that serves.
type instance struct {
	address string
	roles   string // empty: all
	process *exec.Cmd
	log     syncBuffer
	exited  chan error
}

// syncBuffer is a log that is written while it is read.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// logLine is what is read of a line of the log.
type logLine struct {
	Level         string `json:"level"`
	Message       string `json:"msg"`
	Route         string `json:"route"`
	CorrelationID string `json:"correlationId"`
	Error         string `json:"error"`
}

func (i *instance) lines() (lines []logLine) {
	for text := range strings.Lines(i.log.String()) {
		var line logLine
		if json.Unmarshal([]byte(text), &line) == nil {
			lines = append(lines, line)
		}
	}
	return lines
}

func (i *instance) has(role string) bool {
	return i.roles == "" || slices.Contains(strings.Split(i.roles, ","), role)
}

// launch starts an instance.
func (s *scene) launch(roles string) *instance {
	s.t.Helper()
	i := &instance{address: freeAddress(s.t), roles: roles, exited: make(chan error, 1)}
	arguments := []string{"serve"}
	if roles != "" {
		arguments = append(arguments, "--roles", roles)
	}
	i.process = s.command(context.Background(), arguments...)
	i.process.Env = append(i.process.Env, "ANDES_HTTP_ADDR="+i.address)
	i.process.Stderr = &i.log
	if err := i.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { i.exited <- i.process.Wait() }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instances, s.launched = append(s.instances, i), append(s.launched, i)
	return i
}

func (s *scene) running() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.instances)
}

// serving are the addresses of the instances with a role.
func (s *scene) serving(role string) (addresses []string) {
	for _, i := range s.running() {
		if i.has(role) {
			addresses = append(addresses, i.address)
		}
	}
	return addresses
}

func (s *scene) forget(i *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instances = slices.DeleteFunc(s.instances, func(other *instance) bool { return other == i })
}

// kill ends an instance as a crash does. Whoever calls it does not know yet.
func (s *scene) kill(i *instance) {
	s.t.Helper()
	if err := i.process.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-i.exited
	s.forget(i)
}

// restart starts another instance in the place of one that ended.
func (s *scene) restart(i *instance) *instance {
	s.t.Helper()
	next := s.launch(i.roles)
	s.awaitReady(next)
	return next
}

// stop asks an instance to end: it has to, cleanly and in time.
func (s *scene) stop(i *instance) {
	s.t.Helper()
	s.signal(i)
	limit := time.NewTimer(stopWait)
	defer limit.Stop()
	select {
	case err := <-i.exited:
		if err != nil {
			s.t.Errorf("%s (roles %q) did not stop cleanly: %v", i.address, i.roles, err)
		}
	case <-limit.C:
		s.t.Errorf("%s (roles %q) did not stop within %s", i.address, i.roles, stopWait)
		_ = i.process.Process.Kill()
		<-i.exited
	}
	s.forget(i)
}

func (s *scene) signal(i *instance) {
	s.t.Helper()
	if err := i.process.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Errorf("stop %s: %v", i.address, err)
	}
}

func (s *scene) awaitReady(i *instance) {
	s.t.Helper()
	s.eventually("ready on "+i.address, func() error {
		select {
		case err := <-i.exited:
			i.exited <- err
			s.t.Fatalf("andes ended while starting: %v\n%s", err, i.log.String())
		default:
		}
		response, err := http.Get("http://" + i.address + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

// Ports of instances lie below those that the system gives to outgoing connections, so that nobody takes
// one between the look and the start.
const (
	firstPort = 10_000
	ports     = 10_000
)

// givenAddresses are not given again: whoever has one may not listen yet.
var givenAddresses sync.Map

func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(ports))
		if _, given := givenAddresses.LoadOrStore(address, true); given {
			continue
		}
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// tail of a log is what a reader of a failed test wants. The calls of the tests themselves are left out.
func tail(log string) string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(log), "\n"), func(line string) bool {
		return strings.Contains(line, `"level":"INFO","msg":"http request"`)
	})
	const most = 60
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

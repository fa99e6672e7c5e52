package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Server is a Redis of the test's own, which it may stop, hang, flush and turn read-only.
type Server struct {
	Addr string

	tb        testing.TB
	folder    string
	arguments []string
	process   *exec.Cmd
	output    *os.File
}

const (
	startWait = time.Minute
	startPoll = 5 * time.Millisecond
)

// StartServer starts an empty Redis on a free port; it is stopped when the test ends.
func StartServer(t testing.TB, arguments ...string) *Server {
	t.Helper()
	for range portTries {
		port := freePort(t)
		s := &Server{
			Addr: net.JoinHostPort("127.0.0.1", port), tb: t, folder: t.TempDir(),
			arguments: append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}, arguments...),
		}
		t.Cleanup(s.Kill)
		if s.launch() {
			return s
		}
		s.Kill()
	}
	t.Fatalf("%d times somebody was quicker to take the port that was free", portTries)
	return nil
}

// portTries bounds how often another port is taken, when somebody took the free one meanwhile.
const portTries = 5

// binary finds the server; a missing one fails the test.
func binary(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("neither redis-server nor valkey-server is installed; this test needs a server of its own")
	return ""
}

func freePort(t testing.TB) string {
	t.Helper()
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		_ = listener.Close()
		if port+clusterBusOffset <= maxPort {
			return strconv.Itoa(port)
		}
	}
}

const (
	clusterBusOffset = 10_000 // a cluster's nodes talk on their port and this
	maxPort          = 65_535
)

// Start starts the server again, empty.
func (s *Server) Start() {
	s.tb.Helper()
	if !s.launch() {
		s.tb.Fatalf("somebody has taken %s", s.Addr)
	}
}

// launch starts the server; it is false if its port, or that of its cluster's bus, is somebody else's.
func (s *Server) launch() (listens bool) {
	s.tb.Helper()
	output, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.output = output
	s.process = exec.Command(binary(s.tb), append(s.arguments, "--dir", s.folder)...)
	s.process.Stdout, s.process.Stderr = output, output
	if err := s.process.Start(); err != nil {
		s.tb.Fatal(err)
	}
	var log []byte
	taken := false
	answers := Eventually(startWait, func() bool {
		log, _ = os.ReadFile(output.Name())
		taken = bytes.Contains(log, []byte("Address already in use"))
		return taken || s.answers()
	})
	if !answers {
		s.tb.Fatalf("redis at %s does not answer: %s", s.Addr, log)
	}
	return !taken
}

func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	reply := make([]byte, len("+PONG"))
	_, err = conn.Read(reply)
	return err == nil && string(reply) == "+PONG"
}

// Kill ends the server at once.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	_ = s.output.Close()
	s.process = nil
}

// Hang stops the server's process: connections stay open and nothing answers.
func (s *Server) Hang() { s.signal(syscall.SIGSTOP) }

// Resume ends a Hang.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.tb.Helper()
	if err := s.process.Process.Signal(signal); err != nil {
		s.tb.Fatal(err)
	}
}

// Do runs a command given as words.
func (s *Server) Do(words ...string) rueidis.RedisResult {
	s.tb.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr}, DisableCache: true, ForceSingleClient: true, Dialer: net.Dialer{Timeout: startWait}, ConnWriteTimeout: startWait,
	})
	if err != nil {
		s.tb.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	return client.Do(ctx, client.B().Arbitrary(words...).Build())
}

// Must is Do, and fails the test on an error.
func (s *Server) Must(words ...string) rueidis.RedisResult {
	s.tb.Helper()
	result := s.Do(words...)
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		s.tb.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return result
}

const clusterSlots = 1 << 14

// StartCluster starts masters that share the slots evenly, and gives them.
func StartCluster(t testing.TB, masters int) []*Server {
	t.Helper()
	servers := make([]*Server, masters)
	for i := range servers {
		servers[i] = StartServer(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "30000")
		first, last := i*clusterSlots/masters, (i+1)*clusterSlots/masters-1
		servers[i].Must("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
		if i > 0 {
			host, port, _ := net.SplitHostPort(servers[0].Addr)
			servers[i].Must("CLUSTER", "MEET", host, port)
		}
	}
	whole := func() bool {
		for _, server := range servers {
			info, err := server.Do("CLUSTER", "INFO").ToString()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", masters)) {
				return false
			}
		}
		return true
	}
	if !Eventually(startWait, whole) {
		t.Fatal("the cluster did not form")
	}
	return servers
}

// Eventually polls a condition of another process until it holds; false when the wait is over.
func Eventually(wait time.Duration, holds func() bool) bool {
	deadline := time.Now().Add(wait)
	for !holds() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(startPoll)
	}
	return true
}

// Send sends a command and does not wait for its answer.
func (s *Server) Send(words ...string) {
	s.tb.Helper()
	conn, err := net.DialTimeout("tcp", s.Addr, startWait)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { _ = conn.Close() })
	command := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write([]byte(command)); err != nil {
		s.tb.Fatal(err)
	}
}

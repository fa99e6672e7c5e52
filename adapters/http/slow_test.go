package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"andes/eventstore"
)

// Bounds that a test does not wait long for.
const (
	shortly = 50 * time.Millisecond
	atMost  = patience // after which something hangs
)

// dial opens a connection and sends the beginning of a request.
func (s *testServer) dial(begin string) net.Conn {
	s.t.Helper()
	connection, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(atMost)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(connection, begin); err != nil {
		s.t.Fatal(err)
	}
	return connection
}

// rest reads until the server closes the connection.
func rest(t *testing.T, connection net.Conn) string {
	t.Helper()
	data, err := io.ReadAll(connection)
	if netError, ok := errors.AsType[net.Error](err); ok && netError.Timeout() {
		t.Errorf("the connection stays open: %q", data)
	}
	return string(data)
}

const orderHead = "POST /v1/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer acme\r\nContent-Type: application/json\r\nIdempotency-Key: K\r\n"

func TestAClientThatSendsNoHeaderInTimeIsLeft(t *testing.T) {
	e := newEdge(t)
	server := startServer(t, e, func(c *ServerConfig) { c.ReadHeaderTimeout = shortly })
	for _, begin := range []string{"", "G", "GET /v1/stock?sku=A HTTP/1.1\r\nHost: x\r\nAuthorization: Bea"} {
		if got := rest(t, server.dial(begin)); strings.Contains(got, " 200 ") {
			t.Errorf("%q was answered %q", begin, got)
		}
	}
}

func TestAClientThatSendsNoBodyInTimeIsToldSoAndLeft(t *testing.T) {
	e := newEdge(t)
	events := e.events()
	server := startServer(t, e, func(c *ServerConfig) { c.ReadHeaderTimeout, c.ReadTimeout = atMost, shortly })
	for name, body := range map[string]string{"nothing": "", "half": smallOrder[:30]} {
		got := rest(t, server.dial(orderHead+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smallOrder))+body))
		if !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, `"code":"BODY_UNREADABLE"`) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if e.events() != events {
		t.Error("half an order left events")
	}
	e.placed("K", smallOrder) // and did not spend the key
}

func TestAClientThatEndsEarlyIsToldSo(t *testing.T) {
	e := newEdge(t)
	server := startServer(t, e)
	connection := server.dial(orderHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smallOrder)) + smallOrder[:30])
	if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := rest(t, connection); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("%q", got)
	}
}

func TestAClientThatDoesNotReadIsLeft(t *testing.T) {
	e := newEdge(t)
	server := startServer(t, e, func(c *ServerConfig) { c.WriteTimeout = 2 * time.Second }) // enough for the others, on any machine
	connection := server.dial("")
	request := "GET /docs HTTP/1.1\r\nHost: x\r\n\r\n"
	for deadline := time.Now().Add(atMost); ; {
		if _, err := io.WriteString(connection, request); err != nil {
			break // the server has closed it
		}
		if time.Now().After(deadline) {
			t.Fatal("the server still waits for a client that reads nothing")
		}
	}
	if got := server.get("/v1/stock?sku=A"); got.status != 200 {
		t.Errorf("others: %d", got.status)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	e := newEdge(t)
	server := startServer(t, e)
	for name, header := range map[string]string{
		"one long":  "X-A: " + strings.Repeat("a", 80<<10),
		"many":      strings.TrimSuffix(strings.Repeat("X-A: aaaaaaaaaa\r\n", 6<<10), "\r\n"),
		"long name": strings.Repeat("a", 80<<10) + ": x",
	} {
		if got := server.send(http.MethodGet, "/v1/stock?sku=A", "", "Authorization: Bearer acme", header); got.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %d %.100s", name, got.status, got.body)
		}
	}
	if got := server.send(http.MethodGet, "/v1/stock?sku=A", "", "Authorization: Bearer acme", "X-A: "+strings.Repeat("a", 32<<10)); got.status != 200 {
		t.Errorf("a large header: %d", got.status)
	}
	if got := server.get("/" + strings.Repeat("a", 80<<10)); got.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long path: %d", got.status)
	}
	for name, lines := range map[string][]string{
		"two lengths":         {"Authorization: Bearer acme", "Content-Length: 1"},
		"an unknown encoding": {"Authorization: Bearer acme", "Transfer-Encoding: gzip"},
		"a space in a name":   {"Authorization: Bearer acme", "X A: a"},
	} {
		if got := server.send(http.MethodPost, "/v1/stock/query", `{"skus":["A"]}`, append(lines, "Content-Type: application/json")...); got.status < 400 || got.status == 500 {
			t.Errorf("%s: %d %.100s", name, got.status, got.body)
		}
	}
}

// TestABodyThatIsRefusedAnywayIsNotAskedFor: a client that waits for a 100 gets its refusal instead.
func TestABodyThatIsRefusedAnywayIsNotAskedFor(t *testing.T) {
	e := newEdge(t)
	server := startServer(t, e)
	for name, tried := range map[string]struct{ head, status string }{
		"no token": {"POST /v1/orders HTTP/1.1\r\nHost: x\r\n", "401"},
		"no key":   {strings.Replace(orderHead, "Idempotency-Key: K\r\n", "", 1), "422"},
		"no JSON":  {strings.Replace(orderHead, "application/json", "text/plain", 1), "415"},
		"no route": {strings.Replace(orderHead, "/v1/orders", "/v1/nothing", 1), "404"},
	} {
		connection := server.dial(tried.head + "Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
		response, err := bufio.NewReader(connection).ReadString('\n')
		if err != nil || !strings.HasPrefix(response, "HTTP/1.1 "+tried.status) {
			t.Errorf("%s: %q, %v", name, response, err)
		}
	}
}

func TestABodyWithoutALengthIsBoundedToo(t *testing.T) {
	e := newEdge(t)
	server := startServer(t, e)
	connection := server.dial(orderHead + "Transfer-Encoding: chunked\r\n\r\n")
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat(" ", 64<<10))
	sent := 0
	for ; sent < 64<<20; sent += 64 << 10 {
		if _, err := io.WriteString(connection, chunk); err != nil {
			break
		}
	}
	if got, _ := io.ReadAll(connection); sent >= 64<<20 {
		t.Errorf("64 MiB were taken: %q", got)
	}
	is(t, e.order("K", strings.Repeat(" ", 2<<20)), 413, CodeBodyTooLarge)
}

func TestStoppingDoesNotWaitForEver(t *testing.T) {
	e := newEdge(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	e.executor.fail(func(context.Context, eventstore.Request) error {
		close(entered)
		<-leave
		return eventstore.ErrUnavailable
	}, nil)
	server := startServer(t, e, func(c *ServerConfig) { c.DrainTimeout = shortly })
	connection := server.dial(orderHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smallOrder)) + smallOrder)
	<-entered
	server.stop()
	select {
	case err := <-server.done:
		if err == nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the request that was cut off is told: %v", err)
		}
	case <-time.After(atMost):
		t.Fatal("the server does not stop")
	}
	server.done <- nil
	close(leave)
	rest(t, connection)
}

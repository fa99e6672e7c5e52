package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"andes/eventstore"
)

// testServer serves an edge on a port of its own.
type testServer struct {
	t       *testing.T
	address string
	client  *http.Client
	stop    context.CancelFunc
	done    chan error
}

func startServer(t *testing.T, handler http.Handler, change ...func(*ServerConfig)) *testServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	config := DefaultServerConfig(slog.New(slog.DiscardHandler))
	config.DrainDelay = 0
	for _, apply := range change {
		apply(&config)
	}
	s := &testServer{t: t, address: listener.Addr().String(), stop: stop, done: make(chan error, 1), client: &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a redirect") },
	}}
	go func() { s.done <- ServeOn(ctx, listener, handler, config) }()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		stop()
		if err := <-s.done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// get sends the target exactly as it is, as partner acme.
func (s *testServer) get(target string) reply {
	s.t.Helper()
	return s.send(http.MethodGet, target, "", "Authorization: Bearer acme")
}

// send writes a request by hand, so that no client cleans it.
func (s *testServer) send(method, target, body string, headers ...string) reply {
	s.t.Helper()
	connection, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n", method, target, len(body))
	for _, line := range headers {
		head += line + "\r\n"
	}
	if _, err := io.WriteString(connection, head+"\r\n"+body); err != nil {
		s.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answered, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{status: response.StatusCode, header: response.Header, body: string(answered)}
}

// signalling tells when it drains.
type signalling struct {
	*API
	draining chan struct{}
}

func (s *signalling) Drain() {
	s.API.Drain()
	close(s.draining)
}

func TestStoppingDrainsWhatIsUnderWay(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	e := newEdge(t)
	e.executor.fail(func(ctx context.Context, _ eventstore.Request) error {
		close(entered)
		<-leave
		return ctx.Err()
	}, nil)
	draining := make(chan struct{})
	server := startServer(t, &signalling{API: e.API, draining: draining})
	answered := make(chan int, 1)
	go func() {
		request, _ := http.NewRequest(http.MethodPost, "http://"+server.address+"/v1/orders", strings.NewReader(smallOrder))
		request.Header = http.Header{"Authorization": {"Bearer acme"}, "Content-Type": {"application/json"}, keyHeader: {"K"}}
		response, err := server.client.Do(request)
		if err != nil {
			answered <- 0
			return
		}
		_ = response.Body.Close()
		answered <- response.StatusCode
	}()
	<-entered
	server.stop()
	<-draining // readiness goes first
	if got := e.ask(http.MethodGet, "/readyz", ""); got.status != 503 {
		t.Errorf("readiness while draining: %d", got.status)
	}
	close(leave)
	if status := <-answered; status != http.StatusAccepted {
		t.Errorf("the order under way was answered %d", status)
	}
	if err := <-server.done; err != nil {
		t.Error(err)
	}
	server.done <- nil
}

func TestWhileDrainingRequestsAreStillAnsweredButNoneIsAskedFor(t *testing.T) {
	e := newEdge(t)
	e.Drain()
	if got := e.ask(http.MethodGet, "/readyz", ""); got.status != 503 || !strings.Contains(got.body, `"missing":["stopping"]`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := e.ask(http.MethodGet, "/v1/stock?sku=A", ""); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestAServerThatCantListenSaysSo(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if err := Serve(t.Context(), listener.Addr().String(), http.NotFoundHandler(), DefaultServerConfig(slog.Default())); err == nil {
		t.Error("the port is taken")
	}
}

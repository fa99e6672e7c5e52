package webhook

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"andes/commands/subscription"
	"andes/eventstore"
)

const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

func TestAddressesThatAreNotPartners(t *testing.T) {
	forbidden := []string{
		"127.0.0.1:443", "127.9.9.9:443", "[::1]:443", "0.0.0.0:443", "[::]:443", "10.1.2.3:443", "172.16.0.1:443", "192.168.1.1:443",
		"169.254.169.254:443", "[fe80::1]:443", "[fe80::1%eth0]:443", "100.64.0.1:443", "[fd00::1]:443", "[::ffff:127.0.0.1]:443",
		"[::ffff:10.0.0.1]:443", "[::7f00:1]:443", "[64:ff9b::7f00:1]:443", "[2002:7f00:1::]:443", "[2001::1]:443", "224.0.0.1:443",
		"[ff02::1]:443", "255.255.255.255:443", "198.18.0.1:443", "192.0.2.1:443", "240.0.0.1:443",
		"93.184.216.34:5432", "93.184.216.34:80", "93.184.216.34:22", "localhost:443", "nonsense",
	}
	for _, address := range forbidden {
		if err := checkAddress(address, DefaultPorts); !errors.Is(err, errForbidden) {
			t.Errorf("%s is allowed", address)
		}
	}
	for _, address := range []string{"93.184.216.34:443", "8.8.8.8:8443", "[2606:4700::1111]:443", "100.128.0.1:443", "172.32.0.1:443"} {
		if err := checkAddress(address, DefaultPorts); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// senderTo makes a sender as it runs, without a store.
func senderTo(t *testing.T, development bool) *Sender {
	t.Helper()
	cfg := Config{Development: development, Timeout: 3 * time.Second, Log: slog.New(slog.DiscardHandler)}.withDefaults()
	metrics, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Sender{cfg: cfg, metrics: metrics, places: map[string]chan struct{}{}, client: client(cfg)}
}

func delivered(t *testing.T, s *Sender, url string) error {
	t.Helper()
	_, err := s.try(t.Context(), delivery{
		record: eventstore.Record{Type: "order.placed"}, body: []byte(`{}`), id: "id",
		to: subscription.State{ID: "s", Partner: "acme", URL: url, Secret: secret},
	})
	return err
}

func TestProductionDoesNotConnectToOurOwnNetwork(t *testing.T) {
	var calls atomic.Int32
	inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer inside.Close()
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		if err := delivered(t, senderTo(t, false), "https://"+host+":"+port); !errors.Is(err, errForbidden) {
			t.Errorf("%s: error %v", host, err)
		}
	}
	if calls.Load() != 0 {
		t.Errorf("%d calls came through", calls.Load())
	}
}

func TestAProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	if transport(Config{}.withDefaults()).Proxy != nil {
		t.Error("behind a proxy the address check would see the proxy")
	}
}

func TestForeignAnswers(t *testing.T) {
	var sink atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sink.Add(1) }))
	defer inside.Close()
	stall := func(r *http.Request) { // until the caller leaves
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	cases := map[string]struct {
		answer    http.HandlerFunc
		delivered bool
	}{
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL, http.StatusTemporaryRedirect)
		}, false},
		"an endless body": {func(w http.ResponseWriter, r *http.Request) {
			chunk := make([]byte, 64<<10)
			for r.Context().Err() == nil {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, true},
		"a body that drips": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			stall(r)
		}, true},
		"2 GB announced": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "2147483648")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			stall(r)
		}, true},
		"headers without end": {func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				w.Header().Add("X-Filler", strings.Repeat("x", 1000))
			}
		}, false},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { stall(r) }, false},
		"204":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.answer)
			defer server.Close()
			begun := time.Now()
			err := delivered(t, senderTo(t, true), server.URL)
			if (err == nil) != c.delivered {
				t.Errorf("error %v", err)
			}
			if took := time.Since(begun); took > time.Minute { // far below what they would hold it for
				t.Errorf("took %s", took)
			}
		})
	}
	t.Cleanup(func() {
		if sink.Load() != 0 {
			t.Error("a redirect was followed")
		}
	})
}

func TestACertificateThatIsNotTrustedIsAFailure(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was called") }))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	if err := delivered(t, senderTo(t, true), server.URL); err == nil {
		t.Error("it was delivered")
	}
}

func TestADeliveryIDIsStable(t *testing.T) {
	const want = "32654b96-ea91-52ea-a30b-b06414ff04f3"
	id := deliveryID("0192f0c1-8a53-7c0e-9d7e-000000000001", "s1")
	if id != deliveryID("0192f0c1-8a53-7c0e-9d7e-000000000001", "s1") || id == deliveryID("0192f0c1-8a53-7c0e-9d7e-000000000001", "s2") {
		t.Errorf("ids are not by event and subscription")
	}
	if id != want {
		t.Errorf("the id is %s: partners would see a repeated delivery as a new one after an update", id)
	}
}

package opsclient_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"andes/adapters/opsclient"
	"andes/deadletters"
	"andes/eventstore"
)

func ask(t *testing.T, answer http.HandlerFunc) error {
	t.Helper()
	server := httptest.NewServer(answer)
	defer server.Close()
	client, err := opsclient.New(opsclient.Config{URL: server.URL + "/", Token: "very-secret", Transport: server.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Show(t.Context(), deadletters.Ref{Consumer: "oms", Partition: 1, Offset: 2})
	return err
}

func TestARefusalComesBackWithItsCode(t *testing.T) {
	err := ask(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ops/dlq/oms/letters/1/2" || r.Header.Get("Authorization") != "Bearer very-secret" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"code":"DLQ_LETTER_UNKNOWN","title":"t","detail":"it is gone","errors":[{"pointer":"/x","detail":"no"}]}`))
	})
	if eventstore.CodeOf(err) != deadletters.CodeLetterUnknown || !strings.Contains(err.Error(), "it is gone") || !strings.Contains(err.Error(), "/x no") {
		t.Error(err)
	}
}

func TestWhatIsNoAnswerOfTheAPIIsAnError(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a proxy's page": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) },
		"no JSON":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"half an answer": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"letter":`)) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.test/", http.StatusFound)
		},
		"nothing": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a fault of ours": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"code":"UNAVAILABLE","detail":"Kafka","correlationId":"c"}`, http.StatusServiceUnavailable)
		},
	} {
		err := ask(t, answer)
		if err == nil || eventstore.CodeOf(err) != "" || strings.Contains(err.Error(), "very-secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnAPIThatIsAwayIsToldWithTheWayAroundIt(t *testing.T) {
	client, err := opsclient.New(opsclient.Config{URL: "http://127.0.0.1:1", Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Stats(t.Context(), ""); !errors.Is(err, opsclient.ErrNoAnswer) || !strings.Contains(err.Error(), "--direct") {
		t.Error(err)
	}
	for _, address := range []string{"", "ops", "ftp://x", "http://"} {
		if _, err := opsclient.New(opsclient.Config{URL: address}); err == nil {
			t.Errorf("%q is taken for a URL", address)
		}
	}
}

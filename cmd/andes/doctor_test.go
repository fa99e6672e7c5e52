package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestTheDoctorLooksAtAndesItself(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
	}))
	at := server.Listener.Addr().String()
	if f := checkAndes(t.Context(), &settings{HTTPAddr: at}); f.remedy != "" {
		t.Errorf("ready: %+v", f)
	}
	status = http.StatusServiceUnavailable
	if f := checkAndes(t.Context(), &settings{HTTPAddr: at}); f.remedy == "" {
		t.Errorf("not ready: %+v", f)
	}
	server.Close()
	for _, address := range []string{at, "", "nowhere", "127.0.0.1:x"} {
		if f := checkAndes(t.Context(), &settings{HTTPAddr: address}); f.remedy == "" {
			t.Errorf("%q: %+v", address, f)
		}
	}
}

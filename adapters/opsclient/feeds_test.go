package opsclient_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"andes/adapters/opsclient"
)

func TestFeedsAreAskedForAsTheAPIHasThem(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.RequestURI()
		switch r.URL.Path {
		case "/ops/feeds":
			_, _ = w.Write([]byte(`{"items":[{"feed":"erp.prices","syncedAt":"2026-11-27T12:00:00Z","rejects":1},{"feed":"wms.stock","rejects":0}]}`))
		case "/ops/feeds/erp.prices/rejects":
			_, _ = w.Write([]byte(`{"items":[{"id":"retail|A","version":7,"code":"PRICE_NOT_POSITIVE","times":2}],"next":"retail|A"}`))
		default:
			var body struct {
				IDs    []string
				Reason string
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.IDs) != 2 || body.Reason != "mended" {
				t.Errorf("%+v, %v", body, err)
			}
			_, _ = w.Write([]byte(`{"count":1}`))
		}
	}))
	defer server.Close()
	client, err := opsclient.New(opsclient.Config{URL: server.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	standings, err := client.Standings(t.Context())
	if err != nil || len(standings) != 2 || standings[0].Rejects != 1 || standings[0].SyncedAt.IsZero() || !standings[1].SyncedAt.IsZero() {
		t.Errorf("%+v, %v", standings, err)
	}
	rejects, err := client.Rejects(t.Context(), "erp.prices", "a&b|c", 10)
	if err != nil || len(rejects) != 1 || rejects[0].ID != "retail|A" || rejects[0].Times != 2 || asked != "GET /ops/feeds/erp.prices/rejects?after=a%26b%7Cc&limit=10" {
		t.Errorf("%s: %+v, %v", asked, rejects, err)
	}
	count, err := client.Reread(t.Context(), "wms.stock", []string{"A", "B"}, "nobody", "mended")
	if err != nil || count != 1 || asked != "POST /ops/feeds/wms.stock/reread" {
		t.Errorf("%s: %d, %v", asked, count, err)
	}
	count, err = client.Discard(t.Context(), "wms.stock", []string{"A", "B"}, "nobody", "mended")
	if err != nil || count != 1 || asked != "POST /ops/feeds/wms.stock/discard" {
		t.Errorf("%s: %d, %v", asked, count, err)
	}
}

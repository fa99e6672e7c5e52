package opsclient_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"andes/adapters/opsclient"
)

// Field case STOCK-09.
func TestOversoldSKUsAreAskedForAsTheAPIHasThem(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.RequestURI()
		_, _ = w.Write([]byte(`{"items":[{"sku":"A/1","onHand":-2,"shipped":0,"reserved":5,"oversold":7,"levelAt":"2026-11-27T12:00:00Z",` +
			`"orders":[{"orderId":"o-1","quantity":5,"heldAt":"2026-11-27T12:00:00Z"}],"more":true}],"next":"A/1"}`))
	}))
	defer server.Close()
	client, err := opsclient.New(opsclient.Config{URL: server.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.Oversold(t.Context(), "A&0", 10)
	if err != nil || len(list) != 1 || asked != "GET /ops/stock/oversold?after=A%260&limit=10" {
		t.Fatalf("%s: %+v, %v", asked, list, err)
	}
	got := list[0]
	if got.SKU != "A/1" || got.OnHand != -2 || got.Oversold != 7 || got.LevelAt.IsZero() || !got.DoubtedAt.IsZero() || len(got.Orders) != 1 || got.Orders[0].OrderID != "o-1" || !got.More {
		t.Errorf("%+v", got)
	}
}

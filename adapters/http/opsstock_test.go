package httpapi

import (
	"context"
	"net/http"
	"testing"

	"andes/commands/stock"
)

// oversoldDesk has one SKU that is oversold.
type oversoldDesk struct{}

func (oversoldDesk) Oversold(_ context.Context, after string, limit int) ([]stock.Oversold, error) {
	if after >= "A/1" {
		return nil, nil
	}
	return []stock.Oversold{{
		SKU: "A/1", OnHand: -2, Reserved: 5, Oversold: 7, LevelAt: testStart, Orders: []stock.Holder{{OrderID: "o-1", Quantity: 5, HeldAt: testStart}},
	}}[:min(1, limit)], nil
}

// Field case STOCK-09.
func TestOperatorsSeeWhichSKUsAreOversoldAndTheirOrders(t *testing.T) {
	e := newEdge(t, func(c *Config) { c.StockDesk = oversoldDesk{} })
	const path = "/ops/stock/oversold"
	is(t, e.ask(http.MethodGet, path, ""), 403, CodeForbidden) // a partner
	got := e.ask(http.MethodGet, path, "", "Authorization", asViewer)
	e.holds(got, http.MethodGet, path)
	item := `{"items":[{"sku":"A/1","onHand":-2,"shipped":0,"reserved":5,"oversold":7,"levelAt":"2026-11-27T12:00:00Z",` +
		`"orders":[{"orderId":"o-1","quantity":5,"heldAt":"2026-11-27T12:00:00Z"}],"more":false}]`
	if want := item + `}`; got.body != want {
		t.Errorf("%s, want %s", got.body, want)
	}
	if got = e.ask(http.MethodGet, path+"?limit=1", "", "Authorization", asViewer); got.body != item+`,"next":"A/1"}` {
		t.Error(got.body)
	}
	if got = e.ask(http.MethodGet, path+"?after=A%2F1", "", "Authorization", asViewer); got.body != `{"items":[]}` {
		t.Error(got.body)
	}
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "limit=", "limit=1&limit=2", "after=", "after=A&after=B"} {
		is(t, e.ask(http.MethodGet, path+"?"+query, "", "Authorization", asViewer), 422, CodeParameterInvalid)
	}
	is(t, e.ask(http.MethodGet, path+"?sku=A", "", "Authorization", asViewer), 422, CodeParameterUnknown)
	is(t, e.ask(http.MethodGet, path+"?after=%00", "", "Authorization", asViewer), 422, CodeTextInvalid)
}

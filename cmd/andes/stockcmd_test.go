package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"andes/commands/stock"
	"andes/eventstore"
)

// oversoldSKUs is a desk with so many of them.
type oversoldSKUs int

func (n oversoldSKUs) Oversold(_ context.Context, after string, limit int) (page []stock.Oversold, err error) {
	if limit > oversoldPage {
		return nil, eventstore.Refuse("PARAMETER_INVALID", "too many")
	}
	for i := range int(n) {
		if sku := fmt.Sprintf("%05d", i); sku > after && len(page) < limit {
			page = append(page, stock.Oversold{SKU: sku})
		}
	}
	return page, nil
}

func TestOversoldSKUsAreListedUpToALimit(t *testing.T) {
	for limit, c := range map[int]struct {
		listed int
		more   bool
	}{1: {1, true}, 99: {99, true}, 100: {100, true}, 200: {200, true}, 249: {249, true}, 250: {250, false}, 900: {250, false}} {
		list, more, err := oversoldOf(t.Context(), oversoldSKUs(250), limit)
		if err != nil || len(list) != c.listed || more != c.more {
			t.Fatalf("up to %d: %d, more %t, %v; want %d, %t", limit, len(list), more, err, c.listed, c.more)
		}
		for i, each := range list {
			if each.SKU != fmt.Sprintf("%05d", i) {
				t.Fatalf("up to %d: not each once, in order", limit)
			}
		}
	}
	if list, more, err := oversoldOf(t.Context(), oversoldSKUs(0), 10); len(list) != 0 || more || err != nil {
		t.Errorf("of none: %v, %t, %v", list, more, err)
	}
}

// Field case STOCK-09.
func TestAnOversoldSKUIsPrintedWithItsOrders(t *testing.T) {
	at := time.Date(2026, 11, 30, 22, 41, 7, 0, time.UTC)
	one := stock.Oversold{SKU: "85123A", OnHand: -2, Reserved: 5, Oversold: 7, LevelAt: at}
	for i := range shownHolders + 1 {
		one.Orders = append(one.Orders, stock.Holder{OrderID: fmt.Sprint("o-", 9-i, "\x1b[2J"), Quantity: 1, HeldAt: at})
	}
	var out bytes.Buffer
	if err := printOversold(&out, "table", []stock.Oversold{one}, true); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"85123A", "-2 ", "5 ", "7 ", "2026-11-30T22:41:07.000Z", "o-9", "o-5", "--output json has more", "there are more"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.ContainsRune(text, '\x1b') || strings.Contains(text, "o-4") || strings.Count(text, "\n") != 3 {
		t.Errorf("%q", text)
	}
	out.Reset()
	if err := printOversold(&out, "json", []stock.Oversold{one}, true); err != nil || !strings.HasPrefix(out.String(), `{"sku":"85123A","onHand":-2,"shipped":0,"reserved":5,"oversold":7,"levelAt":"2026-11-30T22:41:07Z","orders":[{"orderId":"o-9`) {
		t.Errorf("%v %s", err, out.String())
	}
	out.Reset()
	if err := printOversold(&out, "table", nil, false); err != nil || out.String() != "no SKU is oversold\n" {
		t.Errorf("%v %q", err, out.String())
	}
	for line, good := range map[string]bool{"stock oversold": true, "stock oversold --output json --limit 5 --direct": true, "stock": false, "stock oversold A": false, "stock oversold --output yaml": false} {
		if _, err := newParser(&cli{}).Parse(strings.Fields(line)); (err == nil) != good {
			t.Errorf("andes %s: %v", line, err)
		}
	}
}

package queries_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"andes/commands/order"
	"andes/queries"
)

// orderBook lists orders by position, as the store does, and counts how often it is asked.
type orderBook struct {
	list  []queries.OrderAt
	calls int
	fault error
}

func (b *orderBook) Order(_ context.Context, id string) (order.State, bool, error) {
	for _, each := range b.list {
		if each.ID == id {
			return each.State, true, b.fault
		}
	}
	return order.State{}, false, b.fault
}

func (b *orderBook) OrdersOf(_ context.Context, partner string, after int64, limit int) ([]queries.OrderAt, error) {
	b.calls++
	var found []queries.OrderAt
	for _, each := range b.list {
		if each.Partner == partner && each.Position > after && len(found) < limit {
			found = append(found, each)
		}
	}
	return found, b.fault
}

// bookOf has one order a minute, at positions with gaps.
func bookOf(orders int) *orderBook {
	b := &orderBook{}
	for i := range orders {
		state := order.State{ID: fmt.Sprint(i), Partner: "acme", UpdatedAt: now.Add(time.Duration(i) * time.Minute)}
		b.list = append(b.list, queries.OrderAt{State: state, Position: int64(i*i + 10)})
	}
	return b
}

func TestAnotherPartnersOrderIsNotThere(t *testing.T) {
	b := bookOf(1)
	if _, known, err := queries.Order(t.Context(), b, "acme", "0"); !known || err != nil {
		t.Errorf("known %t, %v", known, err)
	}
	for _, asked := range [][2]string{{"other", "0"}, {"acme", "1"}, {"", "0"}} {
		if state, known, err := queries.Order(t.Context(), b, asked[0], asked[1]); known || err != nil || state.ID != "" {
			t.Errorf("%v: %+v, known %t, %v", asked, state, known, err)
		}
	}
	b.fault = errAway
	if _, known, err := queries.Order(t.Context(), b, "acme", "0"); known || !errors.Is(err, errAway) {
		t.Errorf("known %t, %v", known, err)
	}
}

func TestAListSinceATimeBeginsThereWithoutAWalk(t *testing.T) {
	const orders = 3000
	b := bookOf(orders)
	for _, first := range []int{0, 1, 17, orders / 2, orders - 1, orders} {
		b.calls = 0
		cursor, err := queries.OrdersSince(t.Context(), b, "acme", now.Add(time.Duration(first)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		page, err := queries.OrdersPage(t.Context(), b, "acme", cursor, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Orders) != min(10, orders-first) || first < orders && page.Orders[0].ID != fmt.Sprint(first) {
			t.Errorf("from %d: %d orders", first, len(page.Orders))
		}
		if b.calls > 70 {
			t.Errorf("from %d: asked %d times", first, b.calls)
		}
	}
}

func TestClocksThatDifferALittleHideNothing(t *testing.T) {
	b := bookOf(100)
	b.list[50].UpdatedAt = b.list[51].UpdatedAt.Add(3 * time.Second) // recorded by an instance that is ahead
	cursor, err := queries.OrdersSince(t.Context(), b, "acme", b.list[51].UpdatedAt.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	page, err := queries.OrdersPage(t.Context(), b, "acme", cursor, 1)
	if err != nil || page.Orders[0].ID != "50" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestPagesCoverEveryOrderOnce(t *testing.T) {
	b := bookOf(95)
	var seen []string
	at := queries.Cursor{}
	for {
		page, err := queries.OrdersPage(t.Context(), b, "acme", at, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, each := range page.Orders {
			seen = append(seen, each.ID)
		}
		next, err := queries.ParseCursor(page.Next.Encode())
		if err != nil || next != page.Next {
			t.Fatalf("%+v became %+v, %v", page.Next, next, err)
		}
		if at = next; !page.More {
			break
		}
	}
	for i, id := range seen {
		if id != fmt.Sprint(i) {
			t.Fatalf("order %s at place %d", id, i)
		}
	}
	if len(seen) != 95 {
		t.Errorf("%d orders", len(seen))
	}
}

func TestAPageLooksAtABoundedNumberOfOrders(t *testing.T) {
	b := bookOf(5000)
	page, err := queries.OrdersPage(t.Context(), b, "acme", queries.Cursor{Since: now.Add(24 * 365 * time.Hour)}, 200)
	if err != nil || len(page.Orders) != 0 || !page.More || page.Next.After == 0 || b.calls > 10 {
		t.Errorf("%+v, %v after %d calls", page, err, b.calls)
	}
}

func TestACursorThatNobodyGaveIsRefused(t *testing.T) {
	encoded := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, text := range []string{"", "x", "====", encoded("1.2"), encoded("2.0.0"), encoded("1.-1.0"), encoded("1.0.-1"), encoded("1.99999999999999999999.0"), encoded("1.0.0.0"), encoded("1.+.0")} {
		if cursor, err := queries.ParseCursor(text); !errors.Is(err, queries.ErrCursor) {
			t.Errorf("%q: %+v, %v", text, cursor, err)
		}
	}
}

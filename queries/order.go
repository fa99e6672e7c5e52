package queries

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"andes/commands/order"
)

// Order gives the partner's order. Another partner's order is not there, just like an unknown one.
func Order(ctx context.Context, orders Orders, partnerID, id string) (order.State, bool, error) {
	state, known, err := orders.Order(ctx, id)
	if err != nil || !known || state.Partner != partnerID {
		return order.State{}, false, err
	}
	return state, true, nil
}

// Cursor is a place in a partner's orders, which are listed by their last change. What changed after a
// page was read comes again on a later one, so whoever follows the cursor misses nothing.
type Cursor struct {
	After int64     // position
	Since time.Time // orders changed before are left out; zero: none
}

// ErrCursor refuses a cursor that Encode did not make.
var ErrCursor = errors.New("not a cursor of this list")

// cursorVersion allows another content later.
const cursorVersion = "1"

// maxCursor bounds a cursor's text.
const maxCursor = 100

// Encode gives the cursor as an opaque text.
func (c Cursor) Encode() string {
	since := int64(0)
	if !c.Since.IsZero() {
		since = c.Since.UnixMilli()
	}
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s.%d.%d", cursorVersion, c.After, since))
}

// ParseCursor is the inverse of Encode.
func ParseCursor(text string) (Cursor, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(text) > maxCursor {
		return Cursor{}, ErrCursor
	}
	parts := strings.Split(string(data), ".")
	if len(parts) != 3 || parts[0] != cursorVersion {
		return Cursor{}, ErrCursor
	}
	after, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || after < 0 {
		return Cursor{}, ErrCursor
	}
	since, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || since < 0 {
		return Cursor{}, ErrCursor
	}
	cursor := Cursor{After: after}
	if since > 0 {
		cursor.Since = time.UnixMilli(since).UTC()
	}
	return cursor, nil
}

// OrderPage is a part of a partner's orders, oldest change first.
type OrderPage struct {
	Orders []order.State
	Next   Cursor // where to go on, also from the last page, when there is more to read one day
	More   bool   // there is more now
}

// clockSkew is how much the clocks of the instances that recorded the changes may differ.
const clockSkew = 5 * time.Second

// OrdersSince begins a list at the first order changed at or after since.
func OrdersSince(ctx context.Context, orders Orders, partnerID string, since time.Time) (Cursor, error) {
	since = since.Truncate(time.Millisecond)
	if since.UnixMilli() <= 0 {
		return Cursor{}, nil
	}
	// Orders are listed by position, and positions grow with time: a binary search over positions, one
	// look-up each, instead of a walk over all that is older.
	from := since.Add(-clockSkew)
	low, high := int64(0), int64(math.MaxInt64)
	for low < high {
		middle := low + (high-low)/2
		next, err := orders.OrdersOf(ctx, partnerID, middle, 1)
		if err != nil {
			return Cursor{}, err
		}
		if len(next) == 0 || !next[0].UpdatedAt.Before(from) {
			high = middle
		} else {
			low = next[0].Position
		}
	}
	return Cursor{After: low, Since: since}, nil
}

// maxScanned bounds how many orders one page looks at.
const maxScanned = 1000

// OrdersPage lists the partner's orders after the cursor. A page may be shorter than limit although
// there is more.
func OrdersPage(ctx context.Context, orders Orders, partnerID string, at Cursor, limit int) (OrderPage, error) {
	page := OrderPage{Next: at}
	for scanned := 0; scanned < maxScanned && len(page.Orders) < limit; {
		asked := limit - len(page.Orders)
		found, err := orders.OrdersOf(ctx, partnerID, page.Next.After, asked)
		if err != nil {
			return OrderPage{}, err
		}
		for _, each := range found {
			page.Next.After = each.Position
			if !each.UpdatedAt.Before(at.Since) {
				page.Orders = append(page.Orders, each.State)
			}
		}
		scanned += len(found)
		if page.More = len(found) == asked; !page.More {
			break
		}
	}
	return page, nil
}

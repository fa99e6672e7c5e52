package opsclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"andes/commands/stock"
)

// Oversold lists the SKUs of which orders hold more units than there are, after one.
func (c *Client) Oversold(ctx context.Context, after string, limit int) ([]stock.Oversold, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	set(query, "after", after)
	var answer struct{ Items []stock.Oversold }
	err := c.call(ctx, http.MethodGet, "/ops/stock/oversold", query, nil, &answer)
	return answer.Items, err
}

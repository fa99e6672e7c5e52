package opsclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"andes/polling"
)

// Standings tells how the legacy systems' feeds stand.
func (c *Client) Standings(ctx context.Context) ([]polling.FeedStanding, error) {
	var answer struct{ Items []polling.FeedStanding }
	err := c.call(ctx, http.MethodGet, "/ops/feeds", nil, nil, &answer)
	return answer.Items, err
}

// Rejects lists records of a feed that can't be used, by their ids after one.
func (c *Client) Rejects(ctx context.Context, feed, after string, limit int) ([]polling.Rejected, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	set(query, "after", after)
	var answer struct{ Items []polling.Rejected }
	err := c.call(ctx, http.MethodGet, "/ops/feeds/"+url.PathEscape(feed)+"/rejects", query, nil, &answer)
	return answer.Items, err
}

// Reread has records of a feed read once more. Who asks for it is known by the token.
func (c *Client) Reread(ctx context.Context, feed string, ids []string, _, reason string) (count int, err error) {
	return c.records(ctx, feed, "reread", ids, reason)
}

// Discard strikes records of a feed out. Who asks for it is known by the token.
func (c *Client) Discard(ctx context.Context, feed string, ids []string, _, reason string) (count int, err error) {
	return c.records(ctx, feed, "discard", ids, reason)
}

func (c *Client) records(ctx context.Context, feed, action string, ids []string, reason string) (count int, err error) {
	body := struct {
		IDs    []string `json:"ids"`
		Reason string   `json:"reason"`
	}{ids, reason}
	var answer struct{ Count int }
	err = c.call(ctx, http.MethodPost, "/ops/feeds/"+url.PathEscape(feed)+"/"+action, nil, body, &answer)
	return answer.Count, err
}

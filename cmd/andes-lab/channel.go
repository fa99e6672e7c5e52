package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"andes/test/lab/retail"
)

const (
	maxSKUsPerRead = 100
	maxTries       = 6
	firstPause     = 200 * time.Millisecond
	maxPause       = 5 * time.Second
)

// channel is a sales channel: one partner's calls to the platform. Like a
// careful partner it repeats what got no answer, with the same key.
type channel struct {
	base    string
	partner string
	journal *journal
	plain   *caller // without a token

	mu    sync.Mutex
	token string
}

func openChannel(ctx context.Context, base, partner string, j *journal) (*channel, error) {
	c := &channel{base: base, partner: partner, journal: j, plain: newCaller(base, "")}
	if _, err := c.renew(ctx, ""); err != nil {
		return nil, err
	}
	return c, nil
}

// renew gets a token unless another caller has replaced the old one already.
func (c *channel) renew(ctx context.Context, old string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != old {
		return c.token, nil
	}
	var got struct {
		AccessToken string `json:"access_token"`
	}
	body := map[string]any{"partner_id": c.partner, "roles": []string{}}
	if err := c.plain.into(ctx, http.MethodPost, "/dev/token", body, &got); err != nil {
		return "", fmt.Errorf("token of partner %s: %w", c.partner, err)
	}
	c.token = got.AccessToken
	return c.token, nil
}

// call repeats what may be repeated, within bounds, and returns the last
// answer. Every answer is timed under the kind given ("": not at all).
func (c *channel) call(ctx context.Context, kind, method, path string, body any, headers ...string) (answer, error) {
	token, err := c.renew(ctx, "")
	if err != nil {
		return answer{}, err
	}
	var got answer
	pause := firstPause
	for range maxTries {
		got, err = newCaller(c.base, token).call(ctx, method, path, body, headers...)
		c.journal.answered(kind, method, path, got, err)
		wait := pause
		switch {
		case ctx.Err() != nil:
			return got, ctx.Err()
		case err != nil:
		case got.status == http.StatusUnauthorized:
			if token, err = c.renew(ctx, token); err != nil {
				return got, err
			}
			wait = 0
		case got.status == http.StatusTooManyRequests, got.status >= 500, got.problem().Code == "REQUEST_IN_PROGRESS":
			wait = retryAfter(got.header, pause)
		default:
			return got, nil
		}
		if !sleep(ctx, wait) {
			return got, ctx.Err()
		}
		pause = min(2*pause, maxPause)
	}
	return got, err
}

func retryAfter(header http.Header, otherwise time.Duration) time.Duration {
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil && seconds > 0 {
		return min(time.Duration(seconds)*time.Second, maxPause)
	}
	return otherwise
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// into makes a call that has to succeed.
func (c *channel) into(ctx context.Context, method, path string, body, v any, headers ...string) error {
	got, err := c.call(ctx, "", method, path, body, headers...)
	if err != nil {
		return err
	}
	return got.into(method, path, v)
}

func (a answer) into(method, path string, v any) error {
	if a.status/100 != 2 {
		return fmt.Errorf("%s %s: %d %.300s", method, path, a.status, a.body)
	}
	if v == nil || len(a.body) == 0 {
		return nil
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// problem is a refusal's document.
type problem struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Title  string `json:"title"`
	Errors []struct {
		Pointer string `json:"pointer"`
		Code    string `json:"code"`
		Detail  string `json:"detail"`
	} `json:"errors"`
}

func (a answer) problem() problem {
	var p problem
	if a.status < 400 || json.Unmarshal(a.body, &p) != nil {
		return problem{}
	}
	return p
}

// why says in a few words what was refused.
func (p problem) why() string {
	if len(p.Errors) > 0 {
		e := p.Errors[0]
		return strings.TrimSpace(e.Pointer + " " + e.Detail)
	}
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// amountText reads a price written as text or as {amount, currency}.
type amountText string

func (a *amountText) UnmarshalJSON(text []byte) error {
	var plain string
	if json.Unmarshal(text, &plain) == nil {
		*a = amountText(plain)
		return nil
	}
	var pair struct {
		Amount string `json:"amount"`
	}
	if err := json.Unmarshal(text, &pair); err != nil {
		return fmt.Errorf("price: %w", err)
	}
	*a = amountText(pair.Amount)
	return nil
}

type stockAnswer struct {
	Items []struct {
		SKU       string `json:"sku"`
		Available int64  `json:"available"`
		Stale     bool   `json:"stale"`
	} `json:"items"`
	NotFound []string `json:"notFound"`
}

type priceAnswer struct {
	Items []struct {
		SKU      string     `json:"sku"`
		Price    amountText `json:"price"`
		Currency string     `json:"currency"`
		Stale    bool       `json:"stale"`
	} `json:"items"`
	NotFound []string `json:"notFound"`
}

func readPath(what string, skus []string) string {
	return "/v1/" + what + "?" + url.Values{"sku": skus}.Encode()
}

// stock asks for what is available; kind is as in call.
func (c *channel) stock(ctx context.Context, kind string, skus []string) (map[string]int64, error) {
	out := map[string]int64{}
	for chunk := range chunks(skus, maxSKUsPerRead) {
		path := readPath("stock", chunk)
		got, err := c.call(ctx, kind, http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		var page stockAnswer
		if err := got.into(http.MethodGet, "/v1/stock", &page); err != nil {
			return nil, err
		}
		if len(page.Items)+len(page.NotFound) != len(chunk) {
			c.journal.broken("GET /v1/stock: %d of %d SKUs answered", len(page.Items)+len(page.NotFound), len(chunk))
		}
		for _, item := range page.Items {
			out[item.SKU] = item.Available
			c.journal.read(item.Stale)
		}
	}
	return out, nil
}

// prices asks for the channel's prices.
func (c *channel) prices(ctx context.Context, kind string, skus []string) (map[string]string, error) {
	out := map[string]string{}
	for chunk := range chunks(skus, maxSKUsPerRead) {
		path := readPath("prices", chunk)
		got, err := c.call(ctx, kind, http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		var page priceAnswer
		if err := got.into(http.MethodGet, "/v1/prices", &page); err != nil {
			return nil, err
		}
		if len(page.Items)+len(page.NotFound) != len(chunk) {
			c.journal.broken("GET /v1/prices: %d of %d SKUs answered", len(page.Items)+len(page.NotFound), len(chunk))
		}
		for _, item := range page.Items {
			out[item.SKU] = string(item.Price)
			c.journal.read(item.Stale)
		}
	}
	return out, nil
}

func chunks(skus []string, n int) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for len(skus) > 0 {
			size := min(n, len(skus))
			if !yield(skus[:size]) {
				return
			}
			skus = skus[size:]
		}
	}
}

// missing says what of the catalogue the platform does not show yet.
func (c *channel) missing(ctx context.Context, levels []retail.StockLevel, priced []string) string {
	skus := make([]string, 0, len(levels))
	for _, l := range levels {
		skus = append(skus, l.SKU)
	}
	available, errStock := c.stock(ctx, "", skus)
	prices, errPrices := c.prices(ctx, "", priced)
	if err := errors.Join(errStock, errPrices); err != nil {
		return err.Error()
	}
	for _, l := range levels {
		if n, known := available[l.SKU]; !known || n != l.OnHand {
			return fmt.Sprintf("%d of %s can be ordered, %d are on hand; orders of an earlier run may hold some", n, l.SKU, l.OnHand)
		}
	}
	for _, sku := range priced {
		if prices[sku] == "" {
			return "price of " + sku
		}
	}
	return ""
}

// unsubscribe ends the partner's subscriptions to a URL, as far as it can.
func (c *channel) unsubscribe(ctx context.Context, url string) {
	var page struct {
		Items []struct {
			ID  string `json:"id"`
			URL string `json:"url"`
		} `json:"items"`
	}
	if c.into(ctx, http.MethodGet, "/v1/subscriptions", nil, &page) != nil {
		return
	}
	for _, s := range page.Items {
		if s.URL == url {
			_ = c.into(ctx, http.MethodDelete, "/v1/subscriptions/"+s.ID, nil, nil)
		}
	}
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	return word
}

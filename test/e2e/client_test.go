package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func unmarshal(data []byte, into any) error { return json.Unmarshal(data, into) }

// client is a partner, or an operator.
type client struct {
	scene   *scene
	address string
	token   string
	http    *http.Client
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) code() string {
	var problem struct{ Code string }
	_ = json.Unmarshal(a.body, &problem)
	return problem.Code
}

func (s *scene) clientOf(address, partner string, roles ...string) *client {
	s.t.Helper()
	c := &client{scene: s, address: address, http: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
	s.t.Cleanup(c.http.CloseIdleConnections)
	var granted struct {
		AccessToken string `json:"access_token"`
	}
	c.must(http.StatusOK, http.MethodPost, "/dev/token", map[string]any{"partner_id": partner, "roles": append([]string{}, roles...)}, &granted)
	c.token = granted.AccessToken
	return c
}

// newPartner sets a partner up and gives its client.
func (s *scene) newPartner(id string) *client {
	s.t.Helper()
	address := s.instances[0].address
	operator := s.clientOf(address, "operator", "ops-admin")
	operator.must(http.StatusOK, http.MethodPut, "/ops/partners/"+id, map[string]any{
		"name": "Partner " + id, "tier": "gold", "policy": map[string]any{"priceList": "retail", "currency": "GBP"},
	}, nil)
	return s.clientOf(address, id)
}

// on is the same partner at another instance.
func (c *client) on(i *instance) *client { return c.at(i.address) }

func (c *client) at(address string) *client {
	other := *c
	other.address = address
	return &other
}

func (c *client) do(method, path string, body any, headers ...string) (answer, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, "http://"+c.address+path, content)
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, text}, err
}

func (c *client) must(status int, method, path string, body, into any, headers ...string) answer {
	c.scene.t.Helper()
	got, err := c.do(method, path, body, headers...)
	if err != nil || got.status != status {
		c.scene.t.Fatalf("%s %s: %d %s %v, want %d", method, path, got.status, got.body, err, status)
	}
	if into != nil {
		if err := json.Unmarshal(got.body, into); err != nil {
			c.scene.t.Fatalf("%s %s: %v: %s", method, path, err, got.body)
		}
	}
	return got
}

// line of an order.
type line struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

func orderBody(token string, lines ...line) map[string]any {
	return map[string]any{"currency": "GBP", "lines": lines, "payment": map[string]string{"token": token}}
}

// placed is an order as it is answered.
type placed struct {
	OrderID string `json:"orderId"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	OMSSync string `json:"omsSync"`
}

// order places one order that has to be accepted.
func (c *client) order(token string, lines ...line) placed {
	c.scene.t.Helper()
	var p placed
	c.must(http.StatusAccepted, http.MethodPost, "/v1/orders", orderBody(token, lines...), &p, "Idempotency-Key", uuid.NewString())
	c.scene.acknowledged(p.OrderID)
	return p
}

func (s *scene) acknowledged(orderID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted[orderID] = true
}

func (c *client) get(orderID string) (placed, error) {
	var p placed
	got, err := c.do(http.MethodGet, "/v1/orders/"+orderID, nil)
	if err != nil {
		return p, err
	}
	if got.status != http.StatusOK {
		return p, fmt.Errorf("GET order: %d %s", got.status, got.body)
	}
	return p, json.Unmarshal(got.body, &p)
}

// await waits until the order has a status.
func (c *client) await(orderID, status string) placed {
	c.scene.t.Helper()
	var last placed
	c.scene.eventually("order "+orderID+" is "+status, func() (err error) {
		if last, err = c.get(orderID); err == nil && last.Status != status {
			err = fmt.Errorf("it is %s %s", last.Status, last.Reason)
		}
		return err
	})
	return last
}

// available asks for a SKU's stock.
func (c *client) available(sku string) (int64, error) {
	var page struct {
		Items []struct {
			Available int64
			Stale     bool
		}
	}
	got, err := c.do(http.MethodGet, "/v1/stock?sku="+url.QueryEscape(sku), nil)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(got.body, &page); err != nil || len(page.Items) != 1 {
		return 0, fmt.Errorf("stock of %s: %d %s", sku, got.status, got.body)
	}
	return page.Items[0].Available, nil
}

func (c *client) awaitAvailable(sku string, want int64) {
	c.scene.t.Helper()
	c.scene.eventually(fmt.Sprintf("%d of %s available", want, sku), func() error {
		got, err := c.available(sku)
		if err == nil && got != want {
			err = fmt.Errorf("%d are available", got)
		}
		return err
	})
}

// awaitStock waits until everything that the legacy systems have can be ordered.
func (s *scene) awaitStock(o options) {
	s.t.Helper()
	if o.stock == nil {
		o.stock = map[string]int64{"A": 1000, "B": 1000, "C/1 x": 1000}
	}
	for sku, onHand := range o.stock {
		s.partner.awaitAvailable(sku, onHand)
		s.eventually("price of "+sku, func() error {
			got, err := s.partner.do(http.MethodGet, "/v1/prices?sku="+url.QueryEscape(sku), nil)
			if err == nil && !bytes.Contains(got.body, []byte(`"2.55"`)) {
				err = fmt.Errorf("%d %s", got.status, got.body)
			}
			return err
		})
	}
}

// underWay counts the orders and fulfilments that have not come to their end.
const underWay = `SELECT count(*) FROM states WHERE NOT key = ANY ($1) AND (
	category = 'order' AND state ->> 'status' NOT IN ('DELIVERED', 'CANCELLED') OR
	category = 'fulfilment' AND state ->> 'phase' NOT IN ('COMPLETED', 'CLOSED'))`

// settle waits until no acknowledged order is under way any more.
func (s *scene) settle() {
	if s.t.Failed() || s.partner == nil {
		return
	}
	s.eventually("no order is under way", func() error {
		if open := s.count(underWay, append([]string{}, s.stayOpen...)); open > 0 {
			return fmt.Errorf("%d are", open)
		}
		return nil
	})
}

func dropSchema(ctx context.Context, address, schema string) error {
	db, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	return errors.Join(err, db.Close(ctx))
}

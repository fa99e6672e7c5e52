package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"andes/test/lab/gateway"
	"andes/test/lab/oms"
)

// client is a partner, or an operator.
type client struct {
	scene   *scene
	address string // of everything, but for what is only read
	reads   string
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

// callTimeout is above the platform's own limits.
const callTimeout = 20 * time.Second

func (s *scene) clientOf(partner string, roles ...string) *client {
	s.t.Helper()
	c := &client{
		scene: s, address: s.front.address(), reads: s.reads.address(),
		http: &http.Client{Timeout: callTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 128}},
	}
	s.t.Cleanup(c.http.CloseIdleConnections)
	var granted struct {
		AccessToken string `json:"access_token"`
	}
	c.must(http.StatusOK, http.MethodPost, "/dev/token", map[string]any{"partner_id": partner, "roles": append([]string{}, roles...)}, &granted)
	c.token = granted.AccessToken
	s.secret(c.token)
	return c
}

// newPartner sets a partner up and gives its client.
func (s *scene) newPartner(id string) *client {
	s.t.Helper()
	operator := s.clientOf("operator", "ops-admin")
	operator.must(http.StatusOK, http.MethodPut, "/ops/partners/"+id, map[string]any{
		"name": "Partner " + id, "tier": "gold", "policy": map[string]any{"priceList": "retail", "currency": "GBP"},
	}, nil)
	return s.clientOf(id)
}

// on is the same partner at one instance.
func (c *client) on(i *instance) *client {
	other := *c
	other.address, other.reads = i.address, i.address
	return &other
}

// raw is a body that is sent as it is.
type raw string

func (c *client) do(method, path string, body any, headers ...string) (answer, error) {
	var content io.Reader
	if text, is := body.(raw); is {
		content = strings.NewReader(string(text))
	} else if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		content = bytes.NewReader(text)
	}
	address := c.address
	if method == http.MethodGet && strings.HasPrefix(path, "/v1/") {
		address = c.reads
	}
	request, err := http.NewRequest(method, "http://"+address+path, content)
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

var errNothingDone = errors.New("nothing was done")

// must expects a status. As callers do, it asks again when it is told that nothing was done, which a machine that has too
// much to do may be the cause of.
func (c *client) must(status int, method, path string, body, into any, headers ...string) answer {
	c.scene.t.Helper()
	var got answer
	var err error
	_ = c.scene.waitFor(func() error {
		if got, err = c.do(method, path, body, headers...); err == nil && got.status == http.StatusServiceUnavailable && got.status != status {
			return errNothingDone
		}
		return nil
	})
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
	Total   struct{ Amount string }
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
func (s *scene) awaitStock() {
	s.t.Helper()
	for sku, onHand := range s.stock {
		s.partner.awaitAvailable(sku, onHand)
		s.eventually("product "+sku, func() error {
			got, err := s.partner.do(http.MethodGet, "/v1/products/"+url.PathEscape(sku), nil)
			if err == nil && got.status != http.StatusOK {
				err = fmt.Errorf("%d %s", got.status, got.body)
			}
			return err
		})
		s.eventually("price of "+sku, func() error {
			got, err := s.partner.do(http.MethodGet, "/v1/prices?sku="+url.QueryEscape(sku), nil)
			if err == nil && !bytes.Contains(got.body, []byte(`"2.55"`)) {
				err = fmt.Errorf("%d %s", got.status, got.body)
			}
			return err
		})
	}
}

// tells waits until the partner was told exactly these types of an order, each id once.
func (s *scene) tells(orderID string, types ...string) {
	s.t.Helper()
	want := slices.Sorted(slices.Values(types))
	s.eventually("webhooks of order "+orderID, func() error {
		deliveries, _ := s.lab.Receiver.DeliveriesAfter(0, deliveriesPage)
		var told []string
		ids := map[string]bool{}
		for _, delivery := range deliveries {
			if delivery.OrderID == orderID && !ids[delivery.ID] {
				ids[delivery.ID] = true
				told = append(told, delivery.Type)
			}
		}
		if slices.Sort(told); !slices.Equal(told, want) {
			return fmt.Errorf("told %v, want %v", told, want)
		}
		return nil
	})
}

// turnGateway changes the payment gateway's behaviour.
func (s *scene) turnGateway(change func(*gateway.Knobs)) {
	s.t.Helper()
	if err := s.lab.Payment.Turn(change); err != nil {
		s.t.Fatal(err)
	}
}

// turnOMS changes the order registry's behaviour.
func (s *scene) turnOMS(change func(*oms.Knobs)) {
	s.t.Helper()
	if err := s.lab.OMS.Turn(change); err != nil {
		s.t.Fatal(err)
	}
}

// charged tells whether the gateway has the order's charge.
func (s *scene) charged(orderID string) error {
	if sums, charged := s.lab.Payment.Order(orderID); !charged {
		return fmt.Errorf("%+v", sums)
	}
	return nil
}

// awaitRefund waits until all that was taken for the order is given back.
func (s *scene) awaitRefund(orderID string) {
	s.t.Helper()
	s.eventually("the money of "+orderID+" is given back", func() error {
		if sums, _ := s.lab.Payment.Order(orderID); sums.Approved == "0.00" || sums.Refunded != sums.Approved || sums.Refunds != 1 {
			return fmt.Errorf("%+v", sums)
		}
		return nil
	})
}

const webhookPath = "/v1/payment-webhooks/generic"

// reportOf is a body as the gateway sends it.
func reportOf(kind, orderID, chargeID, amount string) map[string]any {
	return map[string]any{"type": kind, "data": map[string]string{"orderId": orderID, "chargeId": chargeID, "amount": amount, "currency": "GBP"}}
}

// report sends a webhook of the gateway, signed so many seconds from now.
func (s *scene) report(body any, secret string, seconds int) (answer, error) {
	return s.signed(body, body, secret, time.Now().Add(time.Duration(seconds)*time.Second))
}

// reportAs sends a body with the signature of another one.
func (s *scene) reportAs(body, signed any) (answer, error) {
	return s.signed(body, signed, gatewaySecret, time.Now())
}

func (s *scene) signed(body, signed any, secret string, at time.Time) (answer, error) {
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return answer{}, err
	}
	text, err := json.Marshal(signed)
	if err != nil {
		return answer{}, err
	}
	id := "msg_" + uuid.NewString()
	signature, err := signer.Sign(id, at, text)
	if err != nil {
		return answer{}, err
	}
	return s.partner.do(http.MethodPost, webhookPath, body,
		standardwebhooks.HeaderWebhookID, id, standardwebhooks.HeaderWebhookTimestamp, fmt.Sprint(at.Unix()),
		standardwebhooks.HeaderWebhookSignature, signature)
}

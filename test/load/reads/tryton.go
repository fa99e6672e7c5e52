package reads

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"andes/test/load"
)

// Tryton is a real ERP that is also the WMS. It is read from, and never broken.
type Tryton struct {
	URL      string
	Database string
	User     string
	Password string
}

// trytonDoor counts the calls of a Tryton that both sides share; they play one after the other.
type trytonDoor struct{ entry *door }

var errOnlyRead = errors.New("a Tryton is only read from")

func (d *trytonDoor) doors() map[string]*door            { return map[string]*door{"erp": d.entry} }
func (d *trytonDoor) well() error                        { return nil }
func (d *trytonDoor) slow() error                        { return errOnlyRead }
func (d *trytonDoor) down() error                        { return errOnlyRead }
func (d *trytonDoor) change(string, int64, string) error { return errOnlyRead }
func (d *trytonDoor) close()                             { d.entry.close() }

// maxTrytonSKUs bounds what is read of its catalogue.
const maxTrytonSKUs = 1000

// buildTryton puts a counting door before Tryton for each side, and takes its catalogue for the right answers.
func (l *lab) buildTryton(ctx context.Context, asIs, toBe *side) (settings []string, err error) {
	target, err := url.Parse(l.o.Tryton.URL)
	if err != nil {
		return nil, err
	}
	for _, s := range []*side{asIs, toBe} {
		proxy := &httputil.ReverseProxy{
			Transport: &http.Transport{MaxIdleConnsPerHost: load.MaxWorkers},
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			// Whoever asked has gone, or Tryton has: the channel sees it.
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		}
		entry, err := openDoor(ctx, proxy)
		if err != nil {
			return nil, err
		}
		s.behind = &trytonDoor{entry}
	}
	door := asIs.behind.doors()["erp"].URL
	session, err := l.o.Tryton.login(ctx)
	if err != nil {
		return nil, fmt.Errorf("log in to Tryton: %w", err)
	}
	if l.catalogue, err = session.catalogue(ctx); err != nil {
		return nil, fmt.Errorf("catalogue of Tryton: %w", err)
	}
	asIs.reader = session.reader(door, l.catalogue)
	return []string{
		"ANDES_ERP_KIND=tryton", "ANDES_WMS_KIND=tryton",
		"ANDES_ERP_URL=" + toBe.behind.doors()["erp"].URL, "ANDES_WMS_URL=" + toBe.behind.doors()["erp"].URL,
		"ANDES_TRYTON_DATABASE=" + l.o.Tryton.Database, "ANDES_TRYTON_USER=" + l.o.Tryton.User, "ANDES_TRYTON_PASSWORD=" + l.o.Tryton.Password,
	}, nil
}

// session is a user's.
type session struct {
	tryton        *Tryton
	authorization string
	warehouses    []int64
}

func (t *Tryton) login(ctx context.Context) (*session, error) {
	s := &session{tryton: t}
	var opened []json.RawMessage
	if err := s.call(ctx, "common.db.login", []any{t.User, map[string]string{"password": t.Password}, "en"}, &opened); err != nil {
		return nil, err
	}
	const idAndToken = 2
	var token string
	if len(opened) < idAndToken || json.Unmarshal(opened[1], &token) != nil {
		return nil, errors.New("refused")
	}
	s.authorization = "Session " + base64.StdEncoding.EncodeToString([]byte(t.User+":"+string(opened[0])+":"+token))
	return s, s.call(ctx, "model.stock.location.search", []any{[]any{[]any{"type", "=", "warehouse"}}, 0, 100, nil, s.company()}, &s.warehouses)
}

func (s *session) company() map[string]any { return map[string]any{"company": 1} }

// onHand is the context in which quantities are known.
func (s *session) onHand() map[string]any {
	now := time.Now().UTC()
	return map[string]any{
		"company": 1, "locations": s.warehouses, "with_childs": true,
		"stock_date_end": map[string]any{"__class__": "date", "year": now.Year(), "month": int(now.Month()), "day": now.Day()},
	}
}

func (s *session) path() string { return "/" + s.tryton.Database + "/" }

func body(method string, params []any) ([]byte, error) {
	return json.Marshal(map[string]any{"id": 1, "method": method, "params": params})
}

func (s *session) call(ctx context.Context, method string, params []any, into any) error {
	content, err := body(method, params)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.tryton.URL+s.path(), bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", s.authorization)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return err
	}
	return result(text, into)
}

// result: Tryton tells its errors with status 200.
func result(text []byte, into any) error {
	var got struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	if got.Error != nil {
		return fmt.Errorf("%.200s", got.Error)
	}
	return json.Unmarshal(got.Result, into)
}

// variant is what is read of a product.
type variant struct {
	Code     string  `json:"code"`
	Quantity float64 `json:"quantity"`
	Price    struct {
		Decimal string `json:"decimal"`
	} `json:"list_price"`
}

func (s *session) catalogue(ctx context.Context) (catalogue, error) {
	var found []variant
	err := s.call(ctx, "model.product.product.search_read",
		[]any{[]any{[]any{"code", "!=", nil}}, 0, maxTrytonSKUs, nil, []string{"code", "quantity", "list_price"}, s.onHand()}, &found)
	if err == nil && len(found) < stormSKUs {
		err = fmt.Errorf("%d products are too few", len(found))
	}
	items := make([]item, len(found))
	for i, v := range found {
		items[i] = item{sku: v.Code, onHand: int64(v.Quantity), amount: v.Price.Decimal}
	}
	return newCatalogue(items), err
}

// reader asks Tryton as a channel does that has to know: by SKU, one a call.
func (s *session) reader(door string, c catalogue) reader {
	stream := func(name, field string, with map[string]any, right func(variant) bool) load.Stream {
		return load.Stream{
			Name: name,
			Next: func(n uint64) load.Target {
				// What is made of strings and numbers always has a JSON form.
				content, _ := body("model.product.product.search_read",
					[]any{[]any{[]any{"code", "=", c.pick(n, 1)[0]}}, 0, 1, nil, []string{"code", field}, with})
				header := http.Header{"Content-Type": {"application/json"}, "Authorization": {s.authorization}}
				return load.Target{Method: http.MethodPost, URL: door + s.path(), Body: content, Header: header}
			},
			Judge: func(_ int, text []byte) load.Verdict {
				var found []variant
				return judged(result(text, &found) == nil && len(found) == 1 && right(found[0]))
			},
		}
	}
	return reader{
		stock: func(int) load.Stream {
			return stream(stockStream, "quantity", s.onHand(), func(v variant) bool { return c.holds(v.Code, int64(v.Quantity)) })
		},
		price: func(int) load.Stream {
			return stream(priceStream, "list_price", s.company(), func(v variant) bool { return c.costs(v.Code, v.Price.Decimal) })
		},
	}
}

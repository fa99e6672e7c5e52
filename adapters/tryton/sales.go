package tryton

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"andes/commands/order"
	"andes/eventstore"
)

// Sales is the OMS's part: an order is a sale whose reference is the order's id.
//
//	create ──► draft ──quote──► quotation ──confirm──► confirmed ──► processing ──► done
//
// Tryton makes a second sale of a second create with the same reference. So orders are registered one by one
// for each reference, a sale is looked for before, and again after it was created: of two that another process
// made at the same time the one goes on that has come further, or else the older one; the other is cancelled.
// A sale that was left half way is taken on from where it is. Whether it waits before processing, which makes
// its shipments, is set in Tryton.
type Sales struct {
	Client    *Client
	Warehouse string           // code of the one that ships; empty: the first one
	Now       func() time.Time // nil: time.Now

	turns turns
	known memory
}

// States of a sale, in the order in which it takes them.
const (
	cancelled  = "cancelled"
	draft      = "draft"
	quotation  = "quotation"
	confirmed  = "confirmed"
	processing = "processing"
	done       = "done"
)

var progress = []string{cancelled, draft, quotation, confirmed, processing, done}

type sale struct {
	ID        int64   `json:"id"`
	Number    *string `json:"number"`
	State     string  `json:"state"`
	Shipments []struct {
		ID    int64  `json:"id"`
		State string `json:"state"`
	} `json:"shipments."`
}

// name is the number that people call the sale by.
func (s sale) name() string {
	if s.Number != nil && *s.Number != "" {
		return *s.Number
	}
	return "id " + strconv.FormatInt(s.ID, 10)
}

// maxSameReference bounds how many sales of one reference are looked at.
const maxSameReference = 20

// lookUp gives the sales of an order, the one that counts first.
func (s *Sales) lookUp(ctx context.Context, company company, orderID string) ([]sale, error) {
	var found []sale
	err := s.Client.call(ctx, reading, "model.sale.sale.search_read", &found,
		domain{term("reference", "=", orderID), term("company", "=", company.id)}, 0, maxSameReference, [][]string{{"id", "ASC"}},
		[]string{"number", "state", "shipments.state"}, company.settings())
	slices.SortStableFunc(found, func(a, b sale) int {
		return cmp.Compare(slices.Index(progress, b.State), slices.Index(progress, a.State))
	})
	return found, err
}

// Find gives the number of the order's sale; "" is none. A sale that was cancelled is one, too: it was
// registered, and a person, or Cancel, has decided.
func (s *Sales) Find(ctx context.Context, orderID string) (string, error) {
	leave, err := s.turns.enter(ctx, orderID)
	if err != nil {
		return "", err
	}
	defer leave()
	company, err := s.Client.companyOf(ctx)
	if err != nil {
		return "", err
	}
	return s.goOn(ctx, company, orderID)
}

// goOn brings the order's sale to where Tryton takes care of it. "" is no sale.
func (s *Sales) goOn(ctx context.Context, company company, orderID string) (string, error) {
	found, err := s.lookUp(ctx, company, orderID)
	if err != nil || len(found) == 0 {
		return "", err
	}
	first := found[0]
	for _, other := range found[1:] {
		if other.State != draft && other.State != quotation {
			continue
		}
		if err := s.button(ctx, company, "model.sale.sale.cancel", other.ID); err != nil {
			return "", fmt.Errorf("the second sale of the order: %w", err)
		}
	}
	for range progress {
		methods, err := s.next(ctx, company, first)
		if err != nil {
			return "", err
		}
		if len(methods) == 0 {
			return first.name(), nil
		}
		for _, method := range methods {
			if err := s.button(ctx, company, "model.sale.sale."+method, first.ID); err != nil {
				return "", err
			}
		}
		if found, err = s.lookUp(ctx, company, orderID); err != nil {
			return "", err
		}
		if len(found) == 0 || found[0].ID != first.ID {
			break
		}
		first = found[0]
	}
	return "", errors.New("tryton: the sale could not be confirmed")
}

// next are the methods that bring the sale on. A confirmed one is on its way to processing, unless Tryton is
// set to wait with that; but it stays where it is if that failed once, so it is brought on in any case.
func (s *Sales) next(ctx context.Context, company company, sale sale) ([]string, error) {
	switch sale.State {
	case draft:
		return []string{"quote", "confirm"}, nil
	case quotation:
		return []string{"confirm"}, nil
	case confirmed:
		waits, err := s.known.get("waits", "", s.now(), func() (int64, error) { return s.waits(ctx, company) })
		if err == nil && waits == 0 {
			return []string{"process"}, nil
		}
		return nil, err
	}
	return nil, nil
}

// waits is 1 if Tryton is set to let confirmed sales wait.
func (s *Sales) waits(ctx context.Context, company company) (int64, error) {
	var found []struct {
		After *json.RawMessage `json:"sale_process_after"`
	}
	err := s.Client.call(ctx, reading, "model.sale.configuration.read", &found, []int64{1}, []string{"sale_process_after"}, company.settings())
	if err != nil || len(found) == 0 || found[0].After == nil {
		return 0, err
	}
	return 1, nil
}

func (s *Sales) button(ctx context.Context, company company, method string, ids ...int64) error {
	err := s.Client.call(ctx, writing, method, nil, ids, company.settings())
	if refusal, is := errors.AsType[*Refusal](err); is {
		return eventstore.MarkPermanent(refusal)
	}
	return err
}

// Post makes a sale of the order and gives its number.
func (s *Sales) Post(ctx context.Context, request order.RegistrationRequested) (string, error) {
	leave, err := s.turns.enter(ctx, request.OrderID)
	if err != nil {
		return "", unsent{err}
	}
	defer leave()
	company, err := s.Client.companyOf(ctx)
	if err != nil {
		return "", unsent{err}
	}
	if number, err := s.goOn(ctx, company, request.OrderID); err != nil || number != "" {
		return number, err
	}
	values, err := s.values(ctx, company, request)
	if err != nil {
		return "", unsent{err}
	}
	err = s.Client.call(ctx, writing, "model.sale.sale.create", nil, []any{values}, company.settings())
	if refusal, is := errors.AsType[*Refusal](err); is {
		return "", eventstore.MarkPermanent(refusal)
	}
	if err != nil {
		return "", err
	}
	number, err := s.goOn(ctx, company, request.OrderID)
	if err == nil && number == "" {
		err = errors.New("tryton: the sale that was made is not found")
	}
	return number, err
}

// unsent is a failure before anything was changed.
type unsent struct{ error }

func (u unsent) Unwrap() error { return u.error }

// MayHaveArrived is false: nothing of it is at work.
func (unsent) MayHaveArrived() bool { return false }

// values are the fields of the order's sale.
func (s *Sales) values(ctx context.Context, company company, request order.RegistrationRequested) (map[string]any, error) {
	buyer, err := s.buyer(ctx, company, request.Partner)
	if err != nil {
		return nil, err
	}
	currency, err := s.one(ctx, company, "currency.currency", "code", request.Total.Currency)
	if err != nil {
		return nil, err
	}
	warehouse, err := s.warehouse(ctx, company)
	if err != nil {
		return nil, err
	}
	lines, err := s.lines(ctx, company, request.Lines)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"company": company.id, "reference": request.OrderID,
		"party": buyer.party, "invoice_address": buyer.address, "shipment_address": buyer.address,
		"currency": currency, "warehouse": warehouse,
		"invoice_method": "manual", "shipment_method": "order", // the money is taken by the gateway already
		"lines": []any{[]any{"create", lines}},
	}, nil
}

// offer is a product that can be sold.
type offer struct {
	ID   int64  `json:"id"`
	Code string `json:"code"`
	Unit *int64 `json:"default_uom"` // what prices and stock are of; it may be sold in another one
}

func (s *Sales) lines(ctx context.Context, company company, ordered []order.Line) ([]map[string]any, error) {
	var codes []string
	for _, line := range ordered {
		codes = append(codes, line.SKU)
	}
	var found []offer
	err := s.Client.call(ctx, reading, "model.product.product.search_read", &found,
		domain{term("code", "in", codes), term("active", "=", true), term("salable", "=", true)}, 0, maxSameCode*len(codes), [][]string{{"id", "ASC"}},
		[]string{"code", "default_uom"}, company.settings())
	if err != nil {
		return nil, err
	}
	var lines []map[string]any
	for _, line := range ordered {
		at := slices.IndexFunc(found, func(o offer) bool { return o.Code == line.SKU && o.Unit != nil })
		if at < 0 {
			return nil, eventstore.MarkPermanent(fmt.Errorf("tryton: the product %s is not sold", line.SKU))
		}
		lines = append(lines, map[string]any{
			"type": "line", "product": found[at].ID, "unit": *found[at].Unit,
			"quantity": line.Quantity, "unit_price": decimal(line.UnitPrice.Amount()),
		})
	}
	return lines, nil
}

// ErrUnknown says that Tryton lacks what every order of a partner needs. A person puts it right.
var ErrUnknown = errors.New("tryton: it is not set up")

type buyer struct{ party, address int64 }

// buyer is the party whose code is the partner's id, with its first address.
func (s *Sales) buyer(ctx context.Context, company company, partner string) (buyer, error) {
	address, err := s.known.get("buyer", partner, s.now(), func() (int64, error) {
		return s.search(ctx, company, "party.address", domain{term("party.code", "=", partner), term("active", "=", true)}, "an address of the party "+partner)
	})
	if err != nil {
		return buyer{}, err
	}
	party, err := s.one(ctx, company, "party.party", "code", partner)
	return buyer{party: party, address: address}, err
}

// warehouse is the one that ships.
func (s *Sales) warehouse(ctx context.Context, company company) (int64, error) {
	return s.known.get("warehouse", s.Warehouse, s.now(), func() (int64, error) {
		where := domain{term("type", "=", "warehouse"), term("active", "=", true)}
		if s.Warehouse != "" {
			where = append(where, term("code", "=", s.Warehouse))
		}
		return s.search(ctx, company, "stock.location", where, "the warehouse "+s.Warehouse)
	})
}

// one is the id of the record whose field has the value.
func (s *Sales) one(ctx context.Context, company company, model, field, value string) (int64, error) {
	return s.known.get(model, value, s.now(), func() (int64, error) {
		return s.search(ctx, company, model, domain{term(field, "=", value)}, model+" "+value)
	})
}

func (s *Sales) search(ctx context.Context, company company, model string, where domain, what string) (int64, error) {
	var ids []int64
	if err := s.Client.call(ctx, reading, "model."+model+".search", &ids, where, 0, 1, [][]string{{"id", "ASC"}}, company.settings()); err != nil {
		return 0, err
	}
	if len(ids) == 0 {
		return 0, fmt.Errorf("%w: there is not %s", ErrUnknown, what)
	}
	return ids[0], nil
}

func (s *Sales) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

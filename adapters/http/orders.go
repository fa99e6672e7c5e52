package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"andes/commands/order"
	"andes/commands/reservation"
	"andes/eventstore"
	"andes/queries"
	"andes/quota"
)

// orderBody places an order.
type orderBody struct {
	PartnerOrderRef string       `json:"partnerOrderRef,omitempty" minLength:"1" maxLength:"64" example:"536365" doc:"The partner's own name for the order; one order per name"`
	Currency        currencyText `json:"currency"`
	Lines           []lineBody   `json:"lines" minItems:"1" maxItems:"2000"`
	Customer        customerBody `json:"customer,omitzero" doc:"Kept encrypted, and never shown again"`
	Payment         paymentBody  `json:"payment"`
}

type lineBody struct {
	SKU       skuText   `json:"sku"`
	Quantity  quantity  `json:"quantity"`
	UnitPrice moneyBody `json:"unitPrice,omitzero" doc:"What the partner saw; if the price differs, the order is refused"`
}

// customerBody is personal data. It goes into the order.placed event and nowhere else.
type customerBody struct {
	Name    string `json:"name,omitempty" minLength:"1" maxLength:"200" example:"A. Customer"`
	Email   string `json:"email,omitempty" minLength:"3" maxLength:"254" pattern:"^[^@\\s]+@[^@\\s]+$" patternDescription:"an e-mail address" example:"customer@example.com"`
	Phone   string `json:"phone,omitempty" minLength:"1" maxLength:"40" example:"+44 20 7946 0000"`
	Address string `json:"address,omitempty" minLength:"1" maxLength:"1000" example:"1 Example Street, London"`
}

type paymentBody struct {
	Token string `json:"token" minLength:"1" maxLength:"255" pattern:"^[\\x21-\\x7E]+$" patternDescription:"printable ASCII characters without spaces" example:"tok_visa" doc:"Of the payment gateway; never a card number"`
}

// orderView is an order in answers.
type orderView struct {
	OrderID         string             `json:"orderId" format:"uuid" example:"0190b0a0-5c1e-7d3a-9f42-6a0c8f0e4b11"`
	PartnerOrderRef string             `json:"partnerOrderRef,omitempty" example:"536365"`
	Status          order.Status       `json:"status" enum:"PENDING_PAYMENT,CONFIRMED,DISPATCHED,DELIVERED,CANCELLED"`
	Reason          order.Reason       `json:"reason,omitempty" enum:"PAYMENT_REJECTED,PAYMENT_EXPIRED,CANCELLED_BY_PARTNER,CANCELLED_BY_OPS" doc:"Of a cancellation"`
	Cancellation    order.Cancellation `json:"cancellation,omitempty" enum:"requested,refused" doc:"Of a confirmed order: requested until the order registry answers, refused when the goods are leaving"`
	OMSSync         order.OMSSync      `json:"omsSync,omitempty" enum:"pending,registered" doc:"Whether the order registry knows a confirmed order"`
	Total           moneyBody          `json:"total"`
	Lines           []lineView         `json:"lines"`
	PlacedAt        stamp              `json:"placedAt"`
	UpdatedAt       stamp              `json:"updatedAt"`
	CorrelationID   string             `json:"correlationId" example:"0190b0a0-5c1d-7000-8000-1f2e3d4c5b6a" doc:"Of the request that placed the order"`
}

type lineView struct {
	SKU       string    `json:"sku" example:"85123A"`
	Quantity  int64     `json:"quantity" example:"6"`
	UnitPrice moneyBody `json:"unitPrice"`
	Amount    moneyBody `json:"amount"`
}

type ordersBody struct {
	Items      []orderView `json:"items"`
	NextCursor string      `json:"nextCursor" example:"MTAyNA" doc:"Where to go on; also valid when hasMore is false, for what changes later"`
	HasMore    bool        `json:"hasMore"`
}

func viewOf(s order.State) orderView {
	lines := make([]lineView, len(s.Lines))
	for i, line := range s.Lines {
		lines[i] = lineView{SKU: line.SKU, Quantity: line.Quantity, UnitPrice: moneyOf(line.UnitPrice), Amount: moneyOf(line.Amount)}
	}
	return orderView{
		OrderID: s.ID, PartnerOrderRef: s.PartnerRef, Status: s.Status, Reason: s.Reason, Cancellation: s.Cancellation, OMSSync: s.OMSSync,
		Total: moneyOf(s.Total), Lines: lines, PlacedAt: stamp(s.PlacedAt), UpdatedAt: stamp(s.UpdatedAt), CorrelationID: s.CorrelationID,
	}
}

var errNoAnswer = errors.New("the executor gave no answer")

func renderOrder(result any) ([]byte, error) {
	state, ok := result.(order.State)
	if !ok {
		return nil, fmt.Errorf("expected an order, got %T", result)
	}
	return json.Marshal(viewOf(state), json.Deterministic(true))
}

func (a *API) orderEndpoints() []*endpoint {
	view := reflect.TypeFor[orderView]()
	return []*endpoint{
		{
			method: http.MethodPost, path: "/v1/orders", id: "placeOrder", tag: "orders", summary: "Place an order",
			description: "The stock is held and the order recorded before the answer. A finished answer, also a refusal, is repeated byte for byte for the same key and body.",
			access:      partners, quota: quota.Orders, keyed: true, body: reflect.TypeFor[orderBody](),
			answers: []answer{{status: 202, description: "The order is placed", body: view, headers: []string{"Location", replayedHeader}}},
			refusals: slices.Concat(commandCodes, []eventstore.Code{
				order.CodeUnknownSKU, order.CodeCurrencyMismatch, order.CodePriceMismatch, order.CodeNoPrice, order.CodeOrderInvalid, order.CodeTotalTooLarge,
				order.CodeDuplicateReference, order.CodePaymentTokenInvalid, reservation.CodeInsufficientStock,
			}),
			handle: (*call).placeOrder,
		},
		{
			method: http.MethodPost, path: "/v1/orders/{id}/cancel", id: "cancelOrder", tag: "orders", summary: "Cancel an order",
			description: "Until dispatch. Repeating it changes nothing. A body is not read. A confirmed order is cancelled, and its money given back, when the order registry has withdrawn it; until then its cancellation is requested.",
			access:      partners, quota: quota.Orders,
			answers: []answer{
				{status: 200, description: "The order is cancelled", body: view},
				{status: 202, description: "The cancellation is requested: see cancellation, and later status", body: view},
			},
			refusals: slices.Concat(commandCodes, []eventstore.Code{order.CodeNotFound, order.CodeNotCancellable}),
			handle:   (*call).cancelOrder,
		},
	}
}

func (a *API) orderQueryEndpoints() []*endpoint {
	first, most := 1.0, float64(maxOrders)
	return []*endpoint{
		{
			method: http.MethodGet, path: "/v1/orders/{id}", id: "order", tag: "orders", summary: "An order of the partner",
			description: "As it stands in the system of record, whatever state the legacy systems are in. An order of another partner is answered as one that is not there.",
			access:      partners, quota: quota.Reads,
			answers:  []answer{{status: 200, description: "The order", body: reflect.TypeFor[orderView]()}},
			refusals: []eventstore.Code{order.CodeNotFound, CodeOverloaded},
			handle:   (*call).answerOrder,
		},
		{
			method: http.MethodGet, path: "/v1/orders", id: "orders", tag: "orders", summary: "The partner's orders by their last change",
			description: "The ones changed first come first. Go on with nextCursor; a cursor at the end is good for asking later what has changed since, and an order that changed meanwhile comes again.",
			access:      partners, quota: quota.Reads,
			parameters: []*huma.Param{
				queryParameter("updatedSince", "Begin with orders changed at or after this RFC 3339 time; not together with cursor", false, &huma.Schema{Type: huma.TypeString, Format: "date-time"}),
				queryParameter("cursor", "nextCursor of an earlier answer", false, &huma.Schema{Type: huma.TypeString, Pattern: "^[A-Za-z0-9_-]+$"}),
				queryParameter("limit", "Orders in a page, 50 by default", false, &huma.Schema{Type: huma.TypeInteger, Minimum: &first, Maximum: &most}),
			},
			answers:  []answer{{status: 200, description: "A page; it may be short although there is more", body: reflect.TypeFor[ordersBody]()}},
			refusals: []eventstore.Code{CodeParameterInvalid, CodeOverloaded},
			handle:   (*call).answerOrders,
		},
	}
}

// orderNamespace makes an order's id of the partner's own reference, so that the same reference can
// never be two orders.
var orderNamespace = uuid.MustParse("7f7ab9b2-6e0f-5a37-9c5d-2a1f6a1c0e5b")

func (c *call) placeOrder() error {
	key, err := idempotencyKey(c.request.Header)
	if err != nil {
		return err
	}
	doc, err := c.readDocument()
	if err != nil {
		return err
	}
	body, err := decode[orderBody](c, doc)
	var command eventstore.Command = refuse{why: err}
	if err == nil {
		command = c.place(body)
	}
	return c.executeKeyed(key, doc, command, http.StatusAccepted, renderOrder, func(body []byte) string {
		return "/v1/orders/" + orderIDIn(body)
	})
}

// place makes the command. An amount that is no amount of its currency makes one that is refused.
func (c *call) place(body orderBody) eventstore.Command {
	var problems []eventstore.Problem
	lines := make([]order.RequestedLine, len(body.Lines))
	for i, line := range body.Lines {
		seen, faults := line.UnitPrice.parse("/lines/" + strconv.Itoa(i) + "/unitPrice")
		problems = append(problems, faults...)
		lines[i] = order.RequestedLine{SKU: string(line.SKU), Quantity: int64(line.Quantity), UnitPrice: seen}
	}
	if err := invalid(problems); err != nil {
		return refuse{why: err}
	}
	id := c.api.NewID()
	if body.PartnerOrderRef != "" {
		id = uuid.NewSHA1(orderNamespace, []byte(c.principal.Partner+"|"+body.PartnerOrderRef)).String()
	}
	// Only to fetch the prices early; what counts is what the write side has.
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	known, _, _ := c.api.Partners.Partner(ctx, c.principal.Partner)
	return order.Place{
		OrderID: id, Partner: c.principal.Partner, PartnerRef: body.PartnerOrderRef, PriceList: known.Policy.PriceList,
		Currency: string(body.Currency), Lines: lines, Customer: order.Customer(body.Customer), PaymentToken: body.Payment.Token,
	}
}

// orderID gives the id in the path. What is no id is no order.
func (c *call) orderID() (string, error) {
	id := c.request.PathValue("id")
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return "", noSuchOrder()
	}
	return id, nil
}

func noSuchOrder() error { return eventstore.Refuse(order.CodeNotFound, "there is no such order") }

func (c *call) cancelOrder() error {
	id, err := c.orderID()
	if err != nil {
		return err
	}
	result, err := c.execute(order.Cancel{OrderID: id, Partner: c.principal.Partner, Reason: order.CancelledByPartner}, c.meta())
	if err != nil {
		return err
	}
	body, err := renderOrder(result)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if state, is := result.(order.State); is && state.Status != order.Cancelled {
		status = http.StatusAccepted
	}
	c.send(status, "application/json", body)
	return nil
}

func (c *call) answerOrder() error {
	id, err := c.orderID()
	if err != nil {
		return err
	}
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	state, known, err := queries.Order(ctx, c.api.Orders, c.principal.Partner, id)
	if err != nil {
		return err
	}
	if !known {
		return noSuchOrder()
	}
	return c.json(http.StatusOK, viewOf(state))
}

// Sizes of a page of orders.
const (
	someOrders = 50
	maxOrders  = 200
)

func (c *call) answerOrders() error {
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	cursor, since, limit, err := c.orderList()
	if err != nil {
		return err
	}
	if !since.IsZero() {
		if cursor, err = queries.OrdersSince(ctx, c.api.Orders, c.principal.Partner, since); err != nil {
			return err
		}
	}
	page, err := queries.OrdersPage(ctx, c.api.Orders, c.principal.Partner, cursor, limit)
	if err != nil {
		return err
	}
	body := ordersBody{Items: make([]orderView, len(page.Orders)), NextCursor: page.Next.Encode(), HasMore: page.More}
	for i, state := range page.Orders {
		body.Items[i] = viewOf(state)
	}
	return c.json(http.StatusOK, body)
}

// orderList reads what page is asked for.
func (c *call) orderList() (cursor queries.Cursor, since time.Time, limit int, err error) {
	values, err := c.query("updatedSince", "cursor", "limit")
	if err != nil {
		return cursor, since, 0, err
	}
	for name, sent := range values {
		if len(sent) > 1 {
			return cursor, since, 0, parameterProblem(CodeParameterInvalid, name, "the parameter is there twice")
		}
	}
	limit = someOrders
	if text := values.Get("limit"); values.Has("limit") {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxOrders || strconv.Itoa(limit) != text {
			return cursor, since, 0, parameterProblem(CodeParameterInvalid, "limit", "a whole number from 1 to "+strconv.Itoa(maxOrders)+" is expected")
		}
	}
	if values.Has("cursor") && values.Has("updatedSince") {
		return cursor, since, 0, parameterProblem(CodeParameterInvalid, "updatedSince", "a cursor knows its own updatedSince")
	}
	if values.Has("cursor") {
		if cursor, err = queries.ParseCursor(values.Get("cursor")); err != nil {
			return cursor, since, 0, parameterProblem(CodeParameterInvalid, "cursor", err.Error())
		}
	}
	if values.Has("updatedSince") {
		if since, err = time.Parse(time.RFC3339, values.Get("updatedSince")); err != nil {
			return cursor, since, 0, parameterProblem(CodeParameterInvalid, "updatedSince", "an RFC 3339 time with its offset is expected, percent-encoded")
		}
	}
	return cursor, since, limit, nil
}

package order

import (
	"fmt"
	"time"

	"andes/commands/money"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/reservation"
	"andes/commands/sku"
	"andes/commands/stock"
	"andes/eventstore"
)

// Limits of an order.
const (
	MaxLines    = 2000
	MaxQuantity = 1_000_000
)

// Customer is whom the goods go to. All of it is personal data.
type Customer struct {
	Name    string `json:"name,omitempty" sensitive:"true"`
	Email   string `json:"email,omitempty" sensitive:"true"`
	Phone   string `json:"phone,omitempty" sensitive:"true"`
	Address string `json:"address,omitempty" sensitive:"true"`
}

// Placed says that a partner placed an order and its stock is held.
type Placed struct {
	OrderID      string      `json:"orderId"`
	Partner      string      `json:"partner"`
	PartnerRef   string      `json:"partnerOrderRef,omitempty"`
	Lines        []Line      `json:"lines"`
	Total        money.Money `json:"total"`
	Customer     Customer    `json:"customer,omitzero"`
	PaymentToken string      `json:"paymentToken" sensitive:"true"`
	At           time.Time   `json:"at"`
	Correlation  string      `json:"correlationId"`
}

var placed = eventstore.Define("order.placed", func(s *State, e Placed) {
	*s = State{
		ID: e.OrderID, Partner: e.Partner, PartnerRef: e.PartnerRef, Status: PendingPayment,
		Lines: e.Lines, Total: e.Total, CorrelationID: e.Correlation, PlacedAt: e.At, UpdatedAt: e.At,
	}
}, eventstore.Doc("A partner placed an order; its stock is held."))

// Place places an order.
type Place struct {
	OrderID      string // fresh, or derived from the partner's own reference
	Partner      string
	PartnerRef   string
	PriceList    string // of the partner, as far as the caller knows: only to fetch the prices early
	Currency     string
	Lines        []RequestedLine
	Customer     Customer
	PaymentToken string
}

// RequestedLine is a line as the partner asks for it.
type RequestedLine struct {
	SKU       string
	Quantity  int64
	UnitPrice money.Money // what the partner saw; zero: whatever the price is
}

// Needs implements eventstore.Command.
func (c Place) Needs() []eventstore.Stream {
	needs := make([]eventstore.Stream, 0, 2+3*len(c.Lines))
	needs = append(needs, partner.Aggregate.Stream(c.Partner))
	if c.PartnerRef != "" {
		needs = append(needs, Aggregate.Stream(c.OrderID))
	}
	for _, line := range c.Lines {
		needs = append(needs, product.Aggregate.Stream(line.SKU), stock.Aggregate.Stream(line.SKU))
		if c.PriceList != "" {
			needs = append(needs, price.Aggregate.Stream(price.Key(c.PriceList, line.SKU)))
		}
	}
	return needs
}

// Decide implements eventstore.Command. Its result is the order's State.
func (c Place) Decide(u *eventstore.Unit) (any, error) {
	if refusal := c.checkShape(); refusal != nil {
		return nil, refusal
	}
	channel, known := partner.Aggregate.Load(u, c.Partner)
	if known == 0 {
		return nil, eventstore.Refuse(partner.CodeUnknown, "the partner is not set up")
	}
	if c.PartnerRef != "" {
		if first, version := Aggregate.Load(u, c.OrderID); version > 0 {
			return nil, &eventstore.Refusal{
				Code: CodeDuplicateReference, Detail: "an order with this partnerOrderRef was placed before",
				Extra: map[string]any{"orderId": first.ID},
			}
		}
	} else {
		Aggregate.Expect(u, c.OrderID, 0, State{})
	}
	reservation.Aggregate.Expect(u, c.OrderID, 0, reservation.State{})
	lines, total, err := c.priced(u, channel.Policy)
	if err != nil {
		return nil, err
	}
	held := make([]reservation.Line, len(lines))
	for i, line := range lines {
		held[i] = reservation.Line{SKU: line.SKU, Quantity: line.Quantity}
	}
	if err := reservation.Hold(u, c.OrderID, held, channel.Policy.Available); err != nil {
		return nil, err
	}
	return Aggregate.Append(u, c.OrderID, Placed{
		OrderID: c.OrderID, Partner: c.Partner, PartnerRef: c.PartnerRef, Lines: lines, Total: total,
		Customer: c.Customer, PaymentToken: c.PaymentToken, At: u.Now(), Correlation: u.Meta().CorrelationID,
	}), nil
}

// checkShape refuses what no state could make right.
func (c Place) checkShape() error {
	var problems []eventstore.Problem
	complain := func(code eventstore.Code, pointer, format string, args ...any) {
		problems = append(problems, eventstore.Problem{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
	if len(c.Lines) == 0 || len(c.Lines) > MaxLines {
		complain(CodeOrderInvalid, "/lines", "an order has 1 to %d lines", MaxLines)
	}
	if c.PaymentToken == "" {
		complain(CodeOrderInvalid, "/payment/token", "a payment token is needed")
	}
	if isCardNumber(c.PaymentToken) {
		complain(CodePaymentTokenInvalid, "/payment/token", "a card number is no payment token: send the token that the payment gateway gave for it")
	}
	for i, line := range c.Lines {
		if fault := sku.Check(line.SKU); fault != "" {
			complain(sku.CodeInvalid, fmt.Sprintf("/lines/%d/sku", i), "%s", fault)
		}
		if line.Quantity < 1 || line.Quantity > MaxQuantity {
			complain(CodeQuantityInvalid, fmt.Sprintf("/lines/%d/quantity", i), "a quantity is a whole number from 1 to %d", MaxQuantity)
		}
	}
	return refusalOf(problems, CodeOrderInvalid)
}

// priced prices the lines by the partner's policy, or tells all that is wrong with them.
func (c Place) priced(u *eventstore.Unit, policy partner.Policy) ([]Line, money.Money, error) {
	if c.Currency != policy.Currency {
		return nil, money.Money{}, &eventstore.Refusal{
			Code: CodeCurrencyMismatch, Detail: "the order's currency is not the partner's",
			Problems: []eventstore.Problem{{Pointer: "/currency", Code: CodeCurrencyMismatch, Detail: "expected " + policy.Currency}},
		}
	}
	var problems []eventstore.Problem
	var total money.Money
	lines := make([]Line, len(c.Lines))
	for i, requested := range c.Lines {
		line, problem := c.pricedLine(u, policy, requested, fmt.Sprintf("/lines/%d", i))
		if problem != nil {
			problems = append(problems, *problem)
			continue
		}
		sum, err := total.Plus(line.Amount)
		if err != nil {
			problems = append(problems, eventstore.Problem{Pointer: "/lines", Code: CodeTotalTooLarge, Detail: "the total is too large"})
			break
		}
		lines[i], total = line, sum
	}
	return lines, total, refusalOf(problems, CodeOrderInvalid)
}

func (c Place) pricedLine(u *eventstore.Unit, policy partner.Policy, requested RequestedLine, at string) (Line, *eventstore.Problem) {
	described, known := product.Aggregate.Load(u, requested.SKU)
	list, priced := price.Aggregate.Load(u, price.Key(policy.PriceList, requested.SKU))
	if known == 0 || described.Removed {
		return Line{}, &eventstore.Problem{Pointer: at + "/sku", Code: CodeUnknownSKU, Detail: "there is no such product"}
	}
	if priced == 0 || list.Removed || list.Price.Currency != policy.Currency {
		return Line{}, &eventstore.Problem{Pointer: at + "/sku", Code: CodeNoPrice, Detail: "the product has no price for this partner"}
	}
	unit := policy.Price(list.Price, requested.SKU, described.Segment, u.Now())
	switch seen := requested.UnitPrice; {
	case seen == money.Money{}:
	case seen.Currency != unit.Currency:
		return Line{}, &eventstore.Problem{Pointer: at + "/unitPrice/currency", Code: CodeCurrencyMismatch, Detail: "expected " + unit.Currency}
	case seen != unit:
		return Line{}, &eventstore.Problem{Pointer: at + "/unitPrice/amount", Code: CodePriceMismatch, Detail: "the price is " + unit.Amount()}
	}
	amount, err := unit.Times(requested.Quantity)
	if err != nil {
		return Line{}, &eventstore.Problem{Pointer: at + "/quantity", Code: CodeTotalTooLarge, Detail: "the line's amount is too large"}
	}
	return Line{SKU: requested.SKU, Quantity: requested.Quantity, UnitPrice: unit, Amount: amount}, nil
}

// refusalOf makes one refusal of all problems. Its code is the problems' own when they agree.
func refusalOf(problems []eventstore.Problem, mixed eventstore.Code) error {
	if len(problems) == 0 {
		return nil
	}
	code := problems[0].Code
	for _, problem := range problems {
		if problem.Code != code {
			code = mixed
		}
	}
	return &eventstore.Refusal{Code: code, Detail: "the order can't be accepted as it is", Problems: problems}
}

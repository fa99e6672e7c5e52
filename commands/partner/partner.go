// Package partner is a sales channel: who it is, its tier, and the policy by which it sees stock and
// prices.
package partner

import (
	"math"
	"regexp"
	"time"

	"andes/commands/money"
	"andes/commands/price"
	"andes/eventstore"
)

// State is a partner.
type State struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Tier   string `json:"tier"` // bronze, silver or gold
	Policy Policy `json:"policy"`
}

var idText = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)

// ValidID tells whether a partner may be called so; a name of dots alone would not survive in a path.
func ValidID(id string) bool { return idText.MatchString(id) }

// Policy is how a channel sees stock and prices.
type Policy struct {
	PriceList    string     `json:"priceList"`
	Currency     string     `json:"currency"`
	SafetyBuffer int64      `json:"safetyBuffer"`         // units held back from this channel
	VisibleCap   int64      `json:"visibleCap,omitempty"` // most units shown; 0: no cap
	Discounts    []Discount `json:"discounts,omitempty"`

	// QuotaPerChannel gives each of the partner's channels (its OAuth clients) a quota of its own. Otherwise they share one.
	QuotaPerChannel bool `json:"quotaPerChannel,omitempty"`
}

// Available is what the channel sees of a SKU whose net stock is net.
func (p Policy) Available(net int64) int64 {
	visible := int64(math.MaxInt64)
	if p.VisibleCap > 0 {
		visible = p.VisibleCap
	}
	return max(0, min(visible, net-p.SafetyBuffer))
}

// Discount takes a percentage or a fixed amount off, for one SKU, one segment or everything, in the
// half-open window [From, Until).
type Discount struct {
	SKU     string      `json:"sku,omitempty"`
	Segment string      `json:"segment,omitempty"`
	Percent string      `json:"percent,omitempty"` // "12.5"
	Amount  money.Money `json:"amount,omitzero"`
	From    time.Time   `json:"from,omitzero"`
	Until   time.Time   `json:"until,omitzero"`
}

func (d Discount) applies(sku, segment string, at time.Time) bool {
	return (d.SKU == "" || d.SKU == sku) && (d.Segment == "" || d.Segment == segment) &&
		(d.From.IsZero() || !at.Before(d.From)) && (d.Until.IsZero() || at.Before(d.Until))
}

func (d Discount) off(list money.Money) money.Money {
	if d.Percent != "" {
		if reduced, err := list.LessPercent(d.Percent); err == nil {
			return reduced
		}
		return list
	}
	if d.Amount.Currency == list.Currency {
		return money.Money{Minor: list.Minor - d.Amount.Minor, Currency: list.Currency}
	}
	return list
}

// Price is what the channel pays for a SKU: the list price less the best of the discounts that apply.
// They do not add up, and a discount never makes a price that is not positive.
func (p Policy) Price(list money.Money, sku, segment string, at time.Time) money.Money {
	best := list
	for _, discount := range p.Discounts {
		if !discount.applies(sku, segment, at) {
			continue
		}
		if reduced := discount.off(list); reduced.Minor < best.Minor && reduced.Minor > 0 {
			best = reduced
		}
	}
	return best
}

// Aggregate is one stream per partner.
var Aggregate = eventstore.NewAggregate(eventstore.Category[State]{
	Name:      "partner",
	Published: true,
	Events:    []eventstore.Definition[State]{configured},
})

// Configured says what an operator agreed with the partner.
type Configured struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Tier   string `json:"tier"`
	Policy Policy `json:"policy"`
}

var configured = eventstore.Define("partner.configured", func(s *State, e Configured) {
	*s = State(e)
}, eventstore.Doc("An operator set up a partner, its tier and its channel policy."))

// CodeInvalid refuses a configuration.
const CodeInvalid eventstore.Code = "PARTNER_INVALID"

// CodeUnknown refuses a partner that is not set up.
const CodeUnknown eventstore.Code = "PARTNER_UNKNOWN"

// Bounds of a policy. maxUnits keeps its arithmetic from overflowing.
const (
	maxDiscounts = 1000
	maxUnits     = 1 << 50
)

// Configure sets a partner up or changes it.
type Configure struct{ Partner State }

// Needs implements eventstore.Command.
func (c Configure) Needs() []eventstore.Stream {
	return []eventstore.Stream{Aggregate.Stream(c.Partner.ID)}
}

// Decide implements eventstore.Command.
func (c Configure) Decide(u *eventstore.Unit) (any, error) {
	if problems := c.Partner.problems(); len(problems) > 0 {
		return nil, &eventstore.Refusal{Code: CodeInvalid, Detail: "the partner's configuration is not valid", Problems: problems}
	}
	return Aggregate.Append(u, c.Partner.ID, Configured(c.Partner)), nil
}

func (s State) problems() []eventstore.Problem {
	var problems []eventstore.Problem
	complain := func(wrong bool, pointer, detail string) {
		if wrong {
			problems = append(problems, eventstore.Problem{Pointer: pointer, Code: CodeInvalid, Detail: detail})
		}
	}
	_, knownCurrency := money.Exponent(s.Policy.Currency)
	complain(s.ID == "" || len(s.ID) > 64, "/id", "an id has 1 to 64 characters")
	complain(len(s.Name) > 200, "/name", "a name has at most 200 characters")
	complain(s.Tier != "bronze" && s.Tier != "silver" && s.Tier != "gold", "/tier", "a tier is bronze, silver or gold")
	complain(!price.ValidList(s.Policy.PriceList), "/policy/priceList", "the price list's name is not valid")
	complain(!knownCurrency, "/policy/currency", "unknown ISO 4217 currency")
	complain(s.Policy.SafetyBuffer < 0 || s.Policy.SafetyBuffer > maxUnits, "/policy/safetyBuffer", "a safety buffer is neither negative nor beyond every stock")
	complain(s.Policy.VisibleCap < 0, "/policy/visibleCap", "a cap is not negative")
	complain(len(s.Policy.Discounts) > maxDiscounts, "/policy/discounts", "there are too many discounts")
	for _, discount := range s.Policy.Discounts {
		percent := discount.Percent != ""
		complain(percent == (discount.Amount != money.Money{}), "/policy/discounts", "a discount has a percentage or an amount")
		complain(percent && money.CheckPercent(discount.Percent) != nil, "/policy/discounts", money.ErrPercent.Error())
		complain(discount.Amount.Minor < 0, "/policy/discounts", "an amount off is not negative")
	}
	return problems
}

// BySegment tells whether a discount of the policy depends on a product's segment.
func (p Policy) BySegment() bool {
	for _, discount := range p.Discounts {
		if discount.Segment != "" {
			return true
		}
	}
	return false
}

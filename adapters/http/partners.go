package httpapi

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"andes/commands/order"
	"andes/commands/partner"
	"andes/eventstore"
)

// partnerBody configures a partner; its id is in the path.
type partnerBody struct {
	Name   string     `json:"name" minLength:"1" maxLength:"200" example:"Example Shop"`
	Tier   string     `json:"tier" enum:"bronze,silver,gold"`
	Policy policyBody `json:"policy"`
}

type policyBody struct {
	PriceList    string         `json:"priceList" minLength:"1" maxLength:"64" example:"retail"`
	Currency     currencyText   `json:"currency"`
	SafetyBuffer units          `json:"safetyBuffer,omitempty" example:"2" doc:"Units held back from this channel"`
	VisibleCap   units          `json:"visibleCap,omitempty" example:"100" doc:"Most units shown; 0: no cap"`
	Discounts    []discountBody `json:"discounts,omitempty" maxItems:"1000" doc:"The best one counts; they do not add up"`

	QuotaPerChannel bool `json:"quotaPerChannel,omitempty" doc:"Each of the partner's channels, told apart by its tokens' subject, has a quota of its own; else they share one"`
}

// discountBody takes a percentage or an amount off.
type discountBody struct {
	SKU     skuText     `json:"sku,omitempty" doc:"Only this SKU"`
	Segment string      `json:"segment,omitempty" minLength:"1" maxLength:"200" example:"decoration" doc:"Only this segment"`
	Percent percentText `json:"percent,omitempty"`
	Amount  moneyBody   `json:"amount,omitzero"`
	From    time.Time   `json:"from,omitzero"`
	Until   time.Time   `json:"until,omitzero" doc:"Not valid any more at this instant"`
}

// percentText is a percentage.
type percentText string

// Schema implements huma.SchemaProvider.
func (percentText) Schema(huma.Registry) *huma.Schema {
	return bounded(huma.Schema{Type: huma.TypeString, Pattern: `^[0-9]{1,3}(\.[0-9]{1,6})?$`, Description: "0 to 100 with up to 6 decimals", Examples: []any{"12.5"}}, "", 1, 10)
}

// units is a number of units in a policy.
type units int64

// maxUnits bounds a policy's numbers; no stock level is larger.
const maxUnits = 1 << 40

// Schema implements huma.SchemaProvider.
func (units) Schema(huma.Registry) *huma.Schema {
	return bounded(huma.Schema{Type: huma.TypeInteger, Format: "int64"}, "", 0, maxUnits)
}

// partnerView is a partner in answers.
type partnerView struct {
	ID     string     `json:"id" example:"example-shop"`
	Name   string     `json:"name" example:"Example Shop"`
	Tier   string     `json:"tier" enum:"bronze,silver,gold"`
	Policy policyBody `json:"policy"`
}

func (a *API) partnerEndpoints() []*endpoint {
	view := []answer{{status: 200, description: "The partner", body: reflect.TypeFor[partnerView]()}}
	return []*endpoint{
		{
			method: http.MethodPut, path: "/ops/partners/{id}", id: "configurePartner", tag: "operations", summary: "Set a partner up or change it",
			description: "Needs the role ops-admin. Reads follow within a minute, orders at once.",
			access:      opsAdmins, body: reflect.TypeFor[partnerBody](), answers: view, handle: (*call).configurePartner,
			refusals: slices.Concat(commandCodes, []eventstore.Code{partner.CodeInvalid}),
		},
		{
			method: http.MethodGet, path: "/ops/partners/{id}", id: "partner", tag: "operations", summary: "A partner's configuration",
			access: opsViewers, answers: view, handle: (*call).answerPartner,
			refusals: []eventstore.Code{order.CodeNotFound},
		},
	}
}

func (c *call) configurePartner() error {
	body, err := readBody[partnerBody](c)
	if err != nil {
		return err
	}
	id := c.request.PathValue("id")
	if !partner.ValidID(id) {
		return parameterProblem(partner.CodeInvalid, "id", "an id has 1 to 64 of the characters A-Z a-z 0-9 . _ - and does not begin with a dot")
	}
	policy, err := body.Policy.parse()
	if err != nil {
		return err
	}
	result, err := c.execute(partner.Configure{Partner: partner.State{ID: id, Name: body.Name, Tier: body.Tier, Policy: policy}}, c.meta())
	if err != nil {
		return err
	}
	state, _ := result.(partner.State)
	return c.json(http.StatusOK, partnerOf(state))
}

func (p policyBody) parse() (partner.Policy, error) {
	var problems []eventstore.Problem
	policy := partner.Policy{PriceList: p.PriceList, Currency: string(p.Currency), SafetyBuffer: int64(p.SafetyBuffer), VisibleCap: int64(p.VisibleCap), QuotaPerChannel: p.QuotaPerChannel}
	for i, each := range p.Discounts {
		off, faults := each.Amount.parse("/policy/discounts/" + strconv.Itoa(i) + "/amount")
		problems = append(problems, faults...)
		policy.Discounts = append(policy.Discounts, partner.Discount{
			SKU: string(each.SKU), Segment: each.Segment, Percent: string(each.Percent), Amount: off, From: each.From.UTC(), Until: each.Until.UTC(),
		})
	}
	return policy, invalid(problems)
}

func (c *call) answerPartner() error {
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	id := c.request.PathValue("id")
	if !partner.ValidID(id) {
		return eventstore.Refuse(order.CodeNotFound, "there is no such partner")
	}
	state, known, err := c.api.Partners.Partner(ctx, id)
	if err != nil {
		return err
	}
	if !known {
		return eventstore.Refuse(order.CodeNotFound, "there is no such partner")
	}
	return c.json(http.StatusOK, partnerOf(state))
}

func partnerOf(s partner.State) partnerView {
	view := partnerView{ID: s.ID, Name: s.Name, Tier: s.Tier, Policy: policyBody{
		PriceList: s.Policy.PriceList, Currency: currencyText(s.Policy.Currency),
		SafetyBuffer: units(s.Policy.SafetyBuffer), VisibleCap: units(s.Policy.VisibleCap), QuotaPerChannel: s.Policy.QuotaPerChannel,
	}}
	for _, each := range s.Policy.Discounts {
		discount := discountBody{SKU: skuText(each.SKU), Segment: each.Segment, Percent: percentText(each.Percent), From: each.From, Until: each.Until}
		if each.Amount.Currency != "" {
			discount.Amount = moneyOf(each.Amount)
		}
		view.Policy.Discounts = append(view.Policy.Discounts, discount)
	}
	return view
}

package httpapi

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"andes/commands/order"
	"andes/commands/sku"
	"andes/eventstore"
	"andes/queries"
	"andes/quota"
)

// How many SKUs one request may ask for.
const (
	maxSKUsInQuery = 100
	maxSKUsInBody  = 1000
)

const (
	batchDescription = "Costs 1 of the quota of reads for each 100 SKUs or part of them; a GET costs 1. " + keptDescription
	keptDescription  = "In promo mode an answer may be given again for some seconds, 2 by default, to the same partner: Age tells how old it is; asOf and stale are true all the same."
)

// skusBody asks for many SKUs.
type skusBody struct {
	SKUs []askedSKU `json:"skus" minItems:"1" maxItems:"1000" doc:"Answered in this order, repeated ones once"`
}

// stockLine is a SKU's stock.
type stockLine struct {
	SKU       string `json:"sku" example:"85123A"`
	Available int64  `json:"available" example:"42" doc:"Units that the partner can order"`
	AsOf      stamp  `json:"asOf" doc:"When the value was last known to be right"`
	Stale     bool   `json:"stale" doc:"Whether asOf is too long ago"`
}

type stockBody struct {
	Items    []stockLine `json:"items"`
	NotFound []string    `json:"notFound" example:"[\"NO-SUCH-SKU\"]" doc:"SKUs that are not known"`
}

// priceLine is a SKU's price.
type priceLine struct {
	SKU       string       `json:"sku" example:"85123A"`
	Price     moneyBody    `json:"price" doc:"What the partner pays"`
	ListPrice moneyBody    `json:"listPrice" doc:"Before discounts"`
	Currency  currencyText `json:"currency"`
	AsOf      stamp        `json:"asOf" doc:"When the value was last known to be right"`
	Stale     bool         `json:"stale" doc:"Whether asOf is too long ago"`
}

type pricesBody struct {
	Items    []priceLine `json:"items"`
	NotFound []string    `json:"notFound" example:"[\"NO-SUCH-SKU\"]" doc:"SKUs without a price for the partner"`
}

type productBody struct {
	SKU        string            `json:"sku" example:"85123A"`
	Name       string            `json:"name" example:"White hanging heart T-light holder"`
	Segment    string            `json:"segment,omitempty" example:"decoration"`
	Attributes map[string]string `json:"attributes" example:"{\"colour\":\"white\"}"`
	ChangedAt  stamp             `json:"changedAt"`
}

var skuParameter = queryParameter("sku", "Up to 100 SKUs, as repeated parameters or separated by commas; empty ones are left out. A SKU that contains a comma can only be asked by POST.", true,
	&huma.Schema{Type: huma.TypeArray, Items: bounded(huma.Schema{Type: huma.TypeString, Pattern: plainPattern}, "", 0, maxAskedSKU)})

func (a *API) stockEndpoints() []*endpoint {
	good := []answer{{status: 200, description: "The known SKUs in the order asked", body: reflect.TypeFor[stockBody](), headers: []string{ageHeader}}}
	return []*endpoint{
		{
			method: http.MethodGet, path: "/v1/stock", id: "stock", tag: "catalogue", summary: "Stock of up to 100 SKUs", description: conditionalDescription + weakDescription + " " + keptDescription,
			access: partners, quota: quota.Reads, frequent: true, parameters: []*huma.Param{skuParameter, ifNoneMatch}, answers: conditional(good, asOfHeader, ageHeader),
			refusals: []eventstore.Code{CodeParameterMissing, CodeTooManySKUs, sku.CodeInvalid, CodeOverloaded},
			handle:   func(c *call) error { return c.byQuery(ofStock, c.keptStock) },
		},
		{
			method: http.MethodPost, path: "/v1/stock/query", id: "stockQuery", tag: "catalogue", summary: "Stock of up to 1,000 SKUs", description: batchDescription,
			access: partners, quota: quota.Reads, frequent: true, body: reflect.TypeFor[skusBody](), answers: good,
			refusals: []eventstore.Code{CodeOverloaded},
			handle:   func(c *call) error { return c.withBodySKUs(c.keptStock) },
		},
	}
}

func (a *API) priceEndpoints() []*endpoint {
	good := []answer{{status: 200, description: "The known SKUs in the order asked", body: reflect.TypeFor[pricesBody](), headers: []string{ageHeader}}}
	return []*endpoint{
		{
			method: http.MethodGet, path: "/v1/prices", id: "prices", tag: "catalogue", summary: "Prices of up to 100 SKUs", description: conditionalDescription + weakDescription + " " + keptDescription,
			access: partners, quota: quota.Reads, frequent: true, parameters: []*huma.Param{skuParameter, ifNoneMatch}, answers: conditional(good, asOfHeader, ageHeader),
			refusals: []eventstore.Code{CodeParameterMissing, CodeTooManySKUs, sku.CodeInvalid, CodeOverloaded},
			handle:   func(c *call) error { return c.byQuery(ofPrices, c.keptPrices) },
		},
		{
			method: http.MethodPost, path: "/v1/prices/query", id: "pricesQuery", tag: "catalogue", summary: "Prices of up to 1,000 SKUs", description: batchDescription,
			access: partners, quota: quota.Reads, frequent: true, body: reflect.TypeFor[skusBody](), answers: good,
			refusals: []eventstore.Code{CodeOverloaded},
			handle:   func(c *call) error { return c.withBodySKUs(c.keptPrices) },
		},
	}
}

func (a *API) productEndpoints() []*endpoint {
	return []*endpoint{{
		method: http.MethodGet, path: productPrefix + "{sku}", id: "product", tag: "catalogue", summary: "A product",
		description: "All that follows /v1/products/ is the SKU, percent-encoded once. " + conditionalDescription,
		access:      partners, quota: quota.Reads, frequent: true, parameters: []*huma.Param{ifNoneMatch},
		answers:  conditional([]answer{{status: 200, description: "The product", body: reflect.TypeFor[productBody]()}}),
		refusals: []eventstore.Code{order.CodeNotFound, CodeOverloaded},
		handle:   (*call).answerProduct,
	}}
}

// byQuery answers for the SKUs of the query string.
func (c *call) byQuery(kind string, answer func(skus []string) error) error {
	if c.giveRemembered(kind) {
		return nil
	}
	return c.withQuerySKUs(answer)
}

// withQuerySKUs reads the SKUs of the query string.
func (c *call) withQuerySKUs(answer func(skus []string) error) error {
	if list, simple := simpleSKUs(c.request.URL.RawQuery); simple {
		skus, err := appendSKUs(make([]string, 0, min(maxSKUsInQuery, 1+strings.Count(list, ","))), list, hintBatch)
		if err != nil {
			return err
		}
		return answerSome(skus, answer)
	}
	values, err := c.query("sku")
	if err != nil {
		return err
	}
	var skus []string
	for _, part := range values["sku"] {
		if skus, err = appendSKUs(skus, part, hintBatch); err != nil {
			return err
		}
	}
	return answerSome(skus, answer)
}

func answerSome(skus []string, answer func(skus []string) error) error {
	if len(skus) == 0 {
		return parameterProblem(CodeParameterMissing, "sku", "at least one SKU is needed")
	}
	return answer(skus)
}

// simpleSKUs gives the list of a query string that is one parameter sku, in which nothing is encoded: most are.
func simpleSKUs(query string) (list string, simple bool) {
	list, simple = strings.CutPrefix(query, "sku=")
	for i := range len(list) {
		if b := list[i]; b <= ' ' || b >= 0x7f || b == '%' || b == '+' || b == '&' || b == ';' {
			return "", false
		}
	}
	return list, simple
}

// What to do about too many SKUs.
const (
	hintBatch  = "POST takes more"
	hintFollow = "leave sku out to follow all"
)

// appendSKUs adds the SKUs of a list that is separated by commas. Empty elements are left out, as in the lists of HTTP
// (RFC 9110, 5.6.1).
func appendSKUs(skus []string, list, hint string) ([]string, error) {
	for text := range strings.SplitSeq(list, ",") {
		if text == "" {
			continue
		}
		if len(text) > maxAskedSKU && utf8.RuneCountInString(text) > maxAskedSKU {
			return nil, parameterProblem(sku.CodeInvalid, "sku", "a SKU is too long")
		}
		if len(skus) == maxSKUsInQuery {
			return nil, parameterProblem(CodeTooManySKUs, "sku", "at most "+strconv.Itoa(maxSKUsInQuery)+" SKUs; "+hint)
		}
		skus = append(skus, text)
	}
	return skus, nil
}

// withBodySKUs reads the SKUs of the body.
func (c *call) withBodySKUs(answer func(skus []string) error) error {
	body, err := readBody[skusBody](c)
	if err != nil {
		return err
	}
	skus := make([]string, len(body.SKUs))
	for i, text := range body.SKUs {
		skus[i] = string(text)
	}
	if err := c.takeMore(costOf(len(skus))); err != nil {
		return err
	}
	return answer(skus)
}

// query parses the query string and refuses parameters that the endpoint does not have.
func (c *call) query(names ...string) (url.Values, error) {
	values, err := url.ParseQuery(c.request.URL.RawQuery)
	if err != nil {
		return nil, eventstore.Refuse(CodeQueryMalformed, "the query string is not percent-encoded properly")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) { // the same answer to the same question
		if !slices.Contains(names, name) {
			shown := shownName(name)
			return nil, parameterProblem(CodeParameterUnknown, url.QueryEscape(shown),
				strconv.QuoteToASCII(shown)+" is no parameter here; the parameters are: "+cmp.Or(strings.Join(names, ", "), "none"))
		}
		for _, text := range values[name] {
			if !utf8.ValidString(text) || !plainText(text) {
				return nil, parameterProblem(CodeTextInvalid, name, "the text is not UTF-8, or has control characters")
			}
		}
	}
	return values, nil
}

// maxShownName bounds what an answer repeats of a name that a caller made up.
const maxShownName = 40

func shownName(name string) string {
	if len(name) > maxShownName {
		return name[:maxShownName] + "..."
	}
	return name
}

// parameterProblem is a refusal for a query parameter.
func parameterProblem(code eventstore.Code, name, detail string) error {
	pointer := ""
	if name != "" {
		pointer = "#" + name
	}
	return &eventstore.Refusal{Code: code, Detail: detail, Problems: []eventstore.Problem{{Pointer: pointer, Code: code, Detail: detail}}}
}

func (c *call) answerStock(skus []string) error {
	ctx := c.patience()
	channel, err := c.channel(ctx)
	if err != nil {
		return err
	}
	c.hold(&channel.Policy, skus)
	answers, notFound, err := queries.Stock(ctx, c.api.Reader, channel.Policy, c.api.Thresholds, c.api.Clock(), skus)
	if err != nil {
		return err
	}
	c.raw(func(p *page) { p.stockLists(answers, notFound) })
	return nil
}

func (c *call) answerPrices(skus []string) error {
	ctx := c.patience()
	channel, err := c.channel(ctx)
	if err != nil {
		return err
	}
	c.hold(&channel.Policy, skus)
	answers, notFound, err := queries.Prices(ctx, c.api.Reader, channel.Policy, c.api.Thresholds, c.api.Clock(), skus)
	if err != nil {
		return err
	}
	c.raw(func(p *page) { p.priceLists(answers, notFound) })
	return nil
}

func (c *call) answerProduct() error {
	text := c.sku
	if sku.Check(text) != "" {
		return eventstore.Refuse(order.CodeNotFound, "there is no such product")
	}
	ctx := c.patience()
	view, known, err := queries.Product(ctx, c.api.Reader, c.api.Clock(), text)
	if err != nil {
		return err
	}
	if !known {
		return eventstore.Refuse(order.CodeNotFound, "there is no such product")
	}
	c.raw(func(p *page) {
		p.literal(`{"sku":`)
		p.quoted(text)
		p.literal(`,"name":`)
		p.quoted(view.Name)
		if view.Segment != "" {
			p.literal(`,"segment":`)
			p.quoted(view.Segment)
		}
		p.literal(`,"attributes":{`)
		for i, name := range slices.Sorted(maps.Keys(view.Attributes)) {
			if i > 0 {
				p.literal(",")
			}
			p.quoted(name)
			p.literal(":")
			p.quoted(view.Attributes[name])
		}
		p.literal(`},"changedAt":`)
		p.time(view.ChangedAt)
		p.literal("}")
	})
	return nil
}

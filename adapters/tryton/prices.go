package tryton

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/apd/v3"

	"andes/commands/money"
	"andes/commands/price"
	"andes/polling"
)

// Prices is the feed of what SKUs cost: the products' list prices, as a price list of their own, and what each
// price list of Tryton's makes of them for one unit. A price list is formulas, so a change of one changes the
// prices of all products, without a stamp of theirs: it makes the comparison urgent.
func (c *Catalogue) Prices() polling.Source {
	return c.source(c.prices, c.pricesGone, c.listsSign)
}

// priceList is one of Tryton's.
type priceList struct {
	ID      int64           `json:"id"`
	Name    string          `json:"name"`
	Written json.RawMessage `json:"write_date"`
	Lines   json.RawMessage `json:"lines."`
}

func (c *Catalogue) lists(ctx context.Context, company company) ([]priceList, error) {
	var found []priceList
	err := c.Client.call(ctx, reading, "model.product.price_list.search_read", &found,
		domain{term("company", "=", company.id), term("active", "=", true)}, 0, maxRelated, [][]string{{"id", "ASC"}},
		[]string{"name", "write_date", "lines.write_date"}, company.all())
	if err == nil && len(found) == maxRelated {
		err = fmt.Errorf("tryton: there are %d price lists or more", maxRelated)
	}
	return found, err
}

// listsSign changes when a price list or one of its lines is added, written or removed.
func (c *Catalogue) listsSign(ctx context.Context) (string, error) {
	company, err := c.Client.companyOf(ctx)
	if err != nil {
		return "", err
	}
	lists, err := c.lists(ctx, company)
	if err != nil {
		return "", err
	}
	sign, err := json.Marshal(lists)
	return string(sign), err
}

// prices says what the products with these codes cost.
func (c *Catalogue) prices(ctx context.Context, codes []string) (told, error) {
	if len(codes) == 0 {
		return told{}, nil
	}
	company, err := c.Client.companyOf(ctx)
	if err != nil {
		return told{}, err
	}
	lists, err := c.lists(ctx, company)
	if err != nil {
		return told{}, err
	}
	known, err := c.knownPrices(ctx, lists, codes)
	if err != nil {
		return told{}, err
	}
	found, err := c.articles(ctx, company.all(), codes)
	if err != nil {
		return told{}, err
	}
	said := told{items: map[string][]polling.Item{}}
	ids := map[int64][]int64{} // by unit
	for code, same := range found {
		if a := sold(same); a.id != 0 {
			ids[a.unitID] = append(ids[a.unitID], a.id)
			c.tell(&said, known, price.Report{List: c.PriceList, SKU: code, Amount: plain(a.listPrice), Currency: company.currency, At: a.changed})
		}
	}
	for _, list := range lists {
		for unit, ids := range ids {
			computed, err := c.computed(ctx, company, list, unit, ids)
			if err != nil {
				return told{}, err
			}
			for code, amount := range computed {
				c.tell(&said, known, price.Report{List: list.Name, SKU: code, Amount: rounded(amount, company.currency), Currency: company.currency, At: c.now()})
			}
		}
	}
	for key, state := range known {
		if _, code := price.ParseKey(key); !state.Removed && !slices.Contains(said.keys, key) {
			c.remove(&said, key, code, state)
		}
	}
	return said, nil
}

// knownPrices is what Andes has of these products, on the lists that there are.
func (c *Catalogue) knownPrices(ctx context.Context, lists []priceList, codes []string) (map[string]price.State, error) {
	names := []string{c.PriceList}
	for _, list := range lists {
		names = append(names, list.Name)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(lists)+1 {
		return nil, errors.New("tryton: two price lists have the same name")
	}
	var keys []string
	for _, name := range names {
		for _, code := range codes {
			keys = append(keys, price.Key(name, code))
		}
	}
	return kept(ctx, c.Reader, price.Aggregate, keys)
}

// tell adds a price. One that is empty there is not.
func (c *Catalogue) tell(said *told, known map[string]price.State, report price.Report) {
	if report.Amount == "" {
		return
	}
	key := price.Key(report.List, report.SKU)
	state, isKnown := known[key]
	same := false
	if amount, err := money.Parse(report.Amount, report.Currency); err == nil {
		same = isKnown && !state.Removed && state.Price == amount
	}
	report.SourceVersion = version(state.SourceVersion, same, report.At)
	said.keys = append(said.keys, key)
	said.items[report.SKU] = append(said.items[report.SKU], polling.Item{ID: key, Version: report.SourceVersion, Command: report, Meta: byERP})
}

func (c *Catalogue) remove(said *told, key, code string, state price.State) {
	list, _ := price.ParseKey(key)
	report := price.Report{List: list, SKU: code, Removed: true, At: c.now()}
	report.SourceVersion = version(state.SourceVersion, false, report.At)
	said.items[code] = append(said.items[code], polling.Item{ID: key, Version: report.SourceVersion, Command: report, Meta: byERP})
}

// computed is what a price list makes of products, for one of the unit that their stock is counted in. Without
// being told a unit, Tryton takes the one that they are sold in.
func (c *Catalogue) computed(ctx context.Context, company company, list priceList, unit int64, ids []int64) (map[string]decimal, error) {
	var found []struct {
		Code   string  `json:"code"`
		Amount decimal `json:"sale_price_uom"`
	}
	with := company.all().with("price_list", list.ID).with("quantity", 1).with("uom", unit)
	if err := c.Client.call(ctx, reading, "model.product.product.read", &found, ids, []string{"code", "sale_price_uom"}, with); err != nil {
		return nil, fmt.Errorf("price list %s: %w", list.Name, err)
	}
	amounts := make(map[string]decimal, len(found))
	for _, product := range found {
		amounts[product.Code] = product.Amount
	}
	return amounts, nil
}

// exact is wide enough for every price that there is.
var exact = apd.Context{Precision: 60, MaxExponent: apd.MaxExponent, MinExponent: apd.MinExponent, Rounding: apd.RoundHalfEven, Traps: apd.DefaultTraps}

// plain writes a price without the zeros at its end, which are only the width of Tryton's field. What a person
// entered is not rounded: more decimals than the currency has are refused by whoever reads them.
func plain(amount decimal) string {
	number, _, err := apd.NewFromString(string(amount))
	if err != nil {
		return string(amount)
	}
	number.Reduce(number)
	return number.Text('f')
}

// rounded writes a computed price with the decimals of its currency, rounded half-even, as Andes' own
// discounts are.
func rounded(amount decimal, currency string) string {
	exponent, known := money.Exponent(currency)
	number, _, err := apd.NewFromString(string(amount))
	if err != nil || !known {
		return string(amount)
	}
	if _, err := exact.Quantize(number, number, int32(-exponent)); err != nil {
		return string(amount)
	}
	return number.Text('f')
}

// pricesGone finds the prices that Andes has and Tryton has not: of products and of price lists that are gone.
func (c *Catalogue) pricesGone(ctx context.Context, seen map[string]struct{}) ([]polling.Item, error) {
	missing, err := polling.Missing(ctx, c.States, price.Aggregate, seen, func(state price.State) bool { return state.Removed })
	if err != nil {
		return nil, err
	}
	var items []polling.Item
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(missing)), c.pageSize()) {
		again, err := c.pricesAgain(ctx, keys)
		if err != nil {
			return nil, err
		}
		items = append(items, again...)
	}
	return items, nil
}

// pricesAgain asks for prices by name once more, and takes those for removed that are not there.
func (c *Catalogue) pricesAgain(ctx context.Context, keys []string) ([]polling.Item, error) {
	var codes []string
	for _, key := range keys {
		_, code := price.ParseKey(key)
		codes = append(codes, code)
	}
	slices.Sort(codes)
	said, err := c.prices(ctx, slices.Compact(codes))
	if err != nil {
		return nil, err
	}
	var items []polling.Item
	mentioned := map[string]bool{}
	for _, told := range said.items {
		items = append(items, told...)
		for _, item := range told {
			mentioned[item.ID] = true
		}
	}
	known, err := kept(ctx, c.Reader, price.Aggregate, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if !mentioned[key] {
			_, code := price.ParseKey(key)
			gone := told{items: map[string][]polling.Item{}}
			c.remove(&gone, key, code, known[key])
			items = append(items, gone.items[code]...)
		}
	}
	return items, nil
}

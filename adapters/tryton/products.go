package tryton

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"andes/commands/product"
	"andes/eventstore"
	"andes/polling"
)

// Products is the feed of what is sold.
func (c *Catalogue) Products() polling.Source {
	return c.source(c.describe, c.productsGone, nil)
}

// article is a product variant with what it has of its template.
type article struct {
	id          int64
	code        string
	name        string
	description string
	unitID      int64 // what its quantities and prices are of
	unit        string
	category    string
	sold        bool // it is active and salable
	changed     time.Time
	listPrice   decimal
}

var articleFields = []string{
	"code", "active", "create_date", "write_date", "description", "list_price",
	"template.name", "template.active", "template.salable", "template.write_date",
	"template.default_uom.symbol", "template.categories.name",
}

func articleOf(f fields) (article, error) {
	var a article
	var code, name, description, unit *string
	var active, templateActive, salable bool
	var created, written, templateWritten stamp
	var categories []struct {
		Name string `json:"name"`
	}
	err := f.read(map[string]any{
		"id": &a.id, "code": &code, "active": &active, "create_date": &created, "write_date": &written,
		"description": &description, "list_price": &a.listPrice,
		"template.name": &name, "template.active": &templateActive, "template.salable": &salable, "template.write_date": &templateWritten,
		"template.default_uom.id": &a.unitID, "template.default_uom.symbol": &unit, "template.categories.": &categories,
	})
	a.code, a.name, a.description, a.unit = text(code), text(name), text(description), text(unit)
	a.sold = active && templateActive && salable
	a.changed = slices.MaxFunc([]time.Time{created.Time, written.Time, templateWritten.Time}, time.Time.Compare)
	for _, category := range categories {
		if a.category == "" || category.Name < a.category {
			a.category = category.Name
		}
	}
	return a, err
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

// articles reads the products with these codes, inactive ones too: what is not sold any more has to be told.
func (c *Catalogue) articles(ctx context.Context, with settings, codes []string) (map[string][]article, error) {
	limit := maxSameCode * len(codes)
	var found []fields
	err := c.Client.call(ctx, reading, "model.product.product.search_read", &found,
		domain{term("code", "in", codes)}, 0, limit, [][]string{{"id", "ASC"}}, articleFields, with)
	switch {
	case err != nil:
		return nil, err
	case len(found) == limit:
		return nil, fmt.Errorf("tryton: %d products have the same %d codes", limit, len(codes))
	}
	byCode := map[string][]article{}
	for _, f := range found {
		a, err := articleOf(f)
		if err != nil {
			return nil, fmt.Errorf("product %d: %w: %w", a.id, polling.ErrBroken, err)
		}
		byCode[a.code] = append(byCode[a.code], a)
	}
	return byCode, nil
}

// maxSameCode bounds how many products of the same code there are on the average of a page.
const maxSameCode = 5

// sold gives the product of the code that is sold; the zero value if none is. Tryton keeps the codes of active
// products apart, but lets that of an old one be used again.
func sold(same []article) article {
	for _, a := range same {
		if a.sold {
			return a
		}
	}
	return article{}
}

// describe says what the products with these codes are.
func (c *Catalogue) describe(ctx context.Context, codes []string) (told, error) {
	if len(codes) == 0 {
		return told{}, nil
	}
	company, err := c.Client.companyOf(ctx)
	if err != nil {
		return told{}, err
	}
	known, err := kept(ctx, c.Reader, product.Aggregate, codes)
	if err != nil {
		return told{}, err
	}
	found, err := c.articles(ctx, company.all(), codes)
	if err != nil {
		return told{}, err
	}
	said := told{items: map[string][]polling.Item{}, keys: slices.Collect(maps.Keys(found))}
	for code, same := range found {
		state, isKnown := known[code]
		a := sold(same)
		report := product.Report{SKU: code, At: c.now()}
		switch {
		case a.id != 0:
			report = a.report()
			report.SourceVersion = version(state.SourceVersion, isKnown && sameProduct(state, report), a.changed)
		case isKnown && !state.Removed:
			report.Removed, report.SourceVersion = true, version(state.SourceVersion, false, report.At)
		default:
			continue
		}
		said.items[code] = []polling.Item{{ID: code, Version: report.SourceVersion, Command: report, Meta: byERP}}
	}
	return said, nil
}

var byERP = eventstore.Metadata{Actor: "erp"}

func (a article) report() product.Report {
	attributes := map[string]string{}
	for name, value := range map[string]string{"unit": a.unit, "description": a.description} {
		if value != "" {
			attributes[name] = value
		}
	}
	return product.Report{SKU: a.code, Name: a.name, Segment: a.category, Attributes: attributes, At: a.changed}
}

func sameProduct(state product.State, report product.Report) bool {
	return !state.Removed && state.Name == report.Name && state.Segment == report.Segment && maps.Equal(state.Attributes, report.Attributes)
}

// productsGone finds what Andes knows and Tryton has not, asking for it by name once more.
func (c *Catalogue) productsGone(ctx context.Context, seen map[string]struct{}) ([]polling.Item, error) {
	missing, err := polling.Missing(ctx, c.States, product.Aggregate, seen, func(state product.State) bool { return state.Removed })
	if err != nil {
		return nil, err
	}
	var items []polling.Item
	for codes := range slices.Chunk(slices.Sorted(maps.Keys(missing)), c.pageSize()) {
		said, err := c.describe(ctx, codes)
		if err != nil {
			return nil, err
		}
		known, err := kept(ctx, c.Reader, product.Aggregate, codes)
		if err != nil {
			return nil, err
		}
		for _, code := range codes {
			if slices.Contains(said.keys, code) {
				items = append(items, said.items[code]...)
				continue
			}
			report := product.Report{SKU: code, Removed: true, At: c.now()}
			report.SourceVersion = version(known[code].SourceVersion, false, report.At)
			items = append(items, polling.Item{ID: code, Version: report.SourceVersion, Command: report, Meta: byERP})
		}
	}
	return items, nil
}

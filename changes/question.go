package changes

import (
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"time"

	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
)

// Question is what a follower wants to know.
type Question struct {
	Partner partner.State
	Kinds   Kinds
	SKUs    []string // nil: all
	Limit   int      // of values in a page
}

// clockSkew is how far the clocks of the instances may be apart.
const clockSkew = 5 * time.Second

// mark identifies the question. The limit is not part of it.
func (q Question) mark() uint32 {
	m := newMark()
	m.text(q.Partner.ID)
	m.flag(q.Kinds.Stock)
	m.flag(q.Kinds.Prices)
	for _, sku := range slices.Compact(slices.Sorted(slices.Values(q.SKUs))) {
		m.text(sku)
	}
	return m.sum()
}

// policyMark identifies the part of the policy that decides about the followed values at this moment. A
// discount counts only while its window is open, so the mark changes when one begins or ends.
func (q Question) policyMark(now time.Time) uint32 {
	m, policy := newMark(), q.Partner.Policy
	if q.Kinds.Stock {
		m.number(policy.SafetyBuffer)
		m.number(policy.VisibleCap)
	}
	if q.Kinds.Prices {
		m.text(policy.PriceList)
		m.text(policy.Currency)
		for _, d := range policy.Discounts {
			if open(d, now) {
				m.text(d.SKU)
				m.text(d.Segment)
				m.text(d.Percent)
				m.number(d.Amount.Minor)
				m.text(d.Amount.Currency)
			}
		}
	}
	return m.sum()
}

func open(d partner.Discount, now time.Time) bool {
	return (d.From.IsZero() || !now.Before(d.From)) && (d.Until.IsZero() || now.Before(d.Until))
}

// justOpenedOrClosed tells whether a window began or ended so lately that another instance's clock may not be
// there yet.
func (q Question) justOpenedOrClosed(now time.Time) bool {
	if !q.Kinds.Prices {
		return false
	}
	before := now.Add(-clockSkew)
	return slices.ContainsFunc(q.Partner.Policy.Discounts, func(d partner.Discount) bool { return open(d, now) != open(d, before) })
}

// touched gives the SKU whose stock or price the change may have changed for the follower.
func (q Question) touched(c Change) (sku string, inStock, inPrices bool) {
	switch c.Stream.Category {
	case stock.Aggregate.Name:
		return c.Stream.Key, q.Kinds.Stock, false
	case price.Aggregate.Name:
		list, sku := price.ParseKey(c.Stream.Key)
		return sku, false, q.Kinds.Prices && list == q.Partner.Policy.PriceList
	case product.Aggregate.Name:
		return c.Stream.Key, false, q.Kinds.Prices && q.Partner.Policy.BySegment()
	}
	return "", false, false
}

// mark is FNV-1a over fields with their lengths.
type mark struct{ hash io.Writer }

func newMark() mark { return mark{fnv.New32a()} }

func (m mark) text(text string) {
	m.number(int64(len(text)))
	_, _ = io.WriteString(m.hash, text)
}

func (m mark) number(n int64) { _, _ = m.hash.Write(append(strconv.AppendInt(nil, n, 10), ' ')) }

func (m mark) flag(set bool) {
	if set {
		m.number(1)
	} else {
		m.number(0)
	}
}

func (m mark) sum() uint32 { return m.hash.(interface{ Sum32() uint32 }).Sum32() }

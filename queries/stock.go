package queries

import (
	"context"
	"time"

	"andes/commands/partner"
	"andes/commands/source"
)

// StockAnswer is a partner's view of one SKU's stock.
type StockAnswer struct {
	SKU       string
	Available int64
	AsOf      time.Time
	Stale     bool
}

// Stock answers for each SKU in the order asked, and lists the unknown ones. Repeated SKUs are answered
// once.
func Stock(ctx context.Context, reader Reader, policy partner.Policy, limits Thresholds, now time.Time, skus []string) (answers []StockAnswer, notFound []string, err error) {
	asked := unique(skus)
	if answers, notFound, done := glanceStock(reader, &policy, limits, now, asked); done {
		return answers, notFound, nil
	}
	// The watermark first: one that is read after the values may be of a sync that changed them since.
	synced, err := reader.Watermark(ctx, source.WMSStock)
	if err != nil {
		return nil, nil, err
	}
	views, err := reader.Stock(ctx, asked)
	if err != nil {
		return nil, nil, err
	}
	answers = make([]StockAnswer, 0, len(views))
	for _, sku := range asked {
		view, known := views[sku]
		if !known {
			notFound = append(notFound, sku)
			continue
		}
		answers = append(answers, view.answer(sku, &policy, limits, now, synced))
	}
	return answers, notFound, nil
}

// glanceStock answers when all of it is at hand.
func glanceStock(reader Reader, policy *partner.Policy, limits Thresholds, now time.Time, asked []string) (answers []StockAnswer, notFound []string, done bool) {
	quick, able := reader.(Glancer)
	if !able || len(asked) > maxGlance {
		return nil, nil, false
	}
	seen := stockGlances.Get().(*[maxGlance]Seen[StockView])
	defer stockGlances.Put(seen)
	synced, done := quick.GlanceStock(now, source.WMSStock, asked, seen[:len(asked)])
	if !done {
		return nil, nil, false
	}
	answers = make([]StockAnswer, 0, len(asked))
	for i, sku := range asked {
		if !seen[i].There {
			notFound = append(notFound, sku)
			continue
		}
		view := &seen[i].View
		answers = append(answers, view.answer(sku, policy, limits, now, synced))
	}
	return answers, notFound, true
}

func (v *StockView) answer(sku string, policy *partner.Policy, limits Thresholds, now, synced time.Time) StockAnswer {
	at := asOf(v.ChangedAt, synced, v.DoubtedAt)
	return StockAnswer{SKU: sku, Available: policy.Available(v.Net), AsOf: at, Stale: now.Sub(at) > limits.Stock}
}

// few texts are compared with each other; more of them are put into a set.
const few = 16

func unique(skus []string) []string {
	if len(skus) <= few && distinct(skus) {
		return skus
	}
	seen := make(map[string]struct{}, len(skus))
	kept := make([]string, 0, len(skus))
	for _, sku := range skus {
		if _, twice := seen[sku]; !twice {
			seen[sku] = struct{}{}
			kept = append(kept, sku)
		}
	}
	return kept
}

func distinct(texts []string) bool {
	for i, text := range texts {
		for _, earlier := range texts[:i] {
			if same(text, earlier) {
				return false
			}
		}
	}
	return true
}

// same looks at the ends first: SKUs that are asked for together often begin alike.
func same(a, b string) bool {
	return len(a) == len(b) && (len(a) == 0 || a[len(a)-1] == b[len(b)-1]) && a == b
}

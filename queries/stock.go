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
		at := asOf(view.ChangedAt, synced, view.DoubtedAt)
		answers = append(answers, StockAnswer{
			SKU: sku, Available: policy.Available(view.Net), AsOf: at, Stale: now.Sub(at) > limits.Stock,
		})
	}
	return answers, notFound, nil
}

func unique(skus []string) []string {
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

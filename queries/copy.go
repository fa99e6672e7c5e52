package queries

import (
	"context"
	"time"

	"andes/eventstore"
)

// Copy is a read model of the states: quick, but it may lack some and may be away.
type Copy interface {
	Stock(ctx context.Context, skus []string) (Copied[StockView], error)
	Prices(ctx context.Context, list string, skus []string) (Copied[PriceView], error)
	Products(ctx context.Context, skus []string) (Copied[ProductView], error)
	// Watermark tells also whether the copy knows the feed; a known feed without watermark is zero.
	Watermark(ctx context.Context, feed string) (at time.Time, known bool, err error)
}

// Copied is what a copy knows of the SKUs that it was asked for. A SKU that is neither found nor lacking
// is known not to be there.
type Copied[V any] struct {
	Found   map[string]V
	Lacking []string // the copy knows nothing of these
}

// States reads the states themselves, with their positions. A stream without events is missing in the map.
type States interface {
	States(ctx context.Context, streams []eventstore.Stream) (map[eventstore.Stream]eventstore.StateRecord, error)
}

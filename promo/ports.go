package promo

import (
	"context"
	"time"
)

// Swap replaces the kept state if it still is Old.
type Swap struct {
	Old, New string // texts of states
	Action   string // for the audit log
	Detail   string
	Actor    string
	Reason   string
	At       time.Time
}

// Quiet stands for no promo: what is counted while none is on, with which the next one is compared.
const Quiet = ""

// Store keeps the state for all processes, what they counted, and the reports.
type Store interface {
	// Promo gives the kept state; empty: there was none yet.
	Promo(ctx context.Context) (text string, err error)
	// SwapPromo changes it and writes that into the audit log; false: it is no longer Old.
	SwapPromo(ctx context.Context, swap Swap) (bool, error)

	// AddSample keeps what a process did in a slot; one that is there already is replaced.
	AddSample(ctx context.Context, promo string, slot time.Time, process string, sample Sample) error
	// Samples hands over the promo's samples from a slot on, by slot.
	Samples(ctx context.Context, promo string, from time.Time, each func(slot time.Time, process string, sample Sample)) error
	// ForgetSamples lets the samples of no promo before a slot go.
	ForgetSamples(ctx context.Context, before time.Time) error
	// OrderEvents counts the events of orders in a stretch of time, by type; nil: there are too many to count.
	OrderEvents(ctx context.Context, from, until time.Time) (map[string]int64, error)
	// KeepReport keeps a final report, if there is none of the promo, and lets the samples go.
	KeepReport(ctx context.Context, report Report) error
	// Report gives a kept report; empty: the last one.
	Report(ctx context.Context, promo string) (report Report, there bool, err error)
}

// Shelf is the read model with the promo's products.
type Shelf interface {
	// Prepare puts what the read model lacks of the products back, and looks at them then.
	Prepare(ctx context.Context, skus []string) (Look, error)
}

// Look is what was found.
type Look struct {
	Keys    int      `json:"keys" doc:"Entries of the read model that the promo's products have"`
	Lacked  int      `json:"lacked" doc:"Of them that were not there and were put back"`
	Missing int      `json:"missing" doc:"Of them that are not there all the same"`
	Unknown []string `json:"unknown,omitempty" doc:"SKUs without a product, or without stock"`
	Stale   []Stale  `json:"stale,omitempty" doc:"Products whose stock or price is too old"`
	Unsold  []string `json:"unsold,omitempty" doc:"SKUs that no partner's price list has a price for"`
}

// Stale is a value that is too old.
type Stale struct {
	SKU  string `json:"sku"`
	What string `json:"what" enum:"stock,price"`
	Age  Span   `json:"age" example:"7m12s"`
}

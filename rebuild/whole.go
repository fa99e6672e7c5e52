package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
)

// Whole knows whether the read model has all that was written to it. A Redis that was started again, or that was replaced
// by its replica, may have lost the last of what it had acknowledged: older values are there then, which nobody brings anew,
// for the feed is past them.
//
//	the same servers as when it was whole last ──► it still is
//	others ──► compare all values with the states, mend those that differ ──► it is whole again
//
// Which servers they were is kept with the states, for all processes. Watermarks wait meanwhile (projections.Gate), so what
// was lost with them is as old as it looks.
type Whole struct {
	config WholeConfig

	mu    sync.Mutex
	known string // the servers of a whole read model, as last read or kept
}

// WholeConfig is what a Whole needs.
type WholeConfig struct {
	Copy    Identified
	Record  WholeRecord
	Rebuild Config // of the repairs
}

// Identified is a copy whose servers have names.
type Identified interface {
	// Identity changes whenever what was acknowledged may be gone.
	Identity(ctx context.Context) (string, error)
}

// WholeRecord keeps the identity of the last copy that was whole.
type WholeRecord interface {
	WholeCopy(ctx context.Context) (identity string, err error) // "": there was none
	SetWholeCopy(ctx context.Context, was, is string, at time.Time) error
}

// wholePatience is how long a value may take to arrive by the feed before it is mended, which harms nothing.
const wholePatience = time.Second

// repairer is in the audit log for repairs that nobody ordered.
const repairer = "andes"

// NewWhole checks the configuration.
func NewWhole(config WholeConfig) (*Whole, error) {
	if config.Copy == nil || config.Record == nil {
		return nil, errors.New("whole: Copy and Record are needed")
	}
	config.Rebuild.Patience = wholePatience
	config.Rebuild = config.Rebuild.withDefaults()
	return &Whole{config: config}, config.Rebuild.validate()
}

// Check returns when the read model is whole, or says why it can't be made so now.
func (w *Whole) Check(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	identity, err := w.config.Copy.Identity(ctx)
	if err != nil || identity == w.known {
		return err
	}
	was, err := w.config.Record.WholeCopy(ctx)
	if err != nil {
		return err
	}
	if was != identity {
		if err := w.mend(ctx); err != nil {
			return fmt.Errorf("the read model may lack the last of what was written to it: %w", err)
		}
		// Of before the repair: whatever came after is seen by the next check.
		if err := w.config.Record.SetWholeCopy(ctx, was, identity, w.config.Rebuild.Now()); err != nil {
			return err
		}
	}
	w.known = identity
	return nil
}

// values are the read models for whose values watermarks vouch.
var values = []string{stock.Aggregate.Name, price.Aggregate.Name, product.Aggregate.Name}

func (w *Whole) mend(ctx context.Context) error {
	rebuilder := &Rebuilder{w.config.Rebuild}
	began := w.config.Rebuild.Now()
	report, err := rebuilder.Verify(ctx, Check{
		Models: values, Repair: true, Limit: math.MaxInt, Actor: repairer, Reason: "Redis was started again, or another server took over",
	})
	if err != nil {
		return err
	}
	w.config.Rebuild.Logger.LogAttrs(ctx, slog.LevelWarn, "read model: other servers keep it; it was compared with the states",
		slog.Int64("mended", report.Mended()), slog.Int64("differing", report.Differing()), slog.Duration("took", w.config.Rebuild.Now().Sub(began)))
	return nil
}

package rebuild

import (
	"context"
	"fmt"
	"strings"
	"time"

	"andes/projections"
)

// Rollback has the generation answer again that was kept, for the read models (none: all). The one that
// served until now is kept in its place, so a rollback can be rolled back. Nobody sees an older value: the
// live feed writes to both.
func (r *Rebuilder) Rollback(ctx context.Context, models []string, actor, reason string) (projections.Generations, error) {
	if _, err := r.config.Set.Only(models...); err != nil {
		return projections.Generations{}, err
	}
	if len(models) == 0 {
		models = r.config.Set.Names()
	}
	var switched projections.Generations
	err := r.config.Ledger.Exclusively(ctx, func(ctx context.Context) error {
		last, exists, err := r.config.Ledger.Latest(ctx)
		if err != nil {
			return err
		}
		named, err := r.config.Copy.Generations(ctx)
		if err != nil {
			return err
		}
		for _, model := range models {
			lineage := named.Of(model)
			if exists && !last.Ended() && lineage.Names(last.Generation) {
				return fmt.Errorf("the rebuild of %s (generation %s) %w", strings.Join(last.Models, ", "), last.Generation, ErrUnfinished)
			}
			if len(lineage.Others) == 0 {
				return fmt.Errorf("%s: %w", model, ErrNothingKept)
			}
		}
		switched = named.With(r.config.Set.Names(), models, func(l projections.Lineage) projections.Lineage {
			if len(l.Others) == 0 {
				return l
			}
			return l.SwitchedTo(l.Others[0])
		})
		if err := r.config.Copy.Repoint(ctx, named, switched); err != nil {
			return err
		}
		return r.record(ctx, Action{
			Name: "projections.rollback", Actor: actor, Reason: reason,
			Target: strings.Join(models, ","), Generations: switched.String(), Count: int64(len(models)), At: r.config.Now(),
		})
	})
	return switched, err
}

// Status is how the read models are.
type Status struct {
	Pointer string        `json:"pointer"`
	Models  []ModelStatus `json:"models"`
	Last    *Run          `json:"-"` // nil: there was none
}

// ModelStatus is a generation of a read model.
type ModelStatus struct {
	Model      string                 `json:"model"`
	Generation projections.Generation `json:"generation"`
	Role       string                 `json:"role"` // serving, kept, building or stray
	Keys       int64                  `json:"keys"`
	Estimated  bool                   `json:"estimated,omitempty"` // Keys is, from a sample
	Since      time.Time              `json:"since,omitzero"`
}

// Status tells which generations there are and what is in them.
func (r *Rebuilder) Status(ctx context.Context) (Status, error) {
	named, err := r.config.Copy.Generations(ctx)
	if err != nil {
		return Status{}, err
	}
	census, err := r.config.Copy.Census(ctx)
	if err != nil {
		return Status{}, err
	}
	runs, err := r.config.Ledger.Recent(ctx)
	if err != nil {
		return Status{}, err
	}
	status := Status{Pointer: named.String()}
	if len(runs) > 0 {
		status.Last = &runs[0]
	}
	for _, model := range r.config.Set.Names() {
		lineage := named.Of(model)
		for _, generation := range lineage.All() {
			line := ModelStatus{Model: model, Generation: generation, Role: "kept", Keys: census.Keys[generation][model], Estimated: census.Estimated}
			if generation == lineage.Serving {
				line.Role = "serving"
			}
			for _, run := range runs {
				if run.Generation == generation {
					line.Since = run.StartedAt
					if !run.Ended() {
						line.Role = "building"
					}
				}
			}
			status.Models = append(status.Models, line)
		}
		for generation, counts := range census.Keys {
			if n := counts[model]; n > 0 && !lineage.Names(generation) {
				status.Models = append(status.Models, ModelStatus{Model: model, Generation: generation, Role: "stray", Keys: n, Estimated: census.Estimated})
			}
		}
	}
	return status, nil
}

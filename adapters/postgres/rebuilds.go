package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/projections"
	"andes/rebuild"
)

var (
	rebuildSave   = statement("rebuild_save")
	rebuildRecent = statement("rebuild_recent")
	auditInsert   = statement("audit_insert")
)

// Rebuilds keeps the runs of rebuilds, and writes what operators do with read models into the audit log.
// It is a rebuild.Ledger and a rebuild.Audit.
type Rebuilds struct{ DB *DB }

var (
	_ rebuild.Ledger = Rebuilds{}
	_ rebuild.Audit  = Rebuilds{}

	_ rebuild.WholeRecord = Rebuilds{}
)

const (
	// rebuildLease is held by whoever changes the read models' generations.
	rebuildLease = "projections"
	// recentRebuilds is how many runs are told about.
	recentRebuilds = 20
)

// Exclusively implements rebuild.Ledger.
func (r Rebuilds) Exclusively(ctx context.Context, work func(ctx context.Context) error) error {
	err := Leases{DB: r.DB}.Try(ctx, rebuildLease, work)
	if errors.Is(err, ErrLeaseHeld) {
		return rebuild.ErrBusy
	}
	return err
}

// Latest implements rebuild.Ledger.
func (r Rebuilds) Latest(ctx context.Context) (rebuild.Run, bool, error) {
	runs, err := r.list(ctx, 1)
	if err != nil || len(runs) == 0 {
		return rebuild.Run{}, false, err
	}
	return runs[0], true, nil
}

// Recent implements rebuild.Ledger.
func (r Rebuilds) Recent(ctx context.Context) ([]rebuild.Run, error) {
	return r.list(ctx, recentRebuilds)
}

func (r Rebuilds) list(ctx context.Context, limit int) ([]rebuild.Run, error) {
	rows, err := r.DB.pool.Query(ctx, rebuildRecent, limit)
	if err != nil {
		return nil, unavailable(err)
	}
	runs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (rebuild.Run, error) {
		var run rebuild.Run
		var generation int64
		var phase string
		var parts []byte
		var ended *time.Time
		err := row.Scan(&generation, &run.Models, &run.Source, &phase, &parts, &run.Records, &run.Broken, &run.Mended,
			&run.Actor, &run.Failure, &run.StartedAt, &run.UpdatedAt, &ended)
		if err != nil {
			return run, err
		}
		run.Generation, run.Phase = projections.Generation(generation), rebuild.Phase(phase)
		if ended != nil {
			run.EndedAt = *ended
		}
		if parts != nil {
			err = json.Unmarshal(parts, &run.Parts)
		}
		return run, err
	})
	return runs, unavailable(err)
}

// Save implements rebuild.Ledger.
func (r Rebuilds) Save(ctx context.Context, run rebuild.Run) error {
	var parts []byte
	if run.Parts != nil {
		var err error
		if parts, err = json.Marshal(run.Parts); err != nil {
			return fmt.Errorf("encode the parts of a rebuild: %w", err)
		}
	}
	var ended *time.Time
	if !run.EndedAt.IsZero() {
		ended = &run.EndedAt
	}
	_, err := r.DB.pool.Exec(ctx, rebuildSave, int64(run.Generation), run.Models, run.Source, string(run.Phase), parts,
		run.Records, run.Broken, run.Mended, run.Actor, run.Failure, run.StartedAt, run.UpdatedAt, ended)
	return unavailable(err)
}

// auditedProjections is the subject of what is done with read models.
const auditedProjections = "projections"

// Record implements rebuild.Audit.
func (r Rebuilds) Record(ctx context.Context, action rebuild.Action) error {
	_, err := r.DB.pool.Exec(ctx, auditInsert, action.At, action.Actor, action.Name, auditedProjections, action.Generations, action.Count, action.Reason, action.Target)
	return unavailable(err)
}

const (
	wholeCopy    = "projections.whole" // the setting
	wholeCopySet = "projections.whole"
	platformSelf = "andes"
)

// WholeCopy implements rebuild.WholeRecord.
func (r Rebuilds) WholeCopy(ctx context.Context) (string, error) {
	rows, err := Settings(r).read(ctx, wholeCopy)
	return rows[wholeCopy].value, err
}

// SetWholeCopy implements rebuild.WholeRecord. Whoever was quicker has made the copy whole, too.
func (r Rebuilds) SetWholeCopy(ctx context.Context, was, is string, at time.Time) error {
	_, err := Settings(r).swap(ctx, swapped{
		name: wholeCopy, old: was, new: is, action: wholeCopySet, detail: is, by: platformSelf, reason: "compared with the states", at: at,
	})
	return err
}

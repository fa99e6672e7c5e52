package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/deadletters"
)

var (
	dlqClaim            = statement("dlq_claim")
	dlqFinish           = statement("dlq_finish")
	dlqFinishAudited    = statement("dlq_finish_audited")
	dlqRelease          = statement("dlq_release")
	dlqSettlements      = statement("dlq_settlements")
	dlqSettled          = statement("dlq_settled")
	dlqSettledCount     = statement("dlq_settled_count")
	dlqFirstOutstanding = statement("dlq_first_outstanding")
	dlqLastSettled      = statement("dlq_last_settled")
	dlqForget           = statement("dlq_forget")
	dlqForgetFrom       = statement("dlq_forget_from")
	auditPage           = statement("audit_page")
)

// Settlements keeps what operators did with dead letters, and the audit log.
type Settlements struct {
	DB       *DB
	TakeOver time.Duration // a claim older than that is free again; 0: 1 min
}

// defaultTakeOver is longer than a run may take for what it claims at once.
const defaultTakeOver = time.Minute

func (s Settlements) takeOver() time.Duration { return orDefault(s.TakeOver, defaultTakeOver) }

// Settled gives the offsets of a consumer's DLQ, by partition, that are done with.
func (db *DB) Settled(ctx context.Context, consumer string) (map[int32][]int64, error) {
	rows, err := db.pool.Query(ctx, dlqSettled, consumer)
	if err != nil {
		return nil, unavailable(err)
	}
	settled := map[int32][]int64{}
	var partition int32
	var offset int64
	_, err = pgx.ForEachRow(rows, []any{&partition, &offset}, func() error {
		settled[partition] = append(settled[partition], offset)
		return nil
	})
	return settled, unavailable(err)
}

// ForgetSettled drops the settlements from an offset on that are older than the letter that was written there
// just now.
func (db *DB) ForgetSettled(ctx context.Context, consumer string, partition int32, from int64) error {
	_, err := db.pool.Exec(ctx, dlqForgetFrom, consumer, partition, from, writingTakes)
	return unavailable(err)
}

// writingTakes is how long the writing of a letter takes at the most. Nobody can have settled it before.
const writingTakes = time.Minute

// Settlements implements deadletters.Ledger.
func (s Settlements) Settlements(ctx context.Context, consumer string, partition int32, from, until int64) (map[int64]deadletters.Settlement, error) {
	rows, err := s.DB.pool.Query(ctx, dlqSettlements, consumer, partition, from, until, s.takeOver())
	if err != nil {
		return nil, unavailable(err)
	}
	found := map[int64]deadletters.Settlement{}
	var offset int64
	var one deadletters.Settlement
	_, err = pgx.ForEachRow(rows, []any{&offset, &one.Action, &one.Done, &one.Free, &one.Run, &one.Actor, &one.Reason, &one.At}, func() error {
		found[offset] = one
		return nil
	})
	return found, unavailable(err)
}

// SettledCount implements deadletters.Ledger.
func (s Settlements) SettledCount(ctx context.Context, consumer string, partition int32, from int64) (count int64, err error) {
	err = s.DB.pool.QueryRow(ctx, dlqSettledCount, consumer, partition, from).Scan(&count)
	return count, unavailable(err)
}

// FirstOutstanding implements deadletters.Ledger.
func (s Settlements) FirstOutstanding(ctx context.Context, consumer string, partition int32, from int64) (first int64, err error) {
	err = s.DB.pool.QueryRow(ctx, dlqFirstOutstanding, consumer, partition, from).Scan(&first)
	return first, unavailable(err)
}

// LastSettled implements deadletters.Ledger.
func (s Settlements) LastSettled(ctx context.Context, consumer string, partition int32) (last int64, err error) {
	err = s.DB.pool.QueryRow(ctx, dlqLastSettled, consumer, partition).Scan(&last)
	return last, unavailable(err)
}

// Claim implements deadletters.Ledger.
func (s Settlements) Claim(ctx context.Context, claim deadletters.Claim, offsets []int64) ([]int64, error) {
	rows, err := s.DB.pool.Query(ctx, dlqClaim, claim.Consumer, claim.Partition, claim.Action, claim.Run, claim.Actor, claim.Reason, offsets, s.takeOver())
	if err != nil {
		return nil, unavailable(err)
	}
	claimed, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	return claimed, unavailable(err)
}

// Finish implements deadletters.Ledger.
func (s Settlements) Finish(ctx context.Context, claim deadletters.Claim, offsets []int64, entry *deadletters.AuditEntry) error {
	if entry == nil {
		_, err := s.DB.pool.Exec(ctx, dlqFinish, claim.Consumer, claim.Run, claim.Partition, offsets)
		return unavailable(err)
	}
	_, err := s.DB.pool.Exec(ctx, dlqFinishAudited, claim.Consumer, claim.Run, claim.Partition, offsets,
		entry.At, entry.Actor, entry.Action, entry.Count, entry.Reason, entry.Detail)
	return unavailable(err)
}

// Note implements deadletters.Ledger.
func (s Settlements) Note(ctx context.Context, entry deadletters.AuditEntry) error {
	_, err := s.DB.pool.Exec(ctx, auditInsert, entry.At, entry.Actor, entry.Action, entry.Subject, entry.Run, entry.Count, entry.Reason, entry.Detail)
	return unavailable(err)
}

// Release implements deadletters.Ledger.
func (s Settlements) Release(ctx context.Context, claim deadletters.Claim, offsets []int64) error {
	_, err := s.DB.pool.Exec(ctx, dlqRelease, claim.Consumer, claim.Run, claim.Partition, offsets)
	return unavailable(err)
}

// Forget implements deadletters.Ledger.
func (s Settlements) Forget(ctx context.Context, consumer string, partition int32, first int64) error {
	_, err := s.DB.pool.Exec(ctx, dlqForget, consumer, partition, first)
	return unavailable(err)
}

// Audit implements deadletters.Ledger.
func (s Settlements) Audit(ctx context.Context, query deadletters.AuditQuery) ([]deadletters.AuditEntry, error) {
	rows, err := s.DB.pool.Query(ctx, auditPage, query.Before, query.Subject, query.Actor, query.Action, query.Run, query.Limit)
	if err != nil {
		return nil, unavailable(err)
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (deadletters.AuditEntry, error) {
		var e deadletters.AuditEntry
		err := row.Scan(&e.ID, &e.At, &e.Actor, &e.Action, &e.Subject, &e.Run, &e.Count, &e.Reason, &e.Detail)
		e.At = e.At.UTC()
		return e, err
	})
	return entries, unavailable(err)
}

var _ deadletters.Ledger = Settlements{}

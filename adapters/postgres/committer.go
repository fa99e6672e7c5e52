package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"andes/eventstore"
)

// committer owns one connection and commits batch after batch on it.
type committer struct {
	executor *Executor
	conn     *pgx.Conn
	retryAt  time.Time // no attempt to connect before
	usedAt   time.Time // the connection was last found alive
	exposed  bool      // writes of the batch in hand went out: a lost connection leaves its outcome unknown
}

func (c *committer) run(ctx context.Context) {
	defer c.disconnect()
	for ctx.Err() == nil {
		c.executor.turn.Lock()
		jobs := c.abandonLeft(c.executor.collect(ctx))
		if len(jobs) == 0 {
			c.executor.turn.Unlock()
			continue
		}
		landed := make(chan struct{})
		c.executor.flight = flight{len(jobs), landed}
		// A batch in hand is finished even when the process is told to stop.
		released := false
		c.commitAll(context.WithoutCancel(ctx), jobs, func() {
			if !released {
				released = true
				c.executor.turn.Unlock()
			}
		})
		close(landed)
	}
}

// abandonLeft drops the requests whose callers are gone: nothing was done for them.
func (c *committer) abandonLeft(jobs []*job) []*job {
	kept := jobs[:0]
	for _, j := range jobs {
		if j.ctx.Err() != nil {
			c.executor.settle(j, eventstore.Outcome{}, eventstore.ErrUnavailable)
			continue
		}
		kept = append(kept, j)
	}
	return kept
}

// commitAll commits the jobs together. When the database refuses the batch for what is in it, the batch
// is halved until the poisoned command stands alone and fails alone.
func (c *committer) commitAll(ctx context.Context, jobs []*job, sent func()) {
	defer sent()
	began := time.Now()
	stats := BatchStats{Requests: len(jobs)}
	batch, base, err := c.commit(ctx, jobs, &stats, sent)
	stats.Took, stats.Err = time.Since(began), err
	if c.executor.config.Observe != nil {
		c.executor.config.Observe(stats)
	}
	switch {
	case err == nil:
		for i, j := range jobs {
			outcome, err := batch.Outcome(i, base)
			c.executor.settle(j, outcome, err)
		}
	case len(jobs) > 1 && poisoned(err):
		half := len(jobs) / 2
		c.commitAll(ctx, jobs[:half], func() {})
		c.commitAll(ctx, jobs[half:], func() {})
	default:
		c.executor.config.Logger.Error("commit failed", "requests", len(jobs), "error", err.Error())
		for _, j := range jobs {
			c.executor.settle(j, eventstore.Outcome{}, err)
		}
	}
}

// poisoned tells whether the content of the batch is at fault: data exceptions, broken constraints,
// program limits. Anything else would hit each half as well.
func poisoned(err error) bool {
	fault, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return errors.Is(err, errRounds) || isEncodingFault(err)
	}
	class := fault.Code[:2]
	return class == "22" || class == "23" || class == "54"
}

// isEncodingFault: pgx refused to send a value (say, text that is not UTF-8).
func isEncodingFault(err error) bool {
	return !errors.Is(err, eventstore.ErrUnavailable) && !errors.Is(err, eventstore.ErrOutcomeUnknown) && pgconn.SafeToRetry(err)
}

var errRounds = fmt.Errorf("a command asked for further streams %d times", eventstore.MaxRounds)

// commit decides and writes one batch. When the connection turns out to be dead before any write went
// out, the batch is run again on a new one.
func (c *committer) commit(ctx context.Context, jobs []*job, stats *BatchStats, sent func()) (*eventstore.Batch, int64, error) {
	batch, base, err := c.attempt(ctx, jobs, stats, sent)
	if err != nil && !c.exposed && (c.conn == nil || c.conn.IsClosed()) {
		batch, base, err = c.attempt(ctx, jobs, stats, sent)
	}
	return batch, base, err
}

func (c *committer) attempt(ctx context.Context, jobs []*job, stats *BatchStats, sent func()) (*eventstore.Batch, int64, error) {
	c.exposed = false
	if err := c.connected(ctx); err != nil {
		return nil, 0, err
	}
	requests := make([]eventstore.Request, len(jobs))
	for i, j := range jobs {
		requests[i] = j.request
	}
	config := c.executor.config
	batch := eventstore.NewBatch(c.executor.db.registry, config.Now().UTC(), config.NewID, requests)
	if len(batch.Needs()) == 0 && len(batch.Keys()) == 0 {
		writes, complete := batch.Decide()
		if complete {
			base, err := c.writeOnly(ctx, writes, stats, sent)
			if !isVersionConflict(err) {
				return batch, base, c.classified(err)
			}
			batch.Distrust()
		}
	}
	base, err := c.loadAndWrite(ctx, batch, stats, sent)
	return batch, base, c.classified(err)
}

// writeOnly sends lock, writes and commit in one round trip: the statements of a pipeline are one
// transaction until its end.
func (c *committer) writeOnly(ctx context.Context, writes eventstore.Writes, stats *BatchStats, sent func()) (int64, error) {
	if writes.Empty() {
		return 0, nil
	}
	pipeline := &pgx.Batch{}
	pipeline.Queue(lockShard, shard)
	allotting := queueWrites(pipeline, writes)
	stats.RoundTrips, stats.Events = stats.RoundTrips+1, len(writes.Events)
	return c.send(ctx, pipeline, allotting, sent)
}

// loadAndWrite takes the lock, loads what the batch asks for, decides, writes and commits.
func (c *committer) loadAndWrite(ctx context.Context, batch *eventstore.Batch, stats *BatchStats, sent func()) (int64, error) {
	opening := &pgx.Batch{}
	opening.Queue("BEGIN")
	opening.Queue(lockShard, shard)
	base, err := func() (int64, error) {
		for round := range eventstore.MaxRounds {
			if round > 0 {
				opening = &pgx.Batch{}
			}
			stats.RoundTrips++
			if err := c.load(ctx, opening, batch, round == 0); err != nil {
				return 0, err
			}
			writes, complete := batch.Decide()
			if !complete {
				continue
			}
			pipeline := &pgx.Batch{}
			allotting := queueWrites(pipeline, writes)
			pipeline.Queue("COMMIT")
			stats.RoundTrips, stats.Events = stats.RoundTrips+1, len(writes.Events)
			return c.send(ctx, pipeline, allotting, sent)
		}
		return 0, errRounds
	}()
	if err != nil {
		c.rollback(ctx)
	}
	return base, err
}

// load fetches the streams that the batch asks for and, in the first round, the kept answers.
func (c *committer) load(ctx context.Context, pipeline *pgx.Batch, batch *eventstore.Batch, first bool) error {
	needs := batch.Needs()
	skip := pipeline.Len()
	if len(needs) > 0 {
		categories, keys := make([]string, len(needs)), make([]string, len(needs))
		for i, stream := range needs {
			categories[i], keys[i] = stream.Category, stream.Key
		}
		pipeline.Queue(loadStates, categories, keys)
	}
	answerKeys := batch.Keys()
	withAnswers := first && len(answerKeys) > 0
	if withAnswers {
		scopes, keys := make([]string, len(answerKeys)), make([]string, len(answerKeys))
		for i, key := range answerKeys {
			scopes[i], keys[i] = key.Scope, key.Key
		}
		pipeline.Queue(loadAnswers, scopes, keys, c.executor.config.Now())
	}
	results := c.conn.SendBatch(ctx, pipeline)
	defer func() { _ = results.Close() }()
	for range skip {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	if len(needs) > 0 {
		if err := supplyStates(results, batch, needs); err != nil {
			return err
		}
	}
	if withAnswers {
		if err := supplyAnswers(results, batch); err != nil {
			return err
		}
	}
	return results.Close()
}

func supplyStates(results pgx.BatchResults, batch *eventstore.Batch, needs []eventstore.Stream) error {
	for _, stream := range needs {
		batch.Supply(stream, eventstore.Snapshot{})
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		state, err := scanState(rows)
		if err != nil {
			return err
		}
		batch.Supply(state.Stream, eventstore.Snapshot{Version: state.Version, Position: state.Position, State: state.State})
	}
	return rows.Err()
}

func supplyAnswers(results pgx.BatchResults, batch *eventstore.Batch) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key eventstore.IdempotencyKey
		var kept eventstore.StoredAnswer
		var fingerprint []byte
		if err := rows.Scan(&key.Scope, &key.Key, &fingerprint, &kept.Status, &kept.Body); err != nil {
			return err
		}
		copy(kept.Fingerprint[:], fingerprint)
		batch.SupplyAnswer(key, kept)
	}
	return rows.Err()
}

// send runs a pipeline that ends in a commit, and gives the position before its first event.
func (c *committer) send(ctx context.Context, pipeline *pgx.Batch, allotting int, sent func()) (int64, error) {
	c.exposed = true
	results := c.conn.SendBatch(ctx, pipeline)
	sent()
	var first int64 // position
	for i := range pipeline.Len() {
		var err error
		if i == allotting {
			err = results.QueryRow().Scan(&first)
		} else {
			_, err = results.Exec()
		}
		if err != nil {
			_ = results.Close()
			return 0, err
		}
	}
	if err := results.Close(); err != nil {
		return 0, err
	}
	return first - 1, nil
}

func (c *committer) rollback(ctx context.Context) {
	if c.conn.IsClosed() {
		return
	}
	if _, err := c.conn.Exec(ctx, "ROLLBACK"); err != nil {
		c.disconnect()
	}
}

// classified says what a failure means to the callers.
func (c *committer) classified(err error) error {
	fault, fromServer := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil, errors.Is(err, errRounds):
		return err
	case c.conn.IsClosed() && c.exposed:
		return fmt.Errorf("%w: %w", eventstore.ErrOutcomeUnknown, err)
	case c.conn.IsClosed(), fromServer && transientCode(fault.Code):
		return fmt.Errorf("%w: %w", eventstore.ErrUnavailable, err)
	}
	return err
}

// transientCode: the server refused the work as it is now, not for what it is. Lock and statement
// timeouts, shutdown, read-only, out of resources, serialisation.
func transientCode(code string) bool {
	switch code[:2] {
	case "40", "53", "57", "58", "08":
		return true
	}
	return code == "55P03" || code == "25006"
}

func isVersionConflict(err error) bool {
	fault, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (fault.Code == "AN001" || fault.Code == "23505")
}

// connected makes sure that there is a connection, within a bounded time.
func (c *committer) connected(ctx context.Context) error {
	if c.conn != nil && !c.conn.IsClosed() {
		if time.Since(c.usedAt) < maxIdle {
			c.usedAt = time.Now()
			return nil
		}
		if err := ping(ctx, c.conn); err == nil {
			c.usedAt = time.Now()
			return nil
		}
		c.disconnect()
	}
	if time.Now().Before(c.retryAt) {
		return eventstore.ErrUnavailable // callers get their answer at once; a lost database is not hammered
	}
	conn, err := c.executor.db.connect(ctx)
	if err != nil {
		c.retryAt = time.Now().Add(c.executor.config.ReconnectIn)
		return err
	}
	c.conn, c.usedAt = conn, time.Now()
	return nil
}

// maxIdle is how long an unused connection is trusted; after that it is asked first.
const maxIdle = time.Second

func (c *committer) disconnect() {
	if c.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx)
	c.conn = nil
}

package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"andes/eventstore"
	"andes/rebuild"
)

var (
	statePage    = statement("state_page")
	stateCount   = statement("state_count")
	statesOfSKUs = statement("states_of_skus")
	readCategory = statement("read_category")
)

// Bounds of what is read at a time. How many states fit is learnt from the page before.
const (
	firstStates     = 100
	maxStates       = 1000
	minStates       = 10
	bytesPerPage    = 512 << 10
	eventsPerPage   = 1000
	maxStatesOfSKUs = 100_000

	behindAllVersions = 1<<63 - 1
)

var _ rebuild.States = (*DB)(nil)

// EachState implements rebuild.States.
func (db *DB) EachState(ctx context.Context, category string, take func(records []eventstore.StateRecord) error) error {
	return db.statesAfter(ctx, category, "", take)
}

func (db *DB) statesAfter(ctx context.Context, category, after string, take func(records []eventstore.StateRecord) error) error {
	for limit := firstStates; ; {
		rows, err := db.pool.Query(ctx, statePage, category, after, limit)
		page, err := collectPage(category, limit, rows, err)
		if err != nil {
			return err
		}
		if len(page) > 0 {
			after = page[len(page)-1].Stream.Key
			if err := take(page); err != nil {
				return err
			}
		}
		if len(page) < limit {
			return nil
		}
		limit = nextLimit(page)
	}
}

// collectPage collects the states of a category, of which a rebuild reads all there are: it copies no more
// than it has to.
func collectPage(category string, limit int, rows pgx.Rows, err error) ([]eventstore.StateRecord, error) {
	if err != nil {
		return nil, unavailable(err)
	}
	defer rows.Close()
	page := make([]eventstore.StateRecord, 0, limit)
	var kept arena
	var key, owner, state pgtype.DriverBytes
	var version, position int64
	for rows.Next() {
		if err := rows.Scan(&key, &version, &position, &owner, &state); err != nil {
			return nil, unavailable(err)
		}
		page = append(page, eventstore.StateRecord{
			Stream:  eventstore.Stream{Category: category, Key: string(key)},
			Version: version, Position: position, Owner: string(owner), State: kept.keep(state),
		})
	}
	return page, unavailable(rows.Err())
}

// arena keeps many small texts in few pieces of memory. A piece lives as long as any text in it.
type arena struct{ piece []byte }

const arenaPiece = 64 << 10

func (a *arena) keep(text []byte) []byte {
	if text == nil {
		return nil
	}
	if len(text) > cap(a.piece)-len(a.piece) {
		a.piece = make([]byte, 0, max(arenaPiece, len(text)))
	}
	begin := len(a.piece)
	a.piece = append(a.piece, text...)
	return a.piece[begin:len(a.piece):len(a.piece)]
}

// nextLimit is how many states of the size of these fit a page.
func nextLimit(page []eventstore.StateRecord) int {
	size := 1
	for _, state := range page {
		size += len(state.State)
	}
	return min(max(bytesPerPage*len(page)/size, minStates), maxStates)
}

// StatesOfSKUs implements rebuild.States.
func (db *DB) StatesOfSKUs(ctx context.Context, category string, skus []string) ([]eventstore.StateRecord, error) {
	rows, err := db.pool.Query(ctx, statesOfSKUs, category, skus, maxStatesOfSKUs)
	return collectStates(rows, err)
}

// StateSource gives what PostgreSQL has, for a rebuild when the topics have lost it: the states as they
// are kept, or folded from the events anew. It is a rebuild.Source with a part for each category, whose
// size is an estimate.
type StateSource struct {
	DB     *DB
	Events bool // fold the events
}

var _ rebuild.Source = StateSource{}

// Parts implements rebuild.Source.
func (s StateSource) Parts(ctx context.Context, categories []string) ([]rebuild.Part, error) {
	var parts []rebuild.Part
	for _, category := range categories {
		part := rebuild.Part{Name: category}
		if err := s.DB.pool.QueryRow(ctx, stateCount, category).Scan(&part.End); err != nil {
			return nil, unavailable(err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// Extend implements rebuild.Source. A state that changes after it was read comes through the live feed.
func (StateSource) Extend(_ context.Context, parts []rebuild.Part) ([]rebuild.Part, error) {
	return parts, nil
}

// Read implements rebuild.Source.
func (s StateSource) Read(ctx context.Context, part rebuild.Part, take func(ctx context.Context, batch rebuild.Batch) error) error {
	deliver := func(records []eventstore.StateRecord, broken []rebuild.Broken) error {
		part.Next += int64(len(records) + len(broken))
		part.End = max(part.End, part.Next)
		if len(records) > 0 {
			part.Cursor = records[len(records)-1].Stream.Key
		}
		return take(ctx, rebuild.Batch{Part: part, Records: records, Broken: broken, Reject: rejectState(records)})
	}
	var err error
	if s.Events {
		err = s.DB.foldedAfter(ctx, part.Name, part.Cursor, deliver)
	} else {
		err = s.DB.statesAfter(ctx, part.Name, part.Cursor, func(records []eventstore.StateRecord) error { return deliver(records, nil) })
	}
	if err != nil {
		return err
	}
	part.Complete, part.End = true, part.Next
	return deliver(nil, nil)
}

// rejectState only tells: the row stays where it is.
func rejectState(records []eventstore.StateRecord) func(context.Context, int, error) (rebuild.Broken, error) {
	return func(_ context.Context, record int, why error) (rebuild.Broken, error) {
		state := records[record]
		return rebuild.Broken{Where: fmt.Sprintf("state of %s at position %d", state.Stream, state.Position), Why: why.Error()}, nil
	}
}

// Package rebuild builds read models anew while the old ones serve, and finds what is wrong with them.
//
//	               ┌ live feed ────────────────► generation 1 (serves)
//	state topics ──┤         └────────────────┐
//	               └ Source ──► Rebuilder ────┴► generation 2 (being built)
//	                               │ verify
//	PostgreSQL ── States ──────────┘
//
// # Phases of a run
//
//	loading ──► following ──► verifying ──► done
//	   └───────────┴──────────────┴──► failed (its generation is dropped)
//
// A run begins by naming its generation in the pointer: from then on the live feed writes to it too.
// Then it reads the source to where it ends after that, so nothing is missed; an entry is overwritten by a
// higher position only, so it does not matter who writes first. It follows the source until it is close
// behind, compares every key with the states in PostgreSQL, and switches the pointer, in one step for all
// its read models. The generation that served until then is kept up to date beside it, so that one can
// go back; the next run drops it.
//
// What a run has done is saved in the Ledger every few seconds. A run that was stopped or killed goes on
// from there. Until the switch the old generation serves, whatever happens.
package rebuild

import (
	"context"
	"errors"
	"time"

	"andes/eventstore"
	"andes/projections"
)

// Part is a piece of a source that is read from its beginning to its end, and how far it was read. It is
// saved by the Ledger.
type Part struct {
	Name     string `json:"name"` // a partition, or a category
	From     int64  `json:"from"`
	Next     int64  `json:"next"` // offset, or number of states read
	End      int64  `json:"end"`  // of a category: estimated
	Cursor   string `json:"cursor,omitempty"`
	Complete bool   `json:"complete"`
}

// Left is how much of the part is to be read.
func (p Part) Left() int64 {
	if p.Complete {
		return 0
	}
	return max(p.End-p.Next, 0)
}

// Batch are records of a part, and the part as it is behind them.
type Batch struct {
	Part    Part
	Records []eventstore.StateRecord
	Broken  []Broken // were no states and are in the DLQ
	// Reject puts a record that can't be used into the DLQ, where it is once, however often it is met.
	Reject func(ctx context.Context, record int, why error) (Broken, error)
}

// Broken is a record that could not be used.
type Broken struct {
	Where string `json:"where"`
	Why   string `json:"why"`
}

// Source gives the states that a read model is built from.
type Source interface {
	// Parts lists what there is to read for the categories, from the beginning to where it ends now.
	Parts(ctx context.Context, categories []string) ([]Part, error)
	// Extend moves the ends to where they are now.
	Extend(ctx context.Context, parts []Part) ([]Part, error)
	// Read gives a part's records from Next to End, in batches. Parts are read side by side.
	Read(ctx context.Context, part Part, take func(ctx context.Context, batch Batch) error) error
}

// Faults that end a run or keep it from beginning.
var (
	// ErrSourceLost: the source does not answer, or has lost what it had. The run can go on later.
	ErrSourceLost = errors.New("the source is lost")
	// ErrFull: Redis has no memory left. The run's generation is dropped, so that the serving one can be
	// written again.
	ErrFull = errors.New("no room is left in Redis: free memory or raise maxmemory, then rebuild again")
	// ErrBusy: another instance is at work.
	ErrBusy = errors.New("another rebuild, rollback or repair is at work")
	// ErrUnfinished: a run of other read models or from another source has not ended.
	ErrUnfinished = errors.New("is not finished")
	// ErrMoved: the pointer is not what it was taken for.
	ErrMoved = errors.New("the generation pointer was changed by somebody else")
	// ErrDiffers: more keys differ from PostgreSQL than are mended on the way.
	ErrDiffers = errors.New("the new generation differs from PostgreSQL")
	// ErrNothingKept: there is no generation to go back to.
	ErrNothingKept = errors.New("no generation is kept to go back to")
)

// Kept is what a read model has under a key.
type Kept struct {
	Text  string
	There bool
}

// Mend replaces a text that is still what was read by an entry, whatever their positions. An entry
// without position takes the key away.
type Mend struct {
	Was   Kept
	Entry projections.Entry
}

// Copy is the read model in Redis.
type Copy interface {
	Generations(ctx context.Context) (projections.Generations, error)
	// Repoint replaces the pointer in one step, if it still says what was read, else it gives ErrMoved.
	Repoint(ctx context.Context, from, to projections.Generations) error
	// ApplyTo writes entries to one generation, each only over a lower position.
	ApplyTo(ctx context.Context, generation projections.Generation, entries []projections.Entry) error
	Kept(ctx context.Context, generation projections.Generation, keys []string) ([]Kept, error)
	// Mend gives the number of entries that were replaced; the others have changed.
	Mend(ctx context.Context, generation projections.Generation, mends []Mend) (int, error)
	// Each lists the keys of read models, each in the generation given for it, in pages. A step is how many
	// keys Redis looks at before it answers others. A key may come twice.
	Each(ctx context.Context, generations map[string]projections.Generation, step int, take func(keys []string) error) error
	// Drop takes all keys of read models away.
	Drop(ctx context.Context, generation projections.Generation, models []string) (int64, error)
	// Census counts keys; beyond some thousand it is an estimate.
	Census(ctx context.Context) (Census, error)
}

// Census is how many keys there are.
type Census struct {
	Keys      map[projections.Generation]map[string]int64 // by read model
	Estimated bool                                        // from a sample
}

// States are the truth.
type States interface {
	// States gives the states of the streams that exist.
	States(ctx context.Context, streams []eventstore.Stream) (map[eventstore.Stream]eventstore.StateRecord, error)
	// EachState gives the states of a category in the order of their keys, in batches that are take's.
	EachState(ctx context.Context, category string, take func(records []eventstore.StateRecord) error) error
	// StatesOfSKUs gives the states of a category that belong to SKUs, whatever else is in their keys.
	StatesOfSKUs(ctx context.Context, category string, skus []string) ([]eventstore.StateRecord, error)
}

// Audit records what an operator did.
type Audit interface {
	Record(ctx context.Context, action Action) error
}

// Action is a change that an operator made to read models.
type Action struct {
	Name        string // projections.rebuild, .rollback, .repair
	Actor       string
	Reason      string
	Target      string // the read models, and the SKUs
	Generations string // the pointer's text, or the generation that was built
	Count       int64  // records, read models or keys
	At          time.Time
}

package rebuild

import (
	"context"
	"slices"
	"time"

	"andes/projections"
)

// Phase is how far a run has come.
type Phase string

// The phases of a run.
const (
	Loading   Phase = "loading"
	Following Phase = "following"
	Verifying Phase = "verifying"
	Done      Phase = "done"
	Failed    Phase = "failed"
)

// Names of the sources.
const (
	FromTopics = "topics" // the compacted state topics
	FromStates = "states" // the state rows in PostgreSQL
	FromEvents = "events" // the events in PostgreSQL, folded
)

// Run is one build of a generation, as the Ledger keeps it.
type Run struct {
	Generation projections.Generation
	Models     []string
	Source     string
	Phase      Phase
	Parts      []Part // none: reading has not begun
	Records    int64  // that were read
	Broken     int64  // of them, that could not be used
	Mended     int64  // keys that the source had wrong or not at all
	Actor      string
	Failure    string // of the last attempt
	StartedAt  time.Time
	UpdatedAt  time.Time
	EndedAt    time.Time // zero: it can go on
}

// Ended tells whether nothing is left to do.
func (r Run) Ended() bool { return r.Phase == Done || r.Phase == Failed }

// total and done are what there is to read and what was read, in the source's own units.
func (r Run) total() (total int64) {
	for _, part := range r.Parts {
		total += max(part.End-part.From, 0)
	}
	return total
}

func (r Run) left() (left int64) {
	for _, part := range r.Parts {
		left += part.Left()
	}
	return left
}

func (r Run) sameAs(models []string, source string) bool {
	return r.Source == source && slices.Equal(slices.Sorted(slices.Values(r.Models)), slices.Sorted(slices.Values(models)))
}

// Ledger keeps runs, and lets one instance at a time work on the read models.
type Ledger interface {
	// Exclusively runs work, or gives ErrBusy at once while another instance does. Its context ends when
	// the hold on it is lost.
	Exclusively(ctx context.Context, work func(ctx context.Context) error) error
	// Latest gives the run with the highest generation.
	Latest(ctx context.Context) (run Run, exists bool, err error)
	// Recent gives the last runs, the latest first.
	Recent(ctx context.Context) ([]Run, error)
	// Save writes the run as it is now.
	Save(ctx context.Context, run Run) error
}

// Progress tells how a run or a verification gets on.
type Progress struct {
	Phase      Phase
	Generation projections.Generation
	Models     []string
	Done       int64
	Total      int64
	PerSecond  float64
	Left       time.Duration // estimated; negative: not known
	Broken     int64
}

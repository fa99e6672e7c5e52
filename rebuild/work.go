package rebuild

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"andes/projections"
)

// work is a run under way.
type work struct {
	*Rebuilder
	pace pace

	mu  sync.Mutex // guards run while parts are read side by side
	run Run
}

// saveLimit bounds the saving of a run that was told to stop.
const saveLimit = 5 * time.Second

// finish takes the run through its phases to the end. On a failure it saves how far it came, or drops the
// generation when going on would be of no use.
func (w *work) finish(ctx context.Context) error {
	err := w.phases(ctx)
	if err == nil {
		return nil
	}
	if stopped := context.Cause(ctx); stopped != nil {
		err = stopped // the cause says more than "cancelled"
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveLimit)
	defer cancel()
	if errors.Is(err, ErrFull) || errors.Is(err, ErrDiffers) {
		if failed := w.abandon(context.WithoutCancel(ctx), &w.run, err); failed != nil {
			return fmt.Errorf("%w; its generation %s could not be dropped: %w", err, w.run.Generation, failed)
		}
		return err
	}
	w.run.Failure = err.Error()
	saved := w.save(stopping, &w.run)
	return fmt.Errorf("the rebuild (generation %s) is paused, run it again to go on: %w", w.run.Generation, errors.Join(err, saved))
}

func (w *work) phases(ctx context.Context) error {
	source := w.config.Sources[w.run.Source]
	if source == nil {
		return fmt.Errorf("there is no source %q", w.run.Source)
	}
	set, err := w.config.Set.Only(w.run.Models...)
	if err != nil {
		return err
	}
	load := &loader{work: w, source: source, set: set}
	if w.run.Parts == nil {
		if w.run.Parts, err = source.Parts(ctx, set.Categories()); err != nil {
			return err
		}
		if err := w.enter(ctx, Loading); err != nil {
			return err
		}
	}
	if err := load.all(ctx); err != nil {
		return err
	}
	if err := w.enter(ctx, Following); err != nil {
		return err
	}
	if err := w.follow(ctx, load); err != nil {
		return err
	}
	if err := w.enter(ctx, Verifying); err != nil {
		return err
	}
	if err := w.verify(ctx); err != nil {
		return err
	}
	if err := w.switchOver(ctx); err != nil {
		return err
	}
	w.run.Failure = ""
	return w.enter(ctx, Done)
}

func (w *work) enter(ctx context.Context, phase Phase) error {
	w.run.Phase = phase
	return w.save(ctx, &w.run)
}

// maxRounds bounds how often the source's end is chased.
const maxRounds = 100

// follow reads what came meanwhile, until it is little. The rest is the live feed's, which writes to the
// generation since it was named; a stopped feed leaves it no further behind than the one that serves.
func (w *work) follow(ctx context.Context, load *loader) error {
	for range maxRounds {
		parts, err := load.source.Extend(ctx, w.run.Parts)
		if err != nil {
			return err
		}
		w.run.Parts = parts
		behind := w.run.left()
		if err := load.all(ctx); err != nil {
			return err
		}
		if behind <= w.config.Close {
			return nil
		}
	}
	return fmt.Errorf("the source grows faster than it is read: after %d rounds there are still more than %d records to read; raise --rate", maxRounds, w.config.Close)
}

// verify compares the generation with the states, and mends what little the source has wrong.
func (w *work) verify(ctx context.Context) error {
	generation := w.run.Generation
	report, err := w.check(ctx, Check{
		Models: w.run.Models, Generation: func(string) projections.Generation { return generation },
		Repair: true, Limit: w.config.MaxMended,
	})
	if err != nil {
		return err
	}
	w.run.Mended = report.Mended()
	if report.Differing() == 0 {
		return nil
	}
	if err := w.named(ctx); err != nil {
		return err
	}
	err = fmt.Errorf("%w in more than %d keys, such as %s: the topics have lost states; rebuild with --from=states", ErrDiffers, w.config.MaxMended, report.Example())
	if w.run.Source != FromTopics {
		err = fmt.Errorf("%w in %d keys, such as %s", ErrDiffers, report.Differing(), report.Example())
	}
	return err
}

// named fails if the pointer does not name the generation any more: keys that are missing then are no fault of the
// source. The run can go on: it reads everything again.
func (w *work) named(ctx context.Context) error {
	named, err := w.config.Copy.Generations(ctx)
	if err != nil {
		return err
	}
	return w.names(named)
}

func (w *work) names(named projections.Generations) error {
	for _, model := range w.run.Models {
		if !named.Of(model).Names(w.run.Generation) {
			return fmt.Errorf("generation %s is gone from Redis, which was emptied or lost its data meanwhile", w.run.Generation)
		}
	}
	return nil
}

// maxSwitches bounds how often the pointer may be changed by others meanwhile.
const maxSwitches = 3

// switchOver has the generation answer the queries.
func (w *work) switchOver(ctx context.Context) error {
	for range maxSwitches {
		named, err := w.config.Copy.Generations(ctx)
		if err != nil {
			return err
		}
		if err := w.names(named); err != nil {
			return err
		}
		switched := named.With(w.config.Set.Names(), w.run.Models, func(l projections.Lineage) projections.Lineage {
			return l.SwitchedTo(w.run.Generation)
		})
		if err = w.config.Copy.Repoint(ctx, named, switched); err == nil || !errors.Is(err, ErrMoved) {
			return err
		}
	}
	return fmt.Errorf("%w, %d times", ErrMoved, maxSwitches)
}

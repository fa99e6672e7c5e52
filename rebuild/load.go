package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"andes/projections"
)

// loader reads the parts of a source into a generation.
type loader struct {
	*work
	source Source
	set    *projections.Set
}

// all reads every part to its end, some at a time. How far they came is saved and reported meanwhile.
func (l *loader) all(ctx context.Context) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		l.watch(reading, stop)
	}()
	parts := make(chan int)
	var readers sync.WaitGroup
	for range l.config.courtesy().parallel {
		readers.Go(func() {
			for i := range parts {
				if err := l.read(reading, i); err != nil {
					stop(err)
				}
			}
		})
	}
	for i := range l.snapshot().Parts {
		select {
		case parts <- i:
		case <-reading.Done():
		}
	}
	close(parts)
	readers.Wait()
	err := context.Cause(reading)
	stop(nil)
	<-watched
	if err != nil {
		return err
	}
	return l.save(ctx, &l.run)
}

func (l *loader) read(ctx context.Context, i int) error {
	part := l.snapshot().Parts[i]
	if part.Complete || ctx.Err() != nil {
		return nil
	}
	return l.source.Read(ctx, part, func(ctx context.Context, batch Batch) error { return l.take(ctx, i, batch) })
}

// take brings a batch into the generation.
func (l *loader) take(ctx context.Context, i int, batch Batch) error {
	if err := l.pace.take(ctx, len(batch.Records)); err != nil {
		return err
	}
	broken := batch.Broken
	entries := make([]projections.Entry, 0, len(batch.Records))
	for n, record := range batch.Records {
		var fault error
		if entries, fault = l.set.Project(entries, record); fault != nil {
			found, err := batch.Reject(ctx, n, fault)
			if err != nil {
				return err
			}
			broken = append(broken, found)
		}
	}
	if err := l.apply(ctx, entries); err != nil {
		return err
	}
	for _, found := range broken {
		l.config.Found(found)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run.Parts[i] = batch.Part
	l.run.Records += int64(len(batch.Records) + len(batch.Broken))
	l.run.Broken += int64(len(broken))
	return nil
}

const (
	applyPauseMin = 50 * time.Millisecond
	applyPauseMax = time.Second
)

func (l *loader) apply(ctx context.Context, entries []projections.Entry) error {
	courtesy := l.config.courtesy()
	for step := range slices.Chunk(entries, courtesy.keys) {
		began := l.config.Now()
		if err := l.applyPatiently(ctx, step); err != nil {
			return err
		}
		if err := courtesy.after(ctx, l.config.Now().Sub(began)); err != nil {
			return err
		}
	}
	return nil
}

// applyPatiently bears with a Redis that is away for a while. A full one is another matter: waiting would
// keep the live feed from writing.
func (l *loader) applyPatiently(ctx context.Context, entries []projections.Entry) error {
	began, wait := l.config.Now(), applyPauseMin
	for {
		err := l.config.Copy.ApplyTo(ctx, l.run.Generation, entries)
		if err == nil || errors.Is(err, ErrFull) {
			return err
		}
		if l.config.Now().Sub(began) > l.config.CopyPatience {
			return fmt.Errorf("nothing could be written to Redis for %s: %w", l.config.CopyPatience, err)
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, applyPauseMax)
	}
}

// snapshot is the run as it is now.
func (l *loader) snapshot() Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	run := l.run
	run.Parts = slices.Clone(run.Parts)
	return run
}

// watch saves and reports until the reading ends. A run that can't be saved is stopped: a killed one would
// lose too much.
func (l *loader) watch(ctx context.Context, stop context.CancelCauseFunc) {
	report, save := time.NewTicker(l.config.ReportEvery), time.NewTicker(l.config.SaveEvery)
	defer report.Stop()
	defer save.Stop()
	meter := newMeter(l.config.Now, l.snapshot().Records)
	for {
		select {
		case <-ctx.Done():
			return
		case <-report.C:
			run := l.snapshot()
			l.config.Report(meter.progress(run))
		case <-save.C:
			run := l.snapshot()
			if err := l.save(ctx, &run); err != nil && ctx.Err() == nil {
				stop(err)
				return
			}
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// stage orders what is stopped: the edge takes no more work before the workers end, the workers end
// before what they write through, and the relay goes last, so that what was accepted gets out.
type stage int

// The stages, in the order in which they stop.
const (
	edge stage = iota
	workers
	writeSide
	publishing
	stages
)

// part is something that runs until its context ends.
type part struct {
	name  string
	stage stage
	run   func(ctx context.Context) error
}

// supervise runs the parts until ctx ends or one of them fails, then stops them stage by stage.
func supervise(ctx context.Context, parts []part, stopWait time.Duration, logger *slog.Logger) error {
	var (
		running [stages]sync.WaitGroup
		cancels [stages]context.CancelFunc
		failed  = make(chan error, len(parts))
	)
	for s := range stages {
		// Each stage outlives ctx: it ends when its turn comes.
		stageCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		cancels[s] = cancel
		for _, p := range parts {
			if p.stage != s {
				continue
			}
			running[s].Go(func() {
				err := p.run(stageCtx)
				if stageCtx.Err() == nil {
					failed <- fmt.Errorf("%s: %w", p.name, orEnded(err))
				}
			})
		}
	}
	var cause error
	select {
	case <-ctx.Done():
		logger.Info("stopping")
	case cause = <-failed:
		logger.Error("stopping after a failure", "error", cause.Error())
	}
	for s := range stages {
		cancels[s]()
		if !waitFor(&running[s], stopWait) {
			logger.Error("a stage did not stop in time", "stage", int(s), "wait", stopWait.String())
		}
	}
	return cause
}

var errEnded = errors.New("ended without being told to")

func orEnded(err error) error {
	if err == nil {
		return errEnded
	}
	return err
}

func waitFor(group *sync.WaitGroup, limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

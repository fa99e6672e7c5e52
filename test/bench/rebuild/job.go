package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"andes/adapters/postgres"
)

// build makes the product's binary.
func (p *platform) build(ctx context.Context) (err error) {
	if p.folder, err = os.MkdirTemp("", "bench-rebuild"); err != nil {
		return err
	}
	p.product = filepath.Join(p.folder, "andes")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", p.product, "./cmd/andes").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
}

// job is a rebuild that has ended.
type job struct {
	Generation int64
	Records    int64
	Mended     int64

	took   time.Duration // of the whole process
	cpu    time.Duration
	peakMB float64
}

func (p *platform) command(ctx context.Context, flags ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, p.product, append([]string{"projections", "rebuild", "stock", "--output", "json"}, flags...)...)
	command.Env = append(os.Environ(), "ANDES_POSTGRES_SCHEMA="+p.name, "ANDES_REDIS_PREFIX="+p.name+":", "ANDES_KAFKA_PREFIX="+p.name+".")
	if os.Getenv("BENCH_VERBOSE") != "" {
		command.Stderr = os.Stderr
	}
	return command
}

// rebuild runs the product's command to its end.
func (p *platform) rebuild(ctx context.Context, flags ...string) (job, error) {
	command := p.command(ctx, flags...)
	var out, faults bytes.Buffer
	command.Stdout = &out
	if command.Stderr == nil {
		command.Stderr = &faults
	}
	began := time.Now()
	if err := command.Start(); err != nil {
		return job{}, err
	}
	peak := watchPeak(command.Process.Pid)
	err := command.Wait()
	done := job{took: time.Since(began), peakMB: peak(), cpu: command.ProcessState.UserTime() + command.ProcessState.SystemTime()}
	if err != nil {
		return done, fmt.Errorf("rebuild: %w: %s", err, faults.String())
	}
	if err := json.Unmarshal(out.Bytes(), &done); err != nil {
		return done, fmt.Errorf("answer of the rebuild: %w: %s", err, out.String())
	}
	return done, nil
}

// watchPeak follows the greatest resident size of a process, as Linux keeps it. (What wait4 tells of a
// child may be its parent's.)
func watchPeak(pid int) (peak func() float64) {
	var most float64
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		const look = 50 * time.Millisecond
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		for {
			if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
				_, rest, _ := strings.Cut(string(status), "VmHWM:")
				var kilobytes float64
				if _, err := fmt.Sscan(rest, &kilobytes); err == nil {
					most = max(most, kilobytes/1024)
				}
			}
			select {
			case <-ended:
				return
			case <-ticker.C:
			}
		}
	}()
	return func() float64 {
		close(ended)
		<-watched
		return most
	}
}

// killedRebuild kills a rebuild when it has read about half, and tells how much that was.
func (p *platform) killedRebuild(ctx context.Context, o options) (records int64, err error) {
	command := p.command(ctx)
	if err := command.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = command.Wait() }() // killed
	const look = 20 * time.Millisecond
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	ledger := postgres.Rebuilds{DB: p.store.DB}
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-ticker.C:
		}
		run, exists, err := ledger.Latest(ctx)
		if err != nil {
			_ = command.Process.Kill()
			return 0, err
		}
		if exists && !run.Ended() && run.Records > int64(o.skus)/4 {
			return run.Records, command.Process.Kill()
		}
		if command.ProcessState != nil || exists && run.Ended() && run.StartedAt.After(time.Now().Add(-time.Second)) {
			return 0, fmt.Errorf("the rebuild ended before it could be killed: %+v", run)
		}
	}
}

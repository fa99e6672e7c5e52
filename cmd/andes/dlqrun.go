package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"andes/deadletters"
)

// dlqSelection says which letters a run is about.
type dlqSelection struct {
	Consumer string   `arg:"" help:"Whose letters."`
	Letter   []string `arg:"" optional:"" help:"These letters only: consumer/partition/offset."`
	dlqFilter
	All   bool  `help:"All letters of the consumer, without a filter."`
	Limit limit `help:"Letters at the most; 0: all. Those parked behind them go along and do not count." default:"0"`
	Rate  limit `help:"Letters a second; 0: as fast as it goes." default:"0"`
}

func (c dlqSelection) job(action, reason string, force bool) (deadletters.Job, error) {
	filter, err := c.filter(c.Consumer, c.Letter...)
	return deadletters.Job{
		Consumer: c.Consumer, Action: action, Filter: filter, All: c.All, Limit: int(c.Limit), Rate: int(c.Rate), Force: force, Reason: reason,
	}, err
}

// dlqReplayCmd sends letters back.
type dlqReplayCmd struct {
	dlqSelection
	DryRun bool   `help:"Run the consumer's handler in a read-only transaction, call nobody, and print what it would do (20 letters; --limit for more)."`
	Force  bool   `help:"Also letters that came back each time, and to a consumer that is not running."`
	Reason string `help:"Why, for the audit log." placeholder:"TEXT"`
	dlqAccess
}

// Run implements the command.
func (c dlqReplayCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	job, err := c.job(deadletters.Replayed, c.Reason, c.Force)
	if err != nil {
		return err
	}
	desk, err := openDesk(ctx, s, logger, c.Direct)
	if err != nil {
		return err
	}
	defer desk.close()
	if c.DryRun {
		result, err := desk.Rehearse(ctx, job)
		if err != nil {
			return err
		}
		return printRehearsals(os.Stdout, c.Output, result)
	}
	return desk.run(ctx, job, c.Output, "replayed")
}

// dlqDiscardCmd lets letters go.
type dlqDiscardCmd struct {
	dlqSelection
	Reason string `help:"Why, for the audit log." required:"" placeholder:"TEXT"`
	dlqAccess
}

// Run implements the command.
func (c dlqDiscardCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	job, err := c.job(deadletters.Discarded, c.Reason, false)
	if err != nil {
		return err
	}
	desk, err := openDesk(ctx, s, logger, c.Direct)
	if err != nil {
		return err
	}
	defer desk.close()
	return desk.run(ctx, job, c.Output, "discarded")
}

// dlqEditCmd replays a letter with another payload.
type dlqEditCmd struct {
	Letter  string `arg:"" help:"consumer/partition/offset."`
	Payload string `help:"File with the corrected JSON; - is standard input. What is redacted in it is restored from the event store." required:"" placeholder:"FILE"`
	Force   bool   `help:"Also to a consumer that is not running, and before an earlier letter of its key."`
	Reason  string `help:"Why, for the audit log." required:"" placeholder:"TEXT"`
	dlqAccess
}

// Run implements the command.
func (c dlqEditCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	ref, err := deadletters.ParseRef(c.Letter)
	if err != nil {
		return err
	}
	payload, err := readPayload(c.Payload)
	if err != nil {
		return err
	}
	desk, err := openDesk(ctx, s, logger, c.Direct)
	if err != nil {
		return err
	}
	defer desk.close()
	progress, err := desk.Edit(ctx, deadletters.Correction{Letter: ref, Payload: payload, Force: c.Force, Reason: c.Reason, Actor: desk.actor})
	if err != nil {
		return err
	}
	job := deadletters.Job{Consumer: ref.Consumer, Action: deadletters.Edited, Force: c.Force, Reason: c.Reason}
	return desk.goOn(ctx, job, progress, c.Output, "edited")
}

// readPayload reads a file, up to what an event may have.
func readPayload(name string) ([]byte, error) {
	file := os.Stdin
	if name != "-" {
		opened, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("payload: %w", err)
		}
		defer func() { _ = opened.Close() }()
		file = opened
	}
	payload, err := io.ReadAll(io.LimitReader(file, deadletters.MaxPayload+1))
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if len(payload) > deadletters.MaxPayload {
		return nil, fmt.Errorf("payload: more than %d bytes", deadletters.MaxPayload)
	}
	return payload, nil
}

// run begins a run and goes on until it is over or the operator interrupts it.
func (d *desk) run(ctx context.Context, job deadletters.Job, output, done string) error {
	job.Actor = d.actor
	progress, err := d.Advance(context.WithoutCancel(ctx), job)
	if err != nil && progress.Sent == 0 {
		return err
	}
	if err != nil {
		return errors.Join(printProgress(os.Stdout, output, done, progress), err)
	}
	return d.goOn(ctx, job, progress, output, done)
}

// goOn advances a run step by step. A step is short and is not interrupted: what it claims, it sends.
func (d *desk) goOn(ctx context.Context, job deadletters.Job, progress deadletters.Progress, output, done string) error {
	job.Actor = d.actor
	bar := newRunBar(os.Stderr, done)
	for progress.Cursor != "" && ctx.Err() == nil {
		bar.at(progress)
		job.Cursor = progress.Cursor
		next, err := d.Advance(context.WithoutCancel(ctx), job)
		if err != nil {
			bar.end()
			return errors.Join(printProgress(os.Stdout, output, done, progress), err)
		}
		progress = next
	}
	bar.end()
	if err := printProgress(os.Stdout, output, done, progress); err != nil {
		return err
	}
	return verdictOf(ctx, progress)
}

// verdictOf makes a run that did not do all that was asked for a failure.
func verdictOf(ctx context.Context, progress deadletters.Progress) error {
	if progress.Cursor != "" && ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d letters; the rest is untouched: the same command goes on with it", progress.Sent)
	}
	var left []string
	for _, l := range progress.Left {
		another := l.Why == deadletters.WhyBusy || l.Why == deadletters.WhySettled // it is somebody's, or was
		if !another || progress.Sent == 0 {
			left = append(left, fmt.Sprintf("%d %s (%s, for example): %s", l.Count, l.Why, l.Example, l.Detail))
		}
	}
	if progress.Returned > 0 {
		left = append(left, fmt.Sprintf("%d failed again and came back: look with `andes dlq list --header andes_replay_run=%s`", progress.Returned, progress.Run))
	}
	if len(left) > 0 {
		return fmt.Errorf("some letters stay: %s", strings.Join(left, "; "))
	}
	return nil
}

// runBar tells how far a run is: on a terminal in one line that is written over, elsewhere in a line now
// and then.
type runBar struct {
	out      io.Writer
	what     string
	terminal bool
	began    time.Time
	told     time.Time
}

// runBarEvery is between two lines where there is no terminal.
const (
	runBarEvery = 10 * time.Second
	runBarWidth = 30
	clearLine   = "\r\x1b[K"
)

func newRunBar(out *os.File, what string) *runBar {
	info, err := out.Stat()
	now := time.Now()
	return &runBar{out: out, what: what, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0, began: now, told: now}
}

func (b *runBar) at(p deadletters.Progress) {
	now := time.Now()
	if !b.terminal && now.Sub(b.told) < runBarEvery {
		return
	}
	b.told = now
	text := fmt.Sprintf("%d of %d %s", p.Sent, p.Planned, b.what)
	if p.Phase == deadletters.Following {
		text += ", waiting for the consumer to release what is parked behind"
	} else if took := now.Sub(b.began).Seconds(); p.Sent > 0 && took > 0 {
		text += fmt.Sprintf(", %.0f/s", float64(p.Sent)/took)
	}
	if !b.terminal {
		fmt.Fprintln(b.out, text)
		return
	}
	full := 0
	if p.Planned > 0 {
		full = min(runBarWidth, int(p.Sent*runBarWidth/p.Planned))
	}
	fmt.Fprintf(b.out, "%s[%s%s] %s", clearLine, strings.Repeat("=", full), strings.Repeat(" ", runBarWidth-full), text)
}

func (b *runBar) end() {
	if b.terminal {
		fmt.Fprint(b.out, clearLine)
	}
}

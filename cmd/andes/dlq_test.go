package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	httpapi "andes/adapters/http"
	"andes/deadletters"
)

// stepping is a desk whose runs take some steps.
type stepping struct {
	httpapi.DeadLetters
	steps   int
	left    []deadletters.Left
	after   func(step int)
	jobs    []deadletters.Job
	stopped bool // a step was begun with a context that had ended
}

func (s *stepping) Advance(ctx context.Context, job deadletters.Job) (deadletters.Progress, error) {
	s.stopped = s.stopped || ctx.Err() != nil
	s.jobs = append(s.jobs, job)
	n := len(s.jobs)
	if s.after != nil {
		s.after(n)
	}
	p := deadletters.Progress{Run: "r", Phase: deadletters.Sending, Planned: int64(s.steps), Sent: int64(min(n, s.steps)), Left: s.left}
	if n < s.steps {
		p.Cursor = "after " + strings.Repeat("i", n)
	}
	return p, nil
}

func TestARunIsAdvancedToItsEnd(t *testing.T) {
	at := &stepping{steps: 3}
	d := &desk{DeadLetters: at, actor: "os:ada"}
	if err := d.run(t.Context(), deadletters.Job{Consumer: "oms", Action: deadletters.Replayed, Limit: 7}, "json", "replayed"); err != nil {
		t.Error(err)
	}
	if len(at.jobs) != 3 || at.jobs[0].Cursor != "" || at.jobs[1].Cursor != "after i" || at.jobs[2].Cursor != "after ii" {
		t.Fatalf("%+v", at.jobs)
	}
	for _, job := range at.jobs {
		if job.Limit != 7 || job.Actor != "os:ada" {
			t.Errorf("%+v", job)
		}
	}
}

func TestAnInterruptedRunFinishesItsStepAndSaysHowToGoOn(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	at := &stepping{steps: 10, after: func(step int) {
		if step == 2 {
			interrupt()
		}
	}}
	err := (&desk{DeadLetters: at}).run(ctx, deadletters.Job{}, "table", "replayed")
	if err == nil || !strings.Contains(err.Error(), "interrupted after 2 letters") || len(at.jobs) != 2 || at.stopped {
		t.Errorf("%v after %d steps", err, len(at.jobs))
	}
}

func TestARunThatLeavesLettersFails(t *testing.T) {
	ref := deadletters.Ref{Consumer: "oms", Partition: 1, Offset: 2}
	for why, fails := range map[deadletters.Why]bool{
		deadletters.WhyHeld: true, deadletters.WhyReturned: true, deadletters.WhyForeign: true, deadletters.WhyGone: true, deadletters.WhyBusy: false,
		deadletters.WhySettled: false,
	} {
		at := &stepping{steps: 1, left: []deadletters.Left{{Why: why, Count: 3, Example: ref, Detail: "do this"}}}
		err := (&desk{DeadLetters: at}).run(t.Context(), deadletters.Job{}, "table", "replayed")
		if (err != nil) != fails {
			t.Errorf("%s: %v", why, err)
		}
		if fails && (!strings.Contains(err.Error(), ref.String()) || !strings.Contains(err.Error(), "do this")) {
			t.Errorf("%s: %v", why, err)
		}
	}
	at := &stepping{left: []deadletters.Left{{Why: deadletters.WhyBusy, Count: 3, Example: ref, Detail: "do this"}}}
	if err := (&desk{DeadLetters: at}).run(t.Context(), deadletters.Job{}, "table", "replayed"); err == nil {
		t.Error("a run that sends nothing because another one has all looks like success")
	}
}

func TestTimesAreReadAsOperatorsWriteThem(t *testing.T) {
	now := time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "15m": now.Add(-15 * time.Minute), "36h": now.Add(-36 * time.Hour), "7d": now.AddDate(0, 0, -7),
		"2026-11-30": now.Add(-18 * time.Hour), "2026-11-30T17:30": now.Add(-30 * time.Minute), "2026-11-30T17:30:00-01:00": now.Add(30 * time.Minute),
	} {
		if at, err := instant("--since", text, now); err != nil || !at.Equal(want) {
			t.Errorf("%q: %s, %v", text, at, err)
		}
	}
	for _, text := range []string{"yesterday", "-5m", "7", "d", "99999999d"} {
		if _, err := instant("--since", text, now); err == nil || !strings.Contains(err.Error(), "--since") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWhatIsPrintedSteersNoTerminal(t *testing.T) {
	evil := "a\x1b[31mred\a\nb\u202e"
	var out bytes.Buffer
	printer := newLetterPrinter(&out, "table")
	summary := deadletters.Summary{Letter: "oms/1/2", Key: evil, Error: evil, Type: evil, Partner: evil, Class: evil}
	if err := errors.Join(printer.print(summary), printer.end()); err != nil {
		t.Fatal(err)
	}
	detail := deadletters.Detail{Summary: summary, Headers: []deadletters.Header{{Name: evil, Value: evil}}, Failures: []string{evil}}
	if err := printDetail(&out, "table", detail); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\a\u202e") {
		t.Errorf("%q", out.String())
	}
}

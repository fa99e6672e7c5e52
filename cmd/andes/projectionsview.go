package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"andes/adapters/kafka"
	"andes/projections"
	"andes/rebuild"
)

// print gives the answer as JSON, or has it written as text. An answer that could not be given is a failure.
func (o output) print(answer any, text func(out io.Writer)) error {
	var written bytes.Buffer
	if o.Output == "json" {
		encoder := json.NewEncoder(&written)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	} else {
		text(&written)
	}
	_, err := written.WriteTo(os.Stdout)
	return err
}

// shower tells on the terminal how a job gets on: in one line that is written over, or in a line every
// few seconds where nobody watches.
type shower struct {
	out      io.Writer
	terminal bool

	mu    sync.Mutex
	last  time.Time
	width int
}

// quietEvery is between two lines of progress in a log.
const quietEvery = 5 * time.Second

func newShower(out *os.File) *shower {
	info, err := out.Stat()
	return &shower{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (s *shower) progress(p rebuild.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal && time.Since(s.last) < quietEvery {
		return
	}
	s.last = time.Now()
	line := progressLine(p)
	if !s.terminal {
		fmt.Fprintln(s.out, line)
		return
	}
	fmt.Fprintf(s.out, "\r%-*s", s.width, line)
	s.width = len(line)
}

func progressLine(p rebuild.Progress) string {
	line := fmt.Sprintf("%s generation %s (%s): %d", p.Phase, p.Generation, strings.Join(p.Models, ", "), p.Done)
	if p.Total > 0 {
		line += fmt.Sprintf(" of %d, %d%%", p.Total, 100*p.Done/p.Total)
	}
	line += fmt.Sprintf(", %.0f/s", p.PerSecond)
	if p.Left >= 0 {
		line += ", " + p.Left.Round(time.Second).String() + " left"
	}
	if p.Broken > 0 {
		line += fmt.Sprintf(", %d broken", p.Broken)
	}
	return line
}

func (s *shower) broken(b rebuild.Broken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	fmt.Fprintf(s.out, "broken record %s: %s\n", b.Where, b.Why)
}

// givesWay says what a rebuild costs before it begins: Redis is to have room for two generations, not for three.
func (s *shower) givesWay(model string, kept projections.Generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	fmt.Fprintf(s.out, "generation %s of %s is dropped to make room: there is none to go back to until the new one serves\n", kept, model)
}

func (s *shower) clear() {
	if s.terminal && s.width > 0 {
		fmt.Fprintf(s.out, "\r%-*s\r", s.width, "")
		s.width = 0
	}
}

func (s *shower) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
}

// rebuildView is a run as it is printed.
type rebuildView struct {
	Generation int64     `json:"generation"`
	Models     []string  `json:"models"`
	Source     string    `json:"source"`
	Phase      string    `json:"phase"`
	Records    int64     `json:"records"`
	Left       int64     `json:"left"`
	Broken     int64     `json:"broken"`
	Mended     int64     `json:"mended"`
	Actor      string    `json:"actor"`
	Failure    string    `json:"failure,omitempty"`
	StartedAt  time.Time `json:"startedAt"`
	UpdatedAt  time.Time `json:"updatedAt"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
}

func runView(r rebuild.Run) rebuildView {
	view := rebuildView{
		Generation: int64(r.Generation), Models: r.Models, Source: r.Source, Phase: string(r.Phase), Records: r.Records, Broken: r.Broken,
		Mended: r.Mended, Actor: r.Actor, Failure: r.Failure, StartedAt: r.StartedAt, UpdatedAt: r.UpdatedAt, EndedAt: r.EndedAt,
	}
	for _, part := range r.Parts {
		view.Left += part.Left()
	}
	return view
}

// maxPrinted bounds how many differing keys a table names.
const maxPrinted = 50

func printReport(out io.Writer, report rebuild.Report) {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "model\tgeneration\tkeys\tdigest\tmissing\textra\tdifferent\tmended")
	for _, m := range report.Models {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%d\n", m.Model, m.Generation, m.Keys, m.Digest, m.Missing, m.Extra, m.Different, m.Mended)
	}
	_ = table.Flush() // to memory
	for i, d := range report.Differences {
		if i == maxPrinted {
			fmt.Fprintf(out, "… and others; --output json names up to %d\n", rebuild.MaxNamed)
			break
		}
		mended := ""
		if d.Mended {
			mended = ", mended"
		}
		fmt.Fprintf(out, "%s %s: has %s, PostgreSQL has %s%s\n", d.Kind, d.Key, valueAt(d.Has, d.HasPosition), valueAt(d.Want, d.WantPosition), mended)
	}
}

func valueAt(value string, position int64) string {
	switch {
	case position <= 0 && value == "":
		return "nothing"
	case value == "":
		return fmt.Sprintf("nothing at position %d", position)
	}
	return fmt.Sprintf("%q at position %d", value, position)
}

// statusPatience is how long a look waits for Kafka: the rest of the status is of use without it.
const statusPatience = 3 * time.Second

// projectionsStatus looks.
type projectionsStatus struct{ output }

// statusView is the answer of projectionsStatus.
type statusView struct {
	rebuild.Status
	Last   *rebuildView         `json:"lastRebuild,omitempty"`
	Lag    []kafka.PartitionLag `json:"lag"`
	NoLag  string               `json:"lagError,omitempty"`
	Behind int64                `json:"behind"`
}

// Run implements the command.
func (c projectionsStatus) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	w, err := openWorkshop(ctx, s, logger, workshopNeeds{patience: statusPatience})
	if err != nil {
		return err
	}
	defer w.close()
	var view statusView
	if view.Status, err = w.rebuilder.Status(ctx); err != nil {
		return err
	}
	if view.Status.Last != nil {
		last := runView(*view.Status.Last)
		view.Last = &last
	}
	noLag := w.noReader
	if w.reader != nil {
		view.Lag, noLag = w.reader.Lag(ctx, projectorName, w.set.Categories())
	}
	if noLag != nil {
		view.NoLag = noLag.Error()
	}
	for _, lag := range view.Lag {
		view.Behind += lag.Lag
	}
	return c.print(view, func(out io.Writer) { printStatus(out, view, time.Now()) })
}

func printStatus(out io.Writer, view statusView, now time.Time) {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "model\tgeneration\trole\tkeys\tage")
	estimated := false
	for _, m := range view.Models {
		age := "-"
		if !m.Since.IsZero() {
			age = now.Sub(m.Since).Round(time.Second).String()
		}
		about := ""
		if m.Estimated {
			about, estimated = "~", true
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s%d\t%s\n", m.Model, m.Generation, m.Role, about, m.Keys, age)
	}
	if estimated {
		fmt.Fprintln(table, "~ is estimated from a sample; andes projections verify counts")
	}
	fmt.Fprintln(table, "\ntopic\tpartition\tcommitted\tend\tlag")
	for _, lag := range view.Lag {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", lag.Topic, lag.Partition, lag.Committed, lag.End, lag.Lag)
	}
	_ = table.Flush() // to memory
	if view.NoLag != "" {
		fmt.Fprintln(out, "the projector's lag is not known:", view.NoLag)
	}
	if last := view.Last; last != nil {
		fmt.Fprintf(out, "\nlast rebuild: generation %d of %s from %s, %s; began %s ago, %d records, %d left, %d broken, %d mended, by %s\n",
			last.Generation, strings.Join(last.Models, ", "), last.Source, last.Phase, now.Sub(last.StartedAt).Round(time.Second),
			last.Records, last.Left, last.Broken, last.Mended, last.Actor)
		if last.Failure != "" {
			fmt.Fprintln(out, "its last failure:", last.Failure)
		}
	}
}

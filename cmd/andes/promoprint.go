package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"andes/promo"
)

// board writes names and values in two columns, and keeps the first error.
type board struct {
	table *tabwriter.Writer
}

func newBoard(out io.Writer) board { return board{tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)} }

func (b board) row(name, format string, args ...any) {
	fmt.Fprintf(b.table, "%s\t%s\n", name, harmless(fmt.Sprintf(format, args...)))
}

// printPromo draws the board.
func printPromo(out io.Writer, s promo.Status) error {
	b := newBoard(out)
	switch s.Phase {
	case promo.Off:
		b.row("promo mode", "off")
		unreadRow(b, s)
		return b.table.Flush()
	case promo.Waiting:
		b.row("promo mode", "waiting, begins in %s at %s, until %s", s.Left, stampOf(s.Promo.From), stampOf(s.Promo.Until))
	case promo.On:
		b.row("promo mode", "ON, %s left, until %s", s.Left, stampOf(s.Promo.Until))
	case promo.Over:
		b.row("promo mode", "off; the last promo ended %s %s", stampOf(s.Promo.Until), endedBy(s.Promo))
	}
	promoRows(b, s.Promo)
	if s.Look != nil {
		b.row("read model", "%d entries, %d lacked and were put back", s.Look.Keys, s.Look.Lacked-s.Look.Missing)
	}
	for _, warning := range s.Warnings {
		b.row("WARNING", "%s", warning)
	}
	unreadRow(b, s)
	if s.Phase == promo.On {
		d := s.Promo.Degraded
		b.row("", "")
		b.row("degradations", "1  older answers   %s", switched(d.Stale > 0, "up to %s old", d.Stale))
		b.row("", "2  visible stock   %s", switched(d.Cap > 0, "at most %d", d.Cap))
		b.row("", "3  lower quotas    %s", switched(d.Quotas > 0, "%d%% for the lower tiers", d.Quotas))
		if s.Unread == "" {
			b.row("", "")
			windowRows(b, s.Board)
		}
	}
	return b.table.Flush()
}

// unreadRow says that what is told may be old.
func unreadRow(b board, s promo.Status) {
	if s.Unread != "" {
		b.row("WARNING", "what is stored can't be read now; this is what the process that answers heard last: %s", s.Unread)
	}
}

func endedBy(p promo.State) string {
	if p.EndedBy == "" {
		return "by itself"
	}
	return "by " + p.EndedBy
}

func switched(on bool, format string, args ...any) string {
	if !on {
		return "off"
	}
	return "ON: " + fmt.Sprintf(format, args...)
}

// promoRows tell what the promo is.
func promoRows(b board, p promo.State) {
	named := p.SKUs
	more := ""
	if len(named) > 8 {
		named, more = named[:8], " …"
	}
	b.row("promo", "%s, by %s: %s", p.ID, p.Actor, p.Reason)
	b.row("products", "%d: %s%s", len(p.SKUs), strings.Join(named, " "), more)
	b.row("microcache", "%s", p.Microcache)
}

// told is a figure, or several that belong together.
type told struct {
	key        string // the same in every window; empty: a drawing, with which nothing is compared
	name, text string
}

// boardOf tells what all processes did.
func boardOf(w promo.Window) []told {
	figures := []told{
		{"reads", "reads", fmt.Sprintf("%s/s   p95 %s   p50 %s   p99 %s   %d failed", figure(w.ReadsRate), milliseconds(w.P95), milliseconds(w.P50), milliseconds(w.P99), w.Failed)},
		{"", "", "p95  " + spark(w.Timeline, func(p promo.Point) float64 { return p.P95 })},
		{"", "", "/s   " + spark(w.Timeline, func(p promo.Point) float64 { return p.ReadsRate })},
		{"microcache", "microcache", fmt.Sprintf("%s %.1f%%   %s", bar(w.CacheHits/100), w.CacheHits, counts(w.Cache))},
		{"quotas", "quotas", fmt.Sprintf("%d requests refused   %s", w.Refused, counts(w.Partners))},
	}
	for _, feed := range slices.Sorted(maps.Keys(w.Freshness)) {
		figures = append(figures, told{"freshness of " + feed, "freshness", fmt.Sprintf("%-14s %s   worst %s", feed, aged(w.Freshness[feed].Last), aged(w.Freshness[feed].Worst))})
	}
	for _, system := range slices.Sorted(maps.Keys(w.Legacy)) {
		figures = append(figures, told{"calls to " + system, "legacy calls", fmt.Sprintf("%-14s %s/s   peak %s/s", system, figure(w.Legacy[system].PerSecond), figure(w.Legacy[system].Peak))})
	}
	became := "unknown"
	if w.Events != nil {
		became = counts(w.Events)
	}
	return append(figures,
		told{"orders", "orders", "sent: " + counts(w.Orders)},
		told{"events", "", "what became of orders: " + became},
		told{"processes", "told by", fmt.Sprintf("%d processes, %s to %s", w.Processes, w.From.Format(time.TimeOnly), w.Until.Format(time.TimeOnly))},
	)
}

// inAll tells what a report begins with.
func inAll(w promo.Window) []told {
	return []told{
		{"in all", "in all", fmt.Sprintf("%d reads   %d failed   by status: %s", w.Reads, w.Failed, counts(w.Answers))},
		{"busiest", "busiest", fmt.Sprintf("%s reads/s at %s", figure(w.Peaks.ReadsRate), stampOf(w.Peaks.ReadsAt))},
		{"slowest", "slowest", fmt.Sprintf("p95 %s at %s", milliseconds(w.Peaks.P95), stampOf(w.Peaks.P95At))},
	}
}

func (b board) figures(figures []told) {
	for _, each := range figures {
		b.row(each.name, "%s", each.text)
	}
}

// compared tells each figure with that of the time before below it.
func (b board) compared(figures, before []told) {
	for _, each := range figures {
		b.row(each.name, "%s", each.text)
		if each.key == "" {
			continue
		}
		was := "unknown"
		if i := slices.IndexFunc(before, func(other told) bool { return other.key == each.key }); i >= 0 {
			was = before[i].text
		}
		b.row("  before", "%s", was)
	}
}

// windowRows tell what all processes did.
func windowRows(b board, w promo.Window) {
	if w.Processes == 0 {
		b.row("", "no process has told yet what it does; each does every %s", promo.SlotLength)
		return
	}
	b.figures(boardOf(w))
}

// printPromoReport writes the report of a promo.
func printPromoReport(out io.Writer, r promo.Report) error {
	b := newBoard(out)
	state, ended, when := "so far", "", "now"
	switch {
	case r.Final:
		state, ended, when = "final", ", ended "+endedBy(r.State), "at the end"
	case r.State.EndedBy != "" || !r.Until.Before(r.State.Until):
		state, ended, when = "over; final once every process has told, within a minute", ", ended "+endedBy(r.State), "at the end"
	}
	b.row("report", "%s; %s to %s (%s)%s", state, stampOf(r.From), stampOf(r.Until), r.Until.Sub(r.From).Round(time.Second), ended)
	promoRows(b, r.State)
	b.row("degraded", "%s: %s", when, r.State.Degraded)
	before := "unknown, as not all of as long a time right before it was counted, or another promo was on"
	if r.Before != nil {
		before = fmt.Sprintf("%s to %s", stampOf(r.Before.From), stampOf(r.Before.Until))
	}
	b.row("before", "%s", before)
	b.row("", "")
	switch {
	case r.Processes == 0:
		windowRows(b, r.Window)
	case r.Before == nil:
		b.figures(append(inAll(r.Window), boardOf(r.Window)...))
	default:
		b.compared(append(inAll(r.Window), boardOf(r.Window)...), append(inAll(*r.Before), boardOf(*r.Before)...))
	}
	return b.table.Flush()
}

// figure writes a rate with as many decimals as make sense.
func figure(value float64) string {
	if value >= 100 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.1f", value)
}

func milliseconds(ms float64) string { return fmt.Sprintf("%.1f ms", ms) }

func aged(seconds float64) string {
	if seconds >= promo.NeverInStep {
		return "never in step"
	}
	return fmt.Sprintf("%.1f s", seconds)
}

// counts writes what was counted, the most first.
func counts(by map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		switch {
		case by[a] > by[b], by[a] == by[b] && a < b:
			return -1
		}
		return 1
	})
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = fmt.Sprintf("%s %d", name, by[name])
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, "  ")
}

const shareWidth = 20

// bar draws a share.
func bar(share float64) string {
	filled := int(min(1, max(0, share))*shareWidth + 0.5)
	return strings.Repeat("█", filled) + strings.Repeat("░", shareWidth-filled)
}

var sparks = []rune("▁▂▃▄▅▆▇█")

// spark draws a line, from 0 to its highest value.
func spark(points []promo.Point, value func(promo.Point) float64) string {
	highest := 0.0
	for _, point := range points {
		highest = max(highest, value(point))
	}
	line := make([]rune, len(points))
	for i, point := range points {
		step := 0
		if highest > 0 {
			step = int(value(point) / highest * float64(len(sparks)-1))
		}
		line[i] = sparks[step]
	}
	return fmt.Sprintf("%s  highest %s", string(line), figure(highest))
}

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
		b.row("promo mode", "off; the last promo ended %s%s", stampOf(s.Promo.Until), endedBy(s.Promo))
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
		return " by itself"
	}
	return " by " + p.EndedBy
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

// windowRows tell what all processes did.
func windowRows(b board, w promo.Window) {
	if w.Processes == 0 {
		b.row("", "no process has told yet what it does; each does every %s", promo.SlotLength)
		return
	}
	b.row("reads", "%s/s   p95 %s   p50 %s   p99 %s   %d failed", figure(w.ReadsRate), milliseconds(w.P95), milliseconds(w.P50), milliseconds(w.P99), w.Failed)
	b.row("", "p95  %s", spark(w.Timeline, func(p promo.Point) float64 { return p.P95 }))
	b.row("", "/s   %s", spark(w.Timeline, func(p promo.Point) float64 { return p.ReadsRate }))
	b.row("microcache", "%s %.1f%%   %s", bar(w.CacheHits/100), w.CacheHits, counts(w.Cache))
	b.row("quotas", "%d requests refused   %s", w.Refused, counts(w.Partners))
	for _, feed := range slices.Sorted(maps.Keys(w.Freshness)) {
		b.row("freshness", "%-14s %s   worst %s", feed, aged(w.Freshness[feed].Last), aged(w.Freshness[feed].Worst))
	}
	for _, system := range slices.Sorted(maps.Keys(w.Legacy)) {
		b.row("legacy calls", "%-14s %s/s   peak %s/s", system, figure(w.Legacy[system].PerSecond), figure(w.Legacy[system].Peak))
	}
	b.row("orders", "sent: %s", counts(w.Orders))
	b.row("", "since it was switched on: %s", counts(w.Events))
	b.row("told by", "%d processes, %s to %s", w.Processes, w.From.Format(time.TimeOnly), w.Until.Format(time.TimeOnly))
}

// printPromoReport writes the report of a promo.
func printPromoReport(out io.Writer, r promo.Report) error {
	b := newBoard(out)
	state := "so far"
	switch {
	case r.Final:
		state = "final"
	case r.State.EndedBy != "" || !r.Until.Before(r.State.Until):
		state = "over; final once every process has told, within a minute"
	}
	b.row("report", "%s; %s to %s (%s)%s", state, stampOf(r.From), stampOf(r.Until), r.Until.Sub(r.From).Round(time.Second), endedBy(r.State))
	promoRows(b, r.State)
	b.row("degraded", "at the end: %s", r.State.Degraded)
	b.row("", "")
	if r.Processes > 0 {
		b.row("in all", "%d reads   %d failed   by status: %s", r.Reads, r.Failed, counts(r.Answers))
		b.row("busiest", "%s reads/s at %s", figure(r.Peaks.ReadsRate), stampOf(r.Peaks.ReadsAt))
		b.row("slowest", "p95 %s at %s", milliseconds(r.Peaks.P95), stampOf(r.Peaks.P95At))
	}
	windowRows(b, r.Window)
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

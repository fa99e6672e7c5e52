package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"andes/eventstore"
)

// eventPrinter prints events as they come, as a table or as JSON lines.
type eventPrinter struct {
	out  *bufio.Writer
	json bool
	wide bool
	head bool // is printed
}

func newEventPrinter(out io.Writer, asJSON, wide bool) *eventPrinter {
	return &eventPrinter{out: bufio.NewWriter(out), json: asJSON, wide: wide}
}

func (p *eventPrinter) flush() error { return p.out.Flush() }

// eventLine is an event as JSON.
type eventLine struct {
	Position   int64               `json:"position"`
	Stream     string              `json:"stream"`
	Version    int64               `json:"version"`
	Type       string              `json:"type"`
	Schema     int                 `json:"schema"`
	ID         string              `json:"id"`
	RecordedAt time.Time           `json:"recordedAt"`
	Meta       eventstore.Metadata `json:"meta"`
	Data       json.RawMessage     `json:"data"`
	Redacted   []string            `json:"redacted,omitempty"`
}

func (p *eventPrinter) encode(line any) error {
	encoder := json.NewEncoder(p.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(line)
}

// payloadWidth is where the table cuts a payload, in characters.
const payloadWidth = 100

const (
	tableRow   = "%-10s  %-24s  %-28s  %7s  %-48s  %s\n"
	ellipsis   = "…"
	lineBreaks = "\n"
)

func (p *eventPrinter) print(event shownEvent) error {
	if p.json {
		return p.encode(eventLine{
			event.Position, event.Stream.String(), event.Version, event.Type, event.Schema, event.ID,
			event.RecordedAt.UTC(), event.Meta, event.Data, event.redacted,
		})
	}
	if !p.head {
		p.head = true
		if _, err := fmt.Fprintf(p.out, tableRow, "POSITION", "RECORDED", "TYPE", "VERSION", "STREAM", "PAYLOAD"); err != nil {
			return err
		}
	}
	payload := harmless(string(event.Data))
	if runes := []rune(payload); !p.wide && len(runes) > payloadWidth {
		payload = string(runes[:payloadWidth]) + ellipsis
	}
	_, err := fmt.Fprintf(p.out, tableRow, strconv.FormatInt(event.Position, 10), event.RecordedAt.UTC().Format(seconds3),
		harmless(event.Type), strconv.FormatInt(event.Version, 10), harmless(event.Stream.String()), payload)
	return err
}

// harmlessLines is harmless with the text's own lines.
func harmlessLines(text string) string {
	lines := strings.Split(text, lineBreaks)
	for i, line := range lines {
		lines[i] = harmless(line)
	}
	return strings.Join(lines, lineBreaks)
}

// grouped writes a number for people.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// scanProgress tells how far a walk through the log has come: on a terminal in one line that is written
// over, elsewhere in a line now and then. A nil one tells nothing.
type scanProgress struct {
	out      io.Writer
	what     string
	from, to int64
	terminal bool
	began    time.Time
	told     time.Time
}

const (
	tellOnTerminal = 200 * time.Millisecond
	tellElsewhere  = 10 * time.Second
	eraseLine      = "\r\x1b[K"
)

func newScanProgress(out *os.File, what string, from, to int64) *scanProgress {
	info, err := out.Stat()
	now := time.Now()
	return &scanProgress{
		out: out, what: what, from: from, to: to, began: now, told: now,
		terminal: err == nil && info.Mode()&os.ModeCharDevice != 0,
	}
}

// at is called with each position that was reached.
func (p *scanProgress) at(position int64) {
	if p == nil || position >= p.to {
		return
	}
	now := time.Now()
	pause := tellElsewhere
	if p.terminal {
		pause = tellOnTerminal
	}
	if now.Sub(p.told) < pause {
		return
	}
	p.told = now
	done, whole := position-p.from, p.to-p.from
	left := time.Duration(float64(now.Sub(p.began)) / float64(done) * float64(whole-done)).Round(time.Second)
	text := fmt.Sprintf("%s: position %s of %s, %d %%, %s left", p.what, grouped(position), grouped(p.to), done*100/whole, left)
	if p.terminal {
		fmt.Fprint(p.out, eraseLine, text)
		return
	}
	fmt.Fprintln(p.out, text)
}

// end takes the line away.
func (p *scanProgress) end() {
	if p != nil && p.terminal {
		fmt.Fprint(p.out, eraseLine)
	}
}

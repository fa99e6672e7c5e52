package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"andes/deadletters"
)

// Layout of what operators read.
const (
	seconds3  = "2006-01-02T15:04:05.000Z"
	cellWidth = 60
)

// cell makes a text fit for a cell: nothing in it can steer the terminal, and it is short.
func cell(text string) string {
	text = harmless(text)
	if runes := []rune(text); len(runes) > cellWidth {
		return string(runes[:cellWidth]) + "…"
	}
	return text
}

// harmless keeps a text from steering the terminal that it is printed on.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

func stampOf(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format(seconds3)
}

// printJSON writes a value in one line.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

func printQueues(out io.Writer, output string, queues []deadletters.Queue) error {
	if output == "json" {
		for _, queue := range queues {
			if err := printJSON(out, queue); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "CONSUMER\tDEPTH\tOLDEST\tLAST HOUR\tLAST DAY\tSETTLED\tRUNNING\tMOST FREQUENT ERROR")
	for _, q := range queues {
		top := "-"
		if len(q.Errors) > 0 {
			top = fmt.Sprintf("%d × %s %s", q.Errors[0].Count, q.Errors[0].Type, q.Errors[0].Error)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%d\t%d\t%d\t%s\n", q.Consumer, q.Depth, stampOf(q.Oldest), q.LastHour, q.LastDay, q.Settled, q.Members, cell(top))
	}
	return table.Flush()
}

// letterPrinter prints letters as they come.
type letterPrinter struct {
	out   *bufio.Writer
	table *tabwriter.Writer // nil: JSON lines
	any   bool
}

func newLetterPrinter(out io.Writer, output string) *letterPrinter {
	p := &letterPrinter{out: bufio.NewWriter(out)}
	if output != "json" {
		p.table = tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
	}
	return p
}

func (p *letterPrinter) print(s deadletters.Summary) error {
	if p.table == nil {
		return printJSON(p.out, s)
	}
	if !p.any {
		fmt.Fprintln(p.table, "LETTER\tPARKED\tCLASS\tTYPE\tKEY\tPARTNER\tATTEMPTS\tREPLAYS\tERROR")
		p.any = true
	}
	what, class := s.Error, s.Class
	if s.Foreign != "" {
		what, class = s.Foreign, "foreign"
	}
	if s.Settled != "" {
		class += " (" + s.Settled + ")"
	}
	_, err := fmt.Fprintf(p.table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", s.Letter, stampOf(s.ParkedAt), cell(class), cell(s.Type), cell(s.Key), cell(s.Partner), s.Attempt, s.Replays, cell(what))
	return err
}

func (p *letterPrinter) end() error {
	if p.table != nil {
		if !p.any {
			fmt.Fprintln(p.table, "no letters")
		}
		if err := p.table.Flush(); err != nil {
			return err
		}
	}
	return p.out.Flush()
}

func printDetail(out io.Writer, output string, d deadletters.Detail) error {
	if output == "json" {
		return printJSON(out, d)
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, harmless(value))
		}
	}
	row("letter", d.Letter)
	row("parked", stampOf(d.ParkedAt))
	row("foreign", d.Foreign)
	row("class", d.Class)
	row("error", d.Error)
	row("event", strings.TrimSpace(d.Type+" "+d.EventID))
	row("key", d.Key)
	row("partner", d.Partner)
	if d.Origin.Topic != "" {
		row("origin", fmt.Sprintf("%s/%d/%d %s", d.Origin.Topic, d.Origin.Partition, d.Origin.Offset, stampOf(d.Origin.Timestamp)))
		row("attempts", fmt.Sprintf("%d, the first failed %s", d.Attempt, stampOf(d.FirstFailure)))
		row("replays", strconv.Itoa(d.Replays))
	}
	if d.Settlement != nil {
		row("settlement", fmt.Sprintf("%s (%s) by %s %s: %s", d.Settlement.Action, d.Settlement.State, d.Settlement.Actor, stampOf(d.Settlement.At), d.Settlement.Reason))
	}
	row("waits behind", strings.Join(d.Earlier, ", "))
	if d.BehindCount > 0 {
		row("parked behind it", fmt.Sprintf("%d: %s", d.BehindCount, strings.Join(d.Behind, ", ")))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	printList(out, "failed attempts", d.Failures)
	if d.Payload != nil {
		fmt.Fprintf(out, "\npayload (%s, %d bytes", d.Payload.Kind, d.Bytes)
		if len(d.Payload.Masked) > 0 {
			fmt.Fprintf(out, "; masked: %s", harmless(strings.Join(d.Payload.Masked, ", ")))
		}
		fmt.Fprintln(out, ")")
		printValue(out, d.Payload.JSON, d.Payload.Text)
	}
	if d.Stored != nil {
		fmt.Fprintf(out, "\nin the event store: %s version %d, position %d, %s\n", harmless(d.Stored.Stream), d.Stored.Version, d.Stored.Position, stampOf(d.Stored.RecordedAt))
		printValue(out, d.Stored.Data, "")
	}
	headers := make([]string, len(d.Headers))
	for i, header := range d.Headers {
		headers[i] = header.Name + ": " + header.Value
	}
	printList(out, "headers", headers)
	return nil
}

func printList(out io.Writer, what string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", what)
	for _, line := range lines {
		fmt.Fprintln(out, "  "+harmless(line))
	}
}

func printValue(out io.Writer, document json.RawMessage, text string) {
	var indented bytes.Buffer
	if err := json.Indent(&indented, document, "", "  "); err == nil {
		text = indented.String()
	}
	for line := range strings.Lines(text) {
		fmt.Fprintln(out, "  "+harmless(strings.TrimRight(line, "\n")))
	}
}

func printProgress(out io.Writer, output, done string, p deadletters.Progress) error {
	if output == "json" {
		return printJSON(out, p)
	}
	text := fmt.Sprintf("%d of %d letters %s", p.Sent, p.Planned, done)
	if p.Released > 0 {
		text += fmt.Sprintf(", %d of them were parked behind others", p.Released)
	}
	if p.Returned > 0 {
		text += fmt.Sprintf(", %d failed again and came back", p.Returned)
	}
	fmt.Fprintf(out, "%s (run %s)\n", text, p.Run)
	for _, l := range p.Left {
		fmt.Fprintf(out, "  left: %d %s, for example %s: %s\n", l.Count, l.Why, l.Example, l.Detail)
	}
	if p.Partial {
		fmt.Fprintln(out, "  the DLQ holds more than one run takes: run it again")
	}
	if p.Note != "" {
		fmt.Fprintln(out, "  "+p.Note)
	}
	return nil
}

func printRehearsals(out io.Writer, output string, r deadletters.Rehearsals) error {
	if output == "json" {
		return printJSON(out, r)
	}
	for _, item := range r.Items {
		fmt.Fprintf(out, "%s  %s  key %s  %s\n", item.Letter, harmless(item.Type), harmless(item.Key), item.Outcome)
		if item.Error != "" {
			fmt.Fprintf(out, "  %s error: %s\n", item.Class, harmless(item.Error))
		}
		for _, event := range item.Events {
			fmt.Fprintf(out, "  would append  %s  %s version %d  %s\n", harmless(event.Type), harmless(event.Stream), event.Version, harmless(string(event.Data)))
		}
		for _, call := range item.Calls {
			fmt.Fprintf(out, "  would call    %s %s (%d bytes), taken as answered: %s\n", call.Method, harmless(call.URL), call.Bytes, call.Assumed)
		}
		if len(item.Events)+len(item.Calls) == 0 && item.Error == "" {
			fmt.Fprintln(out, "  nothing: it is done already, or is none of the consumer's business")
		}
	}
	for _, l := range r.Left {
		fmt.Fprintf(out, "would stay: %d %s, for example %s: %s\n", l.Count, l.Why, l.Example, l.Detail)
	}
	if len(r.Items) == 0 && len(r.Left) == 0 {
		fmt.Fprintln(out, "no letters")
	}
	if r.More > 0 {
		fmt.Fprintf(out, "%d more would be replayed; --limit tries more of them\n", r.More)
	}
	fmt.Fprintln(out, "nothing was written, sent or called")
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
)

// eventsGrepCmd finds events by their text. It sees what is shown: what is masked is not found either, or
// the command would tell, question by question, what it does not show.
type eventsGrepCmd struct {
	Pattern string `arg:"" help:"Regular expression (RE2), matched with the stream's name and with the payload's and the metadata's JSON."`
	eventSpan
	eventFilter
	Stream     string `help:"Only events of this stream." placeholder:"CATEGORY/KEY"`
	IgnoreCase bool   `short:"i" help:"Do not tell upper case from lower case."`
	Limit      limit  `help:"Stop after so many matches; 0: no limit."`
	Wide       bool   `help:"Do not cut payloads in the table."`
	output
}

// Run implements the command.
func (c eventsGrepCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	text := c.Pattern
	if c.IgnoreCase {
		text = "(?i)" + text
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return fmt.Errorf("the pattern is no regular expression: %w", err)
	}
	reader, err := openEvents(ctx, s)
	if err != nil {
		return err
	}
	defer reader.close()
	query, err := reader.query(ctx, c.eventFilter, c.eventSpan, c.Stream)
	if err != nil {
		return err
	}
	out := newEventPrinter(os.Stdout, c.Output == "json", c.Wide)
	searched := walk{query: query, limit: c.Limit, progress: newScanProgress(os.Stderr, "searching", query.after, query.to)}
	err = reader.walk(ctx, &searched, func(event shownEvent) (bool, error) {
		meta, err := json.Marshal(event.Meta)
		if err != nil || !pattern.Match(event.Data) && !pattern.Match(meta) && !pattern.MatchString(event.Stream.String()) {
			return false, err
		}
		return true, errors.Join(out.print(event), out.flush())
	})
	searched.progress.end()
	if err := errors.Join(err, out.flush()); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s of %s events match\n", grouped(searched.counted), grouped(searched.seen))
	return nil
}

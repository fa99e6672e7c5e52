package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"andes/deadletters"
	"andes/eventstore"
)

// dlqCmd is what operators do with the records that consumers gave up.
type dlqCmd struct {
	Stats   dlqStatsCmd   `cmd:"" help:"How each DLQ stands: depth, oldest letter, growth, most frequent errors."`
	List    dlqListCmd    `cmd:"" help:"List letters."`
	Show    dlqShowCmd    `cmd:"" help:"Tell all about one letter: payload (masked), headers, attempts, the event in the store, what waits behind it."`
	Replay  dlqReplayCmd  `cmd:"" help:"Send letters back to their consumer."`
	Discard dlqDiscardCmd `cmd:"" help:"Let letters go."`
	Edit    dlqEditCmd    `cmd:"" help:"Send one letter back with a corrected payload."`
	Export  dlqExportCmd  `cmd:"" help:"Write letters as JSON lines, payloads masked."`
}

// dlqAccess says how the operators' commands get at the platform, and how they answer.
type dlqAccess struct {
	Direct bool   `help:"Work on Kafka and PostgreSQL themselves, for the day when the ops API is down. Everything is still audited."`
	Output string `help:"table or json." enum:"table,json" default:"table"`
}

// dlqFilter selects letters.
type dlqFilter struct {
	Topic   string   `help:"Only letters that were read from this topic first." placeholder:"TOPIC"`
	Class   string   `help:"Only letters with this error class: permanent, transient, undecodable, behind." placeholder:"CLASS"`
	Partner string   `help:"Only letters about this partner's orders." placeholder:"ID"`
	Key     string   `help:"Only letters with this key." placeholder:"KEY"`
	Type    string   `help:"Only this type of event, as in order.placed." placeholder:"TYPE"`
	Error   string   `help:"Only letters with this in their error's text." placeholder:"TEXT"`
	Header  []string `help:"Only letters with this header; several are all needed." placeholder:"NAME=VALUE" sep:"none"`
	Since   string   `help:"Only letters parked then or later: a time (2026-11-30, RFC 3339; UTC) or an age (15m, 36h, 7d)." placeholder:"TIME"`
	Until   string   `help:"Only letters parked before." placeholder:"TIME"`
}

// filter reads the flags.
func (f dlqFilter) filter(consumer string, letters ...string) (deadletters.Filter, error) {
	filter := deadletters.Filter{Topic: f.Topic, Class: f.Class, Partner: f.Partner, Key: f.Key, Type: f.Type, Error: f.Error}
	var faults []error
	for _, text := range f.Header {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			faults = append(faults, fmt.Errorf("--header %q is not NAME=VALUE", text))
		}
		filter.Headers = append(filter.Headers, deadletters.Header{Name: name, Value: value})
	}
	now := time.Now()
	var err error
	if filter.Since, err = instant("--since", f.Since, now); err != nil {
		faults = append(faults, err)
	}
	if filter.Until, err = instant("--until", f.Until, now); err != nil {
		faults = append(faults, err)
	}
	for _, text := range letters {
		ref, err := deadletters.ParseRef(text)
		if err == nil && ref.Consumer != consumer {
			err = fmt.Errorf("letter %s is not in the DLQ of %s", text, consumer)
		}
		if err != nil {
			faults = append(faults, err)
		}
		filter.Letters = append(filter.Letters, ref)
	}
	return filter, errors.Join(faults...)
}

// dlqStatsCmd tells how the DLQs stand.
type dlqStatsCmd struct {
	Consumer string `arg:"" optional:"" help:"Only this consumer."`
	dlqAccess
}

// Run implements the command.
func (c dlqStatsCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	desk, err := openDesk(ctx, s, logger, c.Direct)
	if err != nil {
		return err
	}
	defer desk.close()
	queues, err := desk.Stats(ctx, c.Consumer)
	if err != nil {
		return err
	}
	return printQueues(os.Stdout, c.Output, queues)
}

// dlqListCmd lists letters.
type dlqListCmd struct {
	Consumer string `arg:"" optional:"" help:"Whose DLQ; all by default."`
	dlqFilter
	Settled bool  `help:"Also letters that are settled."`
	Limit   limit `help:"Letters at the most; 0: all." default:"50"`
	dlqAccess
}

// Run implements the command.
func (c dlqListCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	printer := newLetterPrinter(os.Stdout, c.Output)
	more, err := eachLetter(ctx, s, logger, letterSearch{consumer: c.Consumer, filter: c.dlqFilter, settled: c.Settled, limit: c.Limit, direct: c.Direct}, printer.print)
	if err != nil {
		return err
	}
	if err := printer.end(); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(os.Stderr, "there are more: --limit shows more than %d, a filter shows others\n", c.Limit)
	}
	return nil
}

// dlqExportCmd writes letters as JSON lines.
type dlqExportCmd struct {
	Consumer string `arg:"" help:"Whose DLQ."`
	dlqFilter
	Settled bool   `help:"Also letters that are settled."`
	Limit   limit  `help:"Letters at the most; 0: all." default:"0"`
	To      string `help:"The file; standard output by default." type:"path" placeholder:"FILE"`
	dlqAccess
}

// Run implements the command.
func (c dlqExportCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) (err error) {
	out := os.Stdout
	if c.To != "" {
		if out, err = os.OpenFile(c.To, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		defer func() { err = errors.Join(err, out.Close()) }()
	}
	printer := newLetterPrinter(out, "json")
	count := 0
	search := letterSearch{consumer: c.Consumer, filter: c.dlqFilter, settled: c.Settled, payload: true, limit: c.Limit, direct: c.Direct}
	_, err = eachLetter(ctx, s, logger, search, func(summary deadletters.Summary) error {
		count++
		return printer.print(summary)
	})
	if err != nil {
		return fmt.Errorf("export: after %d letters: %w", count, err)
	}
	if err := printer.end(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d letters exported\n", count)
	return nil
}

// letterSearch is a search over all its pages.
type letterSearch struct {
	consumer         string // "": every one
	filter           dlqFilter
	settled, payload bool
	limit            limit
	direct           bool
}

const letterPage = 200

// eachLetter hands over the letters that are found; more tells that the limit cut them off.
func eachLetter(ctx context.Context, s *settings, logger *slog.Logger, search letterSearch, each func(deadletters.Summary) error) (more bool, err error) {
	filter, err := search.filter.filter(search.consumer)
	if err != nil {
		return false, err
	}
	desk, err := openDesk(ctx, s, logger, search.direct)
	if err != nil {
		return false, err
	}
	defer desk.close()
	consumers := []string{search.consumer}
	if search.consumer == "" {
		consumers = s.deadLetterConsumers()
	}
	found, searched, refused := 0, 0, error(nil)
	for _, consumer := range consumers {
		query := deadletters.Query{Consumer: consumer, Filter: filter, All: search.settled, Payload: search.payload}
		for first := true; first || query.Cursor != ""; first = false {
			if search.limit.reached(found) {
				return true, nil
			}
			query.Limit = search.limit.next(found, letterPage)
			page, err := desk.List(ctx, query)
			if eventstore.CodeOf(err) == deadletters.CodeTopicUnknown && search.consumer == "" {
				refused = err // others may read it
				break
			}
			if err != nil {
				return false, err
			}
			searched++
			for _, summary := range page.Items {
				if err := each(summary); err != nil {
					return false, err
				}
			}
			found += len(page.Items)
			query.Cursor = page.Cursor
		}
	}
	if searched == 0 {
		return false, refused
	}
	return false, nil
}

// dlqShowCmd tells all about one letter.
type dlqShowCmd struct {
	Letter string `arg:"" help:"consumer/partition/offset, as list prints it."`
	dlqAccess
}

// Run implements the command.
func (c dlqShowCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	ref, err := deadletters.ParseRef(c.Letter)
	if err != nil {
		return err
	}
	desk, err := openDesk(ctx, s, logger, c.Direct)
	if err != nil {
		return err
	}
	defer desk.close()
	detail, err := desk.Show(ctx, ref)
	if err != nil {
		return err
	}
	return printDetail(os.Stdout, c.Output, detail)
}

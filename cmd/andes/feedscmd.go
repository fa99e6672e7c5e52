package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"andes/adapters/postgres"
	"andes/commands/source"
	"andes/polling"
)

// feedsCmd is what operators do with the feeds of the legacy systems.
type feedsCmd struct {
	Show    feedsShowCmd    `cmd:"" default:"withargs" help:"Until when each feed is in step, and how many of its records can't be used (the default)."`
	Rejects feedsRejectsCmd `cmd:"" help:"List the records that can't be used, and why. Each leaves the list when its source has put it right."`
	Reread  feedsRereadCmd  `cmd:"" help:"Have records that can't be used read once more, with the next poll or the next comparison of all."`
	Discard feedsDiscardCmd `cmd:"" help:"Strike records out that can't be used and that their source no longer has."`
}

// feedDesk is where a command works: at the ops API, or at PostgreSQL itself.
type feedDesk interface {
	Standings(ctx context.Context) ([]polling.FeedStanding, error)
	Rejects(ctx context.Context, feed, after string, limit int) ([]polling.Rejected, error)
	Reread(ctx context.Context, feed string, ids []string, actor, reason string) (count int, err error)
	Discard(ctx context.Context, feed string, ids []string, actor, reason string) (count int, err error)
}

// openFeeds finds out where the operator may work.
func openFeeds(ctx context.Context, s *settings, direct bool) (feedDesk, func(), error) {
	if !direct {
		client, err := s.opsClient()
		return client, func() {}, err
	}
	db, err := s.openDB(ctx)
	if err != nil {
		return nil, nil, err
	}
	return postgres.Feeds{DB: db}, db.Close, nil
}

// feedsOf gives the feeds of a system, or the one that is named; all without either.
func feedsOf(system, feed string) ([]string, error) {
	var named []string
	for _, each := range source.Feeds {
		if (feed == "" || each == feed) && (system == "" || strings.HasPrefix(each, system+".")) {
			named = append(named, each)
		}
	}
	if len(named) == 0 {
		return nil, fmt.Errorf("there is no such feed; the feeds are: %s", strings.Join(source.Feeds, ", "))
	}
	return named, nil
}

// feedsShowCmd tells how the feeds stand.
type feedsShowCmd struct {
	opsAccess
}

// Run implements the command.
func (c feedsShowCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	desk, done, err := openFeeds(ctx, s, c.Direct)
	if err != nil {
		return err
	}
	defer done()
	standings, err := desk.Standings(ctx)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(os.Stdout, standings)
	}
	return printStandings(os.Stdout, standings, time.Now())
}

func printStandings(out io.Writer, standings []polling.FeedStanding, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "FEED\tIN STEP AT\tAGO\tREJECTS")
	for _, each := range standings {
		ago := "never"
		if !each.SyncedAt.IsZero() {
			ago = max(0, now.Sub(each.SyncedAt)).Truncate(time.Second).String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\n", each.Feed, stampOf(each.SyncedAt), ago, each.Rejects)
	}
	return table.Flush()
}

// feedsRejectsCmd lists records that can't be used.
type feedsRejectsCmd struct {
	System *string `help:"Only the feeds of erp or wms." enum:"erp,wms" placeholder:"NAME"`
	Feed   string  `help:"Only this one, as erp.prices." placeholder:"FEED"`
	Limit  int     `help:"Most records that are listed." default:"100"`
	opsAccess
}

const (
	maxListedRejects = 100_000
	rejectsPage      = 1000 // the most that the ops API gives at once
)

// rejectOf is a record that can't be used, with its feed.
type rejectOf struct {
	Feed string `json:"feed"`
	polling.Rejected
}

// Run implements the command.
func (c feedsRejectsCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	feeds, err := feedsOf(chosen(c.System), c.Feed)
	if err != nil {
		return err
	}
	if c.Limit < 1 || c.Limit > maxListedRejects {
		return fmt.Errorf("--limit is a number from 1 to %d", maxListedRejects)
	}
	desk, done, err := openFeeds(ctx, s, c.Direct)
	if err != nil {
		return err
	}
	defer done()
	list, more, err := rejectsOf(ctx, desk, feeds, c.Limit)
	if err != nil {
		return err
	}
	return printRejects(os.Stdout, c.Output, list, more)
}

// rejectsOf lists records of the feeds, one feed after the other, and tells whether there are more.
func rejectsOf(ctx context.Context, desk feedDesk, feeds []string, limit int) (list []rejectOf, more bool, err error) {
	for _, feed := range feeds {
		for after := ""; ; {
			// One more than is listed tells whether there are more.
			ask := min(rejectsPage, limit+1-len(list))
			page, err := desk.Rejects(ctx, feed, after, ask)
			if err != nil {
				return nil, false, err
			}
			for _, reject := range page {
				if len(list) == limit {
					return list, true, nil
				}
				list = append(list, rejectOf{feed, reject})
			}
			if len(page) < ask {
				break
			}
			after = page[len(page)-1].ID
		}
	}
	return list, false, nil
}

func printRejects(out io.Writer, output string, list []rejectOf, more bool) error {
	if output == "json" {
		for _, each := range list {
			if err := printJSON(out, each); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "all records can be used")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "FEED\tRECORD\tVERSION\tCODE\tTIMES\tFIRST\tLAST\tDETAIL")
	for _, each := range list {
		detail := each.Detail
		if each.Again {
			detail = "(will be read once more) " + detail
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\n", each.Feed, cell(each.ID), each.Version, each.Code, each.Times, stampOf(each.First), stampOf(each.Last), cell(detail))
	}
	if err := table.Flush(); err != nil || !more {
		return err
	}
	_, err := fmt.Fprintln(out, "there are more: --limit lists them, --feed those of one feed")
	return err
}

// feedsRereadCmd has records read once more.
type feedsRereadCmd struct{ recordsNamed }

// Run implements the command.
func (c feedsRereadCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	return c.work(ctx, s, feedDesk.Reread, "will be read once more")
}

// feedsDiscardCmd strikes records out.
type feedsDiscardCmd struct{ recordsNamed }

// Help implements kong.HelpProvider.
func (feedsDiscardCmd) Help() string {
	return "A record that can't be used leaves the list when its source has put it right; one that the source deleted stays until it is struck out. For example:\n\n" +
		"  andes feeds discard erp.prices 'retail|85123A' --reason 'the ERP has no such price any more'\n\n" +
		"One that the source still has comes back with its next version, or once the process that reads the feed is started again."
}

// Run implements the command.
func (c feedsDiscardCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	return c.work(ctx, s, feedDesk.Discard, "were struck out")
}

// recordsNamed are records of a feed with which something is to be done.
type recordsNamed struct {
	Feed   string   `arg:"" help:"As erp.prices."`
	IDs    []string `arg:"" name:"record" help:"Records, as the list has them."`
	Reason string   `required:"" help:"For the audit log." placeholder:"TEXT"`
	opsAccess
}

// maxNamed is how many records are named at once, as by the ops API.
const maxNamed = 500

// work does it, and tells what became of how many.
func (c recordsNamed) work(ctx context.Context, s *settings, do func(desk feedDesk, ctx context.Context, feed string, ids []string, actor, reason string) (int, error), became string) error {
	if !slices.Contains(source.Feeds, c.Feed) {
		_, err := feedsOf("", c.Feed)
		return err
	}
	if len(c.IDs) > maxNamed {
		return fmt.Errorf("at most %d records can be named at once", maxNamed)
	}
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New("--reason must say why")
	}
	desk, done, err := openFeeds(ctx, s, c.Direct)
	if err != nil {
		return err
	}
	defer done()
	count, err := do(desk, ctx, c.Feed, c.IDs, operatorName(), c.Reason)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(os.Stdout, struct {
			Count int `json:"count"`
		}{count})
	}
	if _, err = fmt.Printf("%d of %d records %s\n", count, len(c.IDs), became); err != nil || count == len(c.IDs) {
		return err
	}
	_, err = fmt.Println("the others are not among those that can't be used (andes feeds rejects)")
	return err
}

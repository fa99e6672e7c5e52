package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"

	"andes/commands/stock"
)

// stockCmd is what operators ask about stock.
type stockCmd struct {
	Oversold oversoldCmd `cmd:"" help:"List the SKUs of which orders hold more units than there are, and the orders. Each leaves the list when a level comes that suffices."`
}

// oversoldDesk is where the command works: at the ops API, or at PostgreSQL itself.
type oversoldDesk interface {
	Oversold(ctx context.Context, after string, limit int) ([]stock.Oversold, error)
}

// openStock finds out where the operator may work.
func openStock(ctx context.Context, s *settings, direct bool) (oversoldDesk, func(), error) {
	if !direct {
		client, err := s.opsClient()
		return client, func() {}, err
	}
	db, err := s.openDB(ctx)
	if err != nil {
		return nil, nil, err
	}
	return db, db.Close, nil
}

// oversoldCmd lists SKUs that are oversold.
type oversoldCmd struct {
	Limit int `help:"Most SKUs that are listed." default:"100"`
	opsAccess
}

const (
	maxListedOversold = 10_000
	oversoldPage      = 100 // the most that the ops API gives at once
	shownHolders      = 5   // orders of a SKU in the table
)

// Run implements the command.
func (c oversoldCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	if c.Limit < 1 || c.Limit > maxListedOversold {
		return fmt.Errorf("--limit is a number from 1 to %d", maxListedOversold)
	}
	desk, done, err := openStock(ctx, s, c.Direct)
	if err != nil {
		return err
	}
	defer done()
	list, more, err := oversoldOf(ctx, desk, c.Limit)
	if err != nil {
		return err
	}
	return printOversold(os.Stdout, c.Output, list, more)
}

// oversoldOf lists SKUs up to a limit, and tells whether there are more.
func oversoldOf(ctx context.Context, desk oversoldDesk, limit int) (list []stock.Oversold, more bool, err error) {
	for after := ""; len(list) <= limit; after = list[len(list)-1].SKU {
		// One more than is listed tells whether there are more.
		ask := min(oversoldPage, limit+1-len(list))
		page, err := desk.Oversold(ctx, after, ask)
		if err != nil {
			return nil, false, err
		}
		list = append(list, page...)
		if len(page) < ask {
			return list, false, nil
		}
	}
	return list[:limit], true, nil
}

func printOversold(out io.Writer, output string, list []stock.Oversold, more bool) error {
	if output == "json" {
		for _, each := range list {
			if err := printJSON(out, each); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no SKU is oversold")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "SKU\tON HAND\tSHIPPED\tRESERVED\tOVERSOLD\tLEVEL SINCE\tDOUBTED SINCE\tORDERS, NEWEST FIRST")
	for _, each := range list {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", cell(each.SKU), each.OnHand, each.Shipped, each.Reserved, each.Oversold, stampOf(each.LevelAt), stampOf(each.DoubtedAt), holdersOf(each))
	}
	if err := table.Flush(); err != nil || !more {
		return err
	}
	_, err := fmt.Fprintln(out, "there are more: --limit lists them")
	return err
}

// holdersOf names the first orders that hold units.
func holdersOf(of stock.Oversold) string {
	shown := of.Orders[:min(len(of.Orders), shownHolders)]
	names := make([]string, len(shown))
	for i, holder := range shown {
		names[i] = fmt.Sprintf("%s (%d)", harmless(holder.OrderID), holder.Quantity)
	}
	if len(shown) < len(of.Orders) || of.More {
		names = append(names, "… (--output json has more)")
	}
	return strings.Join(names, ", ")
}

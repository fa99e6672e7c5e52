package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"

	"andes/deadletters"
)

// auditCmd lists what operators did.
type auditCmd struct {
	Consumer string `help:"Only what concerned this consumer." placeholder:"NAME"`
	Actor    string `help:"Only what this operator did." placeholder:"NAME"`
	Action   string `help:"Only this action, as in dlq.discard." placeholder:"ACTION"`
	RunID    string `name:"run" help:"Only this run." placeholder:"ID"`
	Limit    limit  `help:"Entries at the most; 0: all." default:"50"`
	dlqAccess
}

const maxAuditPage = 500

// Run implements the command.
func (c auditCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	desk, err := openDesk(ctx, s, logger, c.Direct)
	if err != nil {
		return err
	}
	defer desk.close()
	query := deadletters.AuditQuery{Subject: c.Consumer, Actor: c.Actor, Action: c.Action, Run: c.RunID}
	for told := 0; ; {
		query.Limit = c.Limit.next(told, maxAuditPage)
		page, err := desk.Audit(ctx, query)
		if err != nil {
			return err
		}
		if err := printAudit(os.Stdout, c.Output, told == 0, page); err != nil {
			return err
		}
		if told += len(page); len(page) < query.Limit || c.Limit.reached(told) {
			return nil
		}
		query.Before = page[len(page)-1].ID
	}
}

// printAudit prints a page of the audit log.
func printAudit(out io.Writer, output string, first bool, entries []deadletters.AuditEntry) error {
	if output == "json" {
		for _, entry := range entries {
			if err := printJSON(out, entry); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if first {
		fmt.Fprintln(table, "AT\tACTOR\tACTION\tSUBJECT\tCOUNT\tRUN\tREASON\tSELECTED")
	}
	for _, e := range entries {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", stampOf(e.At), cell(e.Actor), e.Action, e.Subject, e.Count, e.Run, cell(e.Reason), cell(e.Detail))
	}
	return table.Flush()
}

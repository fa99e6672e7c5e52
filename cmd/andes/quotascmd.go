package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"andes/quota"
)

// quotasCmd is what operators do with the limits of the partners' tiers.
type quotasCmd struct {
	Show  quotasShowCmd  `cmd:"" default:"withargs" help:"Which limits count (the default)."`
	Set   quotasSetCmd   `cmd:"" help:"Set the limits of tiers, in all processes, while they run. Tiers that are not named stay as they are."`
	Reset quotasResetCmd `cmd:"" help:"Take back all that is set: the configuration counts again."`
}

// quotasAccess says how a command answers. It talks to the ops API.
type quotasAccess struct {
	Output string `help:"table or json." enum:"table,json" default:"table"`
}

// quotasShowCmd tells which limits count.
type quotasShowCmd struct {
	quotasAccess
}

// Run implements the command.
func (c quotasShowCmd) Run(ctx context.Context, s *settings) error {
	client, err := s.opsClient()
	if err != nil {
		return err
	}
	standing, err := client.Quotas(ctx)
	if err != nil {
		return err
	}
	return c.print(os.Stdout, standing)
}

// quotasSetCmd sets limits.
type quotasSetCmd struct {
	Tiers  string `arg:"" help:"Reads and orders a second of tiers, comma-separated, as gold=700/70,bronze=40/4."`
	Reason string `required:"" help:"For the audit log." placeholder:"TEXT"`
	quotasAccess
}

// Run implements the command.
func (c quotasSetCmd) Run(ctx context.Context, s *settings) error {
	named, err := items(c.Tiers)
	if err != nil {
		return err
	}
	return c.change(ctx, s, c.Reason, func(was string) string { return withTiers(was, named) })
}

// quotasResetCmd goes back to the configuration.
type quotasResetCmd struct {
	Reason string `required:"" help:"For the audit log." placeholder:"TEXT"`
	quotasAccess
}

// Run implements the command.
func (c quotasResetCmd) Run(ctx context.Context, s *settings) error {
	return c.change(ctx, s, c.Reason, func(string) string { return "" })
}

// change sets limits in the place of those that count; if others set other ones meanwhile, it is refused.
func (c quotasAccess) change(ctx context.Context, s *settings, reason string, next func(was string) string) error {
	client, err := s.opsClient()
	if err != nil {
		return err
	}
	standing, err := client.Quotas(ctx)
	if err == nil && standing.Unread != "" {
		err = fmt.Errorf("the limits that count can't be read now: %s", standing.Unread)
	}
	if err != nil {
		return err
	}
	changed, err := client.SetQuotas(ctx, quota.Change{Tiers: next(standing.Tiers), Was: standing.Tiers, Reason: reason})
	if err != nil {
		return byFlags(err)
	}
	return c.print(os.Stdout, changed)
}

// withTiers gives tiers with those that are named in the place of the ones of the same name.
func withTiers(tiers string, named []string) string {
	rows := slices.DeleteFunc(strings.Split(tiers, ","), func(row string) bool {
		return slices.ContainsFunc(named, func(other string) bool { return tierOf(other) == tierOf(row) })
	})
	return strings.Join(append(rows, named...), ",")
}

func tierOf(row string) string {
	name, _, _ := strings.Cut(row, "=")
	return strings.TrimSpace(name)
}

func (c quotasAccess) print(out io.Writer, standing quota.Standing) error {
	if c.Output == "json" {
		return printJSON(out, standing)
	}
	b := newBoard(out)
	if standing.Unread == "" {
		b.row("limits", "%s   (reads/orders a second)", standing.Tiers)
	} else {
		b.row("WARNING", "what is set can't be read now: %s", standing.Unread)
	}
	if standing.ChangedBy != "" {
		b.row("changed", "by %s at %s", standing.ChangedBy, stampOf(standing.ChangedAt))
	}
	b.row("configured", "%s", standing.Configured)
	if standing.Here != standing.Tiers {
		b.row("here", "%s   (the process that answers: it follows within %s; a promo may lower it)", standing.Here, settingsLook)
	}
	return b.table.Flush()
}

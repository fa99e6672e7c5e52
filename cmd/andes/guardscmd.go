package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"

	"andes/adapters/opsclient"
	"andes/adapters/postgres"
	"andes/tuning"
)

// guardsCmd is what operators do with the guards of the legacy systems.
type guardsCmd struct {
	Show  guardsShowCmd  `cmd:"" default:"withargs" help:"How the guards stand and what is set (the default)."`
	Set   guardsSetCmd   `cmd:"" help:"Change settings of a guard, in all processes, while they run. What is not named stays as it is."`
	Reset guardsResetCmd `cmd:"" help:"Take back all that is set of a guard, in all processes: the configuration counts again."`
}

// opsAccess says how a command gets at the platform, and how it answers.
type opsAccess struct {
	Direct bool   `help:"Work on PostgreSQL itself, for the day when the ops API is down. Everything is still audited."`
	Output string `help:"table or json." enum:"table,json" default:"table"`
}

// guardDesk is where a command works: at the ops API, or at PostgreSQL itself.
type guardDesk interface {
	Guards(ctx context.Context) (tuning.Overview, error)
	SetGuard(ctx context.Context, change tuning.Change) (tuning.GuardStanding, error)
}

// directGuards sets guards without the ops API; it sees none of them at work.
type directGuards struct{ *tuning.Desk }

func (d directGuards) Guards(ctx context.Context) (tuning.Overview, error) {
	set, err := d.Show(ctx)
	return tuning.Overview{Items: []tuning.Guard{}, Set: set}, err
}

func (d directGuards) SetGuard(ctx context.Context, change tuning.Change) (tuning.GuardStanding, error) {
	change.Actor = operatorName()
	return d.Change(ctx, change)
}

// opsClient gives the command line's side of the ops API.
func (s *settings) opsClient() (*opsclient.Client, error) {
	if s.OpsURL == "" {
		return nil, errors.New("ANDES_OPS_URL is not set: say where the ops API is (commands that have --direct work without it)")
	}
	if s.OpsToken == "" {
		return nil, errors.New("ANDES_OPS_TOKEN is not set: a bearer token with the role ops-viewer or ops-admin is needed")
	}
	return opsclient.New(opsclient.Config{URL: s.OpsURL, Token: s.OpsToken})
}

// openGuards finds out where the operator may work.
func openGuards(ctx context.Context, s *settings, logger *slog.Logger, direct bool) (guardDesk, func(), error) {
	if !direct {
		client, err := s.opsClient()
		return client, func() {}, err
	}
	db, err := s.openDB(ctx)
	if err != nil {
		return nil, nil, err
	}
	p := &platform{settings: s, logger: logger, store: &postgres.Store{DB: db}}
	return directGuards{p.guardDesk()}, db.Close, nil
}

// guardsShowCmd tells how the guards stand.
type guardsShowCmd struct {
	opsAccess
}

// Run implements the command.
func (c guardsShowCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	desk, done, err := openGuards(ctx, s, logger, c.Direct)
	if err != nil {
		return err
	}
	defer done()
	overview, err := desk.Guards(ctx)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(os.Stdout, overview)
	}
	if len(overview.Items) == 0 && !c.Direct {
		fmt.Println("the process that answers has no guards, as it calls no legacy system; the metrics andes_legacy_… tell of all")
	}
	return printGuards(os.Stdout, overview)
}

// guardsSetCmd changes a guard.
type guardsSetCmd struct {
	System        string `arg:"" help:"erp, wms, oms or payment."`
	Concurrency   *int   `placeholder:"N" help:"Most calls at once."`
	Rate          *int   `placeholder:"N" help:"Most calls a second."`
	QueueWait     string `help:"How long a call waits at most for its place and turn." placeholder:"DURATION"`
	Timeout       string `help:"How long one attempt takes at most." placeholder:"DURATION"`
	Attempts      *int   `placeholder:"N" help:"Attempts of a call that may be repeated, the first one included."`
	Waits         string `help:"Pauses before the second, third and fourth attempt, as 200ms,1s,5s; the last one repeats." placeholder:"LIST"`
	MaxRetryAfter string `help:"Longest pause that the system may ask for (Retry-After); a longer one ends the attempts." placeholder:"DURATION"`
	Window        *int   `placeholder:"N" help:"How many of the last results the breaker judges."`
	MinCalls      *int   `placeholder:"N" help:"Results that it needs before it judges."`
	FailPercent   *int   `placeholder:"N" help:"Percent of failures at which it opens."`
	SlowAfter     string `help:"An answer that takes as long counts as slow." placeholder:"DURATION"`
	SlowPercent   *int   `placeholder:"N" help:"Percent of failures and slow answers at which it opens; 0: slowness opens nothing."`
	OpenFor       string `help:"How long an open breaker lets nothing through before it lets probes through." placeholder:"DURATION"`
	OpenFirst     string `help:"The same the first time; it doubles up to --open-for while the probes fail. 0s: it is --open-for at once." placeholder:"DURATION"`
	Probes        *int   `placeholder:"N" help:"Probes that have to succeed before it closes."`
	ProbeWait     string `help:"How long a probe takes at most; then it counts as a failure." placeholder:"DURATION"`
	Reason        string `required:"" help:"For the audit log." placeholder:"TEXT"`
	opsAccess
}

// Help implements kong.HelpProvider.
func (guardsSetCmd) Help() string {
	return "What is set stays over restarts, until a reset. The settings are checked as a whole. For example:\n\n" +
		"  andes guards set erp --concurrency 5 --timeout 1s --reason 'the ERP is slow today'"
}

func (c guardsSetCmd) patch() (tuning.Patch, error) {
	var waits []string
	if c.Waits != "" {
		var err error
		if waits, err = items(c.Waits); err != nil {
			return tuning.Patch{}, fmt.Errorf("--waits: %w", err)
		}
	}
	return tuning.Patch{
		Concurrency: c.Concurrency, Rate: c.Rate, QueueWait: c.QueueWait, Timeout: c.Timeout, Attempts: c.Attempts, Waits: waits,
		MaxRetryAfter: c.MaxRetryAfter, Window: c.Window, MinCalls: c.MinCalls, FailPercent: c.FailPercent,
		SlowAfter: c.SlowAfter, SlowPercent: c.SlowPercent, OpenFor: c.OpenFor, OpenFirst: c.OpenFirst, Probes: c.Probes, ProbeWait: c.ProbeWait,
	}, nil
}

// Run implements the command.
func (c guardsSetCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	patch, err := c.patch()
	if err != nil {
		return err
	}
	if patch.Empty() {
		return errors.New("nothing is to be set: name a setting, as --timeout 1s (andes guards set --help lists them)")
	}
	return c.change(ctx, s, logger, tuning.Change{System: c.System, Patch: patch, Reason: c.Reason})
}

// guardsResetCmd goes back to the configuration.
type guardsResetCmd struct {
	System string `arg:"" help:"erp, wms, oms or payment."`
	Reason string `required:"" help:"For the audit log." placeholder:"TEXT"`
	opsAccess
}

// Run implements the command.
func (c guardsResetCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	return c.change(ctx, s, logger, tuning.Change{System: c.System, Reset: true, Reason: c.Reason})
}

func (c opsAccess) change(ctx context.Context, s *settings, logger *slog.Logger, change tuning.Change) error {
	desk, done, err := openGuards(ctx, s, logger, c.Direct)
	if err != nil {
		return err
	}
	defer done()
	standing, err := desk.SetGuard(ctx, change)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(os.Stdout, standing)
	}
	_, err = fmt.Printf("%s: %s; the guards of all processes follow within %s\n", standing.System, standing.Set, settingsLook)
	return err
}

func printGuards(out io.Writer, overview tuning.Overview) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if len(overview.Items) > 0 {
		fmt.Fprintln(table, "SYSTEM\tBREAKER\tSINCE\tFAILED\tIN FLIGHT\tAT ONCE\tA SECOND\tTIMEOUT\tATTEMPTS\tOPENS AT\tOPEN FOR")
	}
	for _, g := range overview.Items {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d of %d\t%d\t%d\t%d\t%s\t%d\t%d%% of %d\t%s\n", g.System, g.Breaker.State, stampOf(g.Breaker.Since), g.Breaker.Failures, g.Breaker.Results,
			g.InFlight, g.Settings.Concurrency, g.Settings.Rate, g.Settings.Timeout, g.Settings.Attempts, g.Settings.FailPercent, g.Settings.Window, g.Settings.OpenFor)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	set := 0
	for _, standing := range overview.Set {
		if !standing.Set.Empty() {
			set++
			fmt.Fprintf(out, "%s: %s, by %s at %s\n", standing.System, standing.Set, harmless(standing.ChangedBy), stampOf(standing.ChangedAt))
		}
	}
	var err error
	switch {
	case overview.Unread != "":
		_, err = fmt.Fprintf(out, "WARNING: what is set can't be read now: %s\n", harmless(overview.Unread))
	case set == 0:
		_, err = fmt.Fprintln(out, "nothing is set: all guards are as configured")
	}
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"andes/adapters/opsclient"
	"andes/eventstore"
	"andes/promo"
	"andes/quota"
)

// promoCmd is what operators do with promo mode.
type promoCmd struct {
	Status  promoStatusCmd  `cmd:"" default:"withargs" help:"How promo mode stands, and a board of the last minute (the default)."`
	On      promoOnCmd      `cmd:"" help:"Look at the products, put them into the read model, and switch promo mode on in all processes."`
	Degrade promoDegradeCmd `cmd:"" help:"Switch the prepared degradations of the promo that is on: those named are on then, the others off."`
	Off     promoOffCmd     `cmd:"" help:"End the promo now, and its degradations with it."`
	Report  promoReportCmd  `cmd:"" help:"What a promo was like, beside as long a time before it; of one that is on: so far."`
}

// promoAccess says how a command gets at promo mode, and how it answers.
type promoAccess struct {
	Direct bool   `help:"Work on PostgreSQL and Redis themselves, for the day when the ops API is down. Everything is still audited."`
	Output string `help:"table or json." enum:"table,json" default:"table"`
}

// promoDesk is where a command works: at the ops API, or at the services themselves.
type promoDesk interface {
	Promo(ctx context.Context) (promo.Status, error)
	PromoOn(ctx context.Context, plan promo.Plan) (promo.Status, error)
	PromoDegrade(ctx context.Context, degraded promo.Degraded, reason string) (promo.Status, error)
	PromoOff(ctx context.Context, reason string) (promo.Status, error)
	PromoReport(ctx context.Context, id string) (promo.Report, error)
}

var _ promoDesk = (*opsclient.Client)(nil)

// directPromo switches without the ops API.
type directPromo struct{ desk *promo.Desk }

func (d directPromo) Promo(ctx context.Context) (promo.Status, error) { return d.desk.Show(ctx) }

func (d directPromo) PromoOn(ctx context.Context, plan promo.Plan) (promo.Status, error) {
	plan.Actor = operatorName()
	return d.desk.On(ctx, plan)
}

func (d directPromo) PromoDegrade(ctx context.Context, degraded promo.Degraded, reason string) (promo.Status, error) {
	return d.desk.Degrade(ctx, degraded, operatorName(), reason)
}

func (d directPromo) PromoOff(ctx context.Context, reason string) (promo.Status, error) {
	return d.desk.Off(ctx, operatorName(), reason)
}

func (d directPromo) PromoReport(ctx context.Context, id string) (promo.Report, error) {
	return d.desk.Report(ctx, id)
}

// at does something at promo mode's desk.
func (a promoAccess) at(ctx context.Context, s *settings, logger *slog.Logger, do func(desk promoDesk) error) (err error) {
	defer func() { err = byFlags(err) }()
	if !a.Direct {
		client, err := s.opsClient()
		if err != nil {
			return err
		}
		return do(client)
	}
	desk, done, err := openPromo(ctx, s, logger)
	if err != nil {
		return err
	}
	defer done()
	return do(directPromo{desk})
}

// flagsOf are the flags and arguments of what refusals point at.
var flagsOf = map[string]string{
	"/tiers": "tiers",

	"/skus": "--skus", "/for": "--for", "/from": "--from", "/microcache": "--microcache", "/reason": "--reason",
	"/degraded": "degradations", "/degraded/stale": "stale", "/degraded/cap": "cap", "/degraded/quotas": "quotas",
}

// byFlags tells what is wrong with a promo, or with limits, by the flags that were given.
func byFlags(err error) error {
	var refused *eventstore.Refusal
	if !errors.As(err, &refused) || refused.Code != promo.CodeInvalid && refused.Code != quota.CodeInvalid || len(refused.Problems) == 0 {
		return err
	}
	var faults []error
	for _, problem := range refused.Problems {
		flag, known := flagsOf[problem.Pointer]
		if !known {
			flag = problem.Pointer
		}
		faults = append(faults, fmt.Errorf("%s: %s", flag, problem.Detail))
	}
	return fmt.Errorf("%s: %w", refused.Code, errors.Join(faults...))
}

// switched is for commands that answer how promo mode stands then.
func (a promoAccess) switched(ctx context.Context, s *settings, logger *slog.Logger, do func(desk promoDesk) (promo.Status, error)) error {
	return a.at(ctx, s, logger, func(desk promoDesk) error {
		status, err := do(desk)
		if err != nil {
			return err
		}
		if a.Output == "json" {
			return printJSON(os.Stdout, status)
		}
		return printPromo(os.Stdout, status)
	})
}

// promoStatusCmd tells how promo mode stands.
type promoStatusCmd struct {
	promoAccess
}

// Run implements the command.
func (c promoStatusCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	return c.switched(ctx, s, logger, func(desk promoDesk) (promo.Status, error) { return desk.Promo(ctx) })
}

// promoOnCmd switches promo mode on.
type promoOnCmd struct {
	SKUs       []string      `name:"skus" required:"" help:"What the promo sells: SKUs, or @FILE with one a line." placeholder:"A,B|@FILE" sep:"none"`
	For        time.Duration `required:"" help:"How long, from 1m to 24h. It ends by itself." placeholder:"2h"`
	From       string        `help:"When it begins (RFC 3339, or UTC without an offset); as soon as all processes have heard of it by default." placeholder:"TIME"`
	Microcache time.Duration `help:"How long answers about stock and prices are kept, per partner and question; 0s: not at all." default:"2s"`
	Degrade    string        `help:"Degradations from the beginning, comma-separated, as stale=30s,cap=5,quotas=50%; none by default (andes promo degrade --help tells what they do)." placeholder:"LIST"`
	Force      bool          `help:"Also if products are unknown, too old or missing in the read model, or if it can't be looked at."`
	Reason     string        `required:"" help:"For the audit log." placeholder:"TEXT"`
	promoAccess
}

// Help implements kong.HelpProvider.
func (promoOnCmd) Help() string {
	return "While promo mode is on, answers about stock and prices are kept for a moment, the promo's products are polled more often, and what all processes do " +
		"is counted for a report. It begins some seconds later, in all processes at once, and ends by itself. For example:\n\n" +
		"  andes promo on --skus 10002,10080 --for 2h --reason 'Black Friday'"
}

// Run implements the command.
func (c promoOnCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	plan := promo.Plan{For: c.For, Microcache: c.Microcache, Force: c.Force, Reason: c.Reason}
	var err error
	if plan.SKUs, err = skusOf(c.SKUs); err != nil {
		return err
	}
	if c.Degrade != "" {
		if plan.Degraded, err = promo.ParseDegraded(c.Degrade); err != nil {
			return byFlags(err)
		}
	}
	if c.From != "" {
		if plan.From, err = instantToCome(c.From); err != nil {
			return byFlags(err)
		}
	}
	return c.switched(ctx, s, logger, func(desk promoDesk) (promo.Status, error) { return desk.PromoOn(ctx, plan) })
}

// promoDegradeCmd switches degradations.
type promoDegradeCmd struct {
	Degradations string `arg:"" help:"Those that are to be on, comma-separated, as cap=5,quotas=50%; or none."`
	Reason       string `required:"" help:"For the audit log." placeholder:"TEXT"`
	promoAccess
}

// Help implements kong.HelpProvider.
func (promoDegradeCmd) Help() string {
	return "The degradations, the least one first:\n\n" +
		"  stale=30s    give an answer up to that old while there is no newer one; up to 10m\n" +
		"  cap=5        show no channel more units; what can be ordered stays as it is\n" +
		"  quotas=50%   leave all tiers but the highest so much of their quotas\n\n" +
		"What is not named is switched off: name also what is to stay on."
}

// Run implements the command.
func (c promoDegradeCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	degraded, err := promo.ParseDegraded(c.Degradations)
	if err != nil {
		return byFlags(err)
	}
	return c.switched(ctx, s, logger, func(desk promoDesk) (promo.Status, error) { return desk.PromoDegrade(ctx, degraded, c.Reason) })
}

// promoOffCmd ends a promo.
type promoOffCmd struct {
	Reason string `required:"" help:"For the audit log." placeholder:"TEXT"`
	promoAccess
}

// Run implements the command.
func (c promoOffCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	return c.switched(ctx, s, logger, func(desk promoDesk) (promo.Status, error) { return desk.PromoOff(ctx, c.Reason) })
}

// promoReportCmd tells what a promo was like.
type promoReportCmd struct {
	ID string `arg:"" optional:"" name:"promo" help:"Its id, as andes promo status and andes audit tell it; the last one by default."`
	promoAccess
}

// Run implements the command.
func (c promoReportCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	return c.at(ctx, s, logger, func(desk promoDesk) error {
		report, err := desk.PromoReport(ctx, c.ID)
		if err != nil {
			return err
		}
		if c.Output == "json" {
			return printJSON(os.Stdout, report)
		}
		return printPromoReport(os.Stdout, report)
	})
}

// maxSKUFile bounds the file of a promo's products.
const maxSKUFile = 4 << 20

// skusOf reads SKUs as they are given: comma-separated, or in a file with one a line.
func skusOf(texts []string) ([]string, error) {
	var skus []string
	for _, text := range texts {
		name, isFile := strings.CutPrefix(text, "@")
		if !isFile {
			named, err := items(text)
			if err != nil {
				return nil, fmt.Errorf("--skus: %w", err)
			}
			skus = append(skus, named...)
			continue
		}
		listed, err := skusIn(name)
		if err != nil {
			return nil, fmt.Errorf("--skus: %w", err)
		}
		skus = append(skus, listed...)
	}
	if len(skus) == 0 {
		return nil, errors.New("--skus names no SKU")
	}
	return skus, nil
}

// skusIn reads a file of SKUs. Empty lines are skipped, as are those that begin with #.
func skusIn(name string) ([]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxSKUFile+1))
	if err == nil && len(content) > maxSKUFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxSKUFile)
	}
	if err != nil {
		return nil, err
	}
	var skus []string
	for line := range strings.Lines(strings.TrimPrefix(string(content), "\uFEFF")) { // a byte order mark is no part of a SKU
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			skus = append(skus, line)
		}
	}
	return skus, nil
}

// items reads a comma-separated list in which none may be empty: it is a slip, or one is forgotten.
func items(text string) ([]string, error) {
	named := strings.Split(text, ",")
	for i := range named {
		if named[i] = strings.TrimSpace(named[i]); named[i] == "" {
			return nil, fmt.Errorf("number %d of the list %q is empty", i+1, text)
		}
	}
	return named, nil
}

// instantToCome reads a time to come.
func instantToCome(text string) (time.Time, error) {
	for _, layout := range instantLayouts {
		if at, err := time.Parse(layout, text); err == nil && !at.IsZero() {
			return at, nil
		}
	}
	detail := fmt.Sprintf("%q is no time (2026-11-27T00:00:00-03:00, 2026-11-27T03:00 for UTC)", text)
	return time.Time{}, &eventstore.Refusal{Code: promo.CodeInvalid, Detail: detail, Problems: []eventstore.Problem{{Pointer: "/from", Code: promo.CodeInvalid, Detail: detail}}}
}

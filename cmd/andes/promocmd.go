package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"andes/adapters/opsclient"
	"andes/eventstore"
	"andes/promo"
)

// promoCmd is what operators do with promo mode.
type promoCmd struct {
	Status  promoStatusCmd  `cmd:"" default:"withargs" help:"How promo mode stands, and a board of the last minute (the default)."`
	On      promoOnCmd      `cmd:"" help:"Look at the products, put them into the read model, and switch promo mode on in all processes."`
	Degrade promoDegradeCmd `cmd:"" help:"Switch the prepared degradations: those named are on, the others off."`
	Off     promoOffCmd     `cmd:"" help:"End the promo, and its degradations with it."`
	Report  promoReportCmd  `cmd:"" help:"What a promo was like; of one that is on: so far."`
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

// promoFlags are the flags of what refusals point at.
var promoFlags = map[string]string{
	"/skus": "--skus", "/for": "--for", "/from": "--from", "/microcache": "--microcache", "/reason": "--reason",
	"/degraded/stale": "stale=", "/degraded/cap": "cap=", "/degraded/quotas": "quotas=",
}

// byFlags tells what is wrong with a promo by the flags that were given.
func byFlags(err error) error {
	var refused *eventstore.Refusal
	if !errors.As(err, &refused) || refused.Code != promo.CodeInvalid || len(refused.Problems) == 0 {
		return err
	}
	var faults []error
	for _, problem := range refused.Problems {
		flag, known := promoFlags[problem.Pointer]
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
	Degrade    string        `help:"Degradations from the beginning: stale=30s, cap=5, quotas=50%, comma-separated." placeholder:"LIST"`
	Force      bool          `help:"Also if products are unknown, too old or missing in the read model."`
	Reason     string        `required:"" help:"For the audit log." placeholder:"TEXT"`
	promoAccess
}

// Run implements the command.
func (c promoOnCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	plan := promo.Plan{For: c.For, Microcache: c.Microcache, Force: c.Force, Reason: c.Reason}
	var err error
	if plan.SKUs, err = skusOf(c.SKUs); err != nil {
		return err
	}
	if plan.Degraded, err = degradations(c.Degrade); err != nil {
		return err
	}
	if c.From != "" {
		if plan.From, err = instantToCome("--from", c.From); err != nil {
			return err
		}
	}
	return c.switched(ctx, s, logger, func(desk promoDesk) (promo.Status, error) { return desk.PromoOn(ctx, plan) })
}

// promoDegradeCmd switches degradations.
type promoDegradeCmd struct {
	Degradations string `arg:"" help:"stale=30s (give an answer that old while there is no newer one), cap=5 (show no channel more units), quotas=50% (of the lower tiers), comma-separated; or none."`
	Reason       string `required:"" help:"For the audit log." placeholder:"TEXT"`
	promoAccess
}

// Run implements the command.
func (c promoDegradeCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	degraded, err := degradations(c.Degradations)
	if err != nil {
		return err
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
	ID string `arg:"" optional:"" name:"promo" help:"Its id, as status and audit tell it; the last one by default."`
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
			skus = append(skus, list(text)...)
			continue
		}
		info, err := os.Stat(name)
		if err == nil && info.Size() > maxSKUFile {
			err = fmt.Errorf("%s has more than %d bytes", name, maxSKUFile)
		}
		if err != nil {
			return nil, fmt.Errorf("--skus: %w", err)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--skus: %w", err)
		}
		for line := range strings.Lines(string(content)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				skus = append(skus, line)
			}
		}
	}
	if len(skus) == 0 {
		return nil, errors.New("--skus names no SKU")
	}
	return skus, nil
}

// degradations reads a list as stale=30s,cap=5,quotas=50%.
func degradations(text string) (promo.Degraded, error) {
	var degraded promo.Degraded
	if text == "none" {
		return degraded, nil
	}
	for _, item := range list(text) {
		name, value, _ := strings.Cut(item, "=")
		var err error
		switch name {
		case "stale":
			err = degraded.Stale.UnmarshalText([]byte(value))
		case "cap":
			degraded.Cap, err = strconv.ParseInt(value, 10, 64)
		case "quotas":
			degraded.Quotas, err = strconv.Atoi(strings.TrimSuffix(value, "%"))
		default:
			err = errors.New("there is no such degradation")
		}
		if err != nil {
			return degraded, fmt.Errorf("%q is none of stale=30s, cap=5, quotas=50%%: %w", item, err)
		}
	}
	return degraded, nil
}

// instantToCome reads a time to come.
func instantToCome(flag, text string) (time.Time, error) {
	for _, layout := range instantLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s %q is no time (2026-11-27T00:00:00-03:00, 2026-11-27T03:00 for UTC)", flag, text)
}

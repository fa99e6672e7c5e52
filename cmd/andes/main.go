// Command andes is the platform: `andes serve` runs its roles, the other commands are for operators.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
)

// cli is the command line.
type cli struct {
	Config  string      `help:"Configuration file (YAML); the environment overrides it." type:"path" env:"ANDES_CONFIG"`
	Version versionFlag `help:"Tell the version."`
	Serve   serveCmd    `cmd:"" help:"Run roles of the platform."`
	Migrate migrateCmd  `cmd:"" help:"Create or upgrade the database schema and the Kafka topics."`
	Doctor  doctorCmd   `cmd:"" help:"Tell what is missing to run, and how to get it."`
	Events  eventsCmd   `cmd:"" help:"Look into the event log."`
	DLQ     dlqCmd      `cmd:"" name:"dlq" help:"Look at what consumers gave up, send it back or let it go."`
	Audit   auditCmd    `cmd:"" help:"List what operators did, newest first."`

	Guards guardsCmd `cmd:"" help:"Look at the guards of the legacy systems (attempts, calls at once and a second, breaker, timeout of every call), and change their settings."`
	Feeds  feedsCmd  `cmd:"" help:"Look at the feeds of the legacy systems, and at the records of them that can't be used."`
	Stock  stockCmd  `cmd:"" help:"List what is oversold, and the orders that it is about."`
	Quotas quotasCmd `cmd:"" help:"Look at the limits of the partners' tiers and change them."`
	Promo  promoCmd  `cmd:"" help:"Go through a promotion: switch promo mode, see how it goes, read its report."`

	Projections projectionsCmd `cmd:"" help:"Look at the read models, rebuild, verify and roll them back."`
}

// gcPercent lets the heap grow to five times what is live before it is collected. What is live is small
// (requests under way, caches of some megabytes), so the default would collect hundreds of times a
// second under load, and each time costs latency. GOGC overrides it.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	uuid.EnableRandPool() // every answer has an id
	os.Exit(run())
}

func run() int {
	var line cli
	parser := newParser(&line)
	parsed, err := parser.Parse(asked(os.Args[1:]))
	if err == nil {
		err = refuseEmpty(parsed)
	}
	if err != nil {
		return fail(fmt.Errorf("%w (andes --help tells the commands, andes COMMAND --help their flags)", err))
	}
	settings, err := loadSettings(line.Config)
	if err != nil {
		return fail(err)
	}
	// The first signal stops in order; the second one stops at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	logger := newLog(os.Stderr, settings.logLevel())
	slog.SetDefault(logger)
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.Run(settings, logger); err != nil {
		return fail(err)
	}
	return 0
}

// newLog writes lines of JSON. Durations have their unit there: "4.27ms", and not a number of nanoseconds.
func newLog(out io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}))
}

// asked takes `andes help COMMAND` for `andes COMMAND --help`.
func asked(arguments []string) []string {
	if len(arguments) > 0 && arguments[0] == "help" {
		return append(slices.Clone(arguments[1:]), "--help")
	}
	return arguments
}

// versionFlag tells the version, and ends the command.
type versionFlag bool

// BeforeReset is called by the parser.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	info, _ := debug.ReadBuildInfo()
	fmt.Fprintln(app.Stdout, "andes", versionOf(info))
	app.Exit(0)
	return nil
}

// versionOf is the version of the build: that of the module, and what it was built with.
func versionOf(info *debug.BuildInfo) string {
	if info == nil {
		return "of an unknown build"
	}
	version := info.Main.Version
	if version == "" || version == "(devel)" {
		version = "(devel)"
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				version = setting.Value
			}
		}
	}
	return version + " " + info.GoVersion
}

func newParser(line *cli) *kong.Kong {
	return kong.Must(line, kong.Name("andes"), kong.Description("Event-sourced CQRS between sales channels and slow systems."), kong.Vars{"roles": roleNames(roles)})
}

// fail says what is wrong, in a line for each fault.
func fail(err error) int {
	for _, line := range lines(err) {
		fmt.Fprintln(os.Stderr, "andes:", line)
	}
	return 1
}

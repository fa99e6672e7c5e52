package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/catalogue"
	"andes/projections"
	"andes/rebuild"
)

// projectionsCmd is what operators do with the read models.
type projectionsCmd struct {
	Status   projectionsStatus   `cmd:"" help:"Generations, what is in them, and how far the projector is behind."`
	Rebuild  projectionsRebuild  `cmd:"" help:"Build read models anew while the old ones serve, then switch. Goes on with a run that was stopped or killed."`
	Verify   projectionsVerify   `cmd:"" help:"Compare every key with PostgreSQL and name those that differ; exit 1 if there are any."`
	Rollback projectionsRollback `cmd:"" help:"Go back to the generation that served before the last rebuild."`
}

// output is how an answer is printed.
type output struct {
	Output string `help:"table or json." enum:"table,json" default:"table"`
}

// reasoned says why something is done. Who does it is the user.
type reasoned struct {
	Reason string `help:"Why, for the audit log." placeholder:"TEXT"`
}

// workshop is what the commands work with. It needs neither executor nor roles.
type workshop struct {
	db        *postgres.DB
	redis     *redis.Client
	model     *redis.ReadModel
	reader    *kafka.StateReader // nil: Kafka is not needed, or away
	noReader  error              // why
	set       *projections.Set
	rebuilder *rebuild.Rebuilder
}

// workshopNeeds are what differs by command.
type workshopNeeds struct {
	adjust   func(*rebuild.Config)
	patience time.Duration // for Kafka; 0: the reader's own
}

// openWorkshop connects to the services. Without Kafka only what needs it fails.
func openWorkshop(ctx context.Context, s *settings, logger *slog.Logger, need workshopNeeds) (*workshop, error) {
	if err := s.required("postgres_url", "redis_addrs", "kafka_brokers"); err != nil {
		return nil, err
	}
	registry, err := catalogue.Registry()
	if err != nil {
		return nil, err
	}
	w := &workshop{}
	if w.set, err = projections.NewSet(projections.All()...); err != nil {
		return nil, err
	}
	if w.db, err = postgres.Open(ctx, s.postgres(), registry); err != nil {
		return nil, err
	}
	if err := w.openRest(ctx, s, logger, need); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *workshop) openRest(ctx context.Context, s *settings, logger *slog.Logger, need workshopNeeds) (err error) {
	if w.redis, err = redis.Open(ctx, redis.Config{Addrs: list(s.RedisAddrs), Prefix: s.RedisPrefix, WriteTimeout: workshopWriteTimeout}); err != nil {
		return err
	}
	modelConfig := redis.DefaultReadModelConfig()
	modelConfig.Logger = logger
	if w.model, err = redis.NewReadModel(w.redis, modelConfig); err != nil {
		return err
	}
	sources := map[string]rebuild.Source{
		rebuild.FromStates: postgres.StateSource{DB: w.db},
		rebuild.FromEvents: postgres.StateSource{DB: w.db, Events: true},
	}
	w.reader, w.noReader = kafka.NewStateReader(ctx, kafka.StateReaderConfig{
		Cluster: kafka.Cluster{Brokers: list(s.KafkaBrokers), ClientID: "andes-projections"},
		Names:   kafka.Topics{Prefix: s.KafkaPrefix}, Group: projectorName, Patience: need.patience, Logger: logger,
	})
	sources[rebuild.FromTopics] = w.reader
	if w.noReader != nil {
		sources[rebuild.FromTopics] = awaySource{w.noReader}
	}
	config := rebuild.Config{
		Set: w.set, Copy: w.model, States: w.db, Ledger: postgres.Rebuilds{DB: w.db}, Audit: postgres.Rebuilds{DB: w.db}, Sources: sources, Now: time.Now, Logger: logger,
	}
	if need.adjust != nil {
		need.adjust(&config)
	}
	w.rebuilder, err = rebuild.New(config)
	return err
}

// workshopWriteTimeout is longer than that of the roles: a busy Redis holds nobody up here.
const workshopWriteTimeout = 10 * time.Second

func (w *workshop) close() {
	if w.reader != nil {
		w.reader.Close()
	}
	if w.redis != nil {
		w.redis.Close()
	}
	if w.db != nil {
		w.db.Close()
	}
}

// awaySource stands for topics that can't be reached.
type awaySource struct{ err error }

func (a awaySource) Parts(context.Context, []string) ([]rebuild.Part, error) { return nil, a.err }

func (a awaySource) Extend(context.Context, []rebuild.Part) ([]rebuild.Part, error) {
	return nil, a.err
}

func (a awaySource) Read(context.Context, rebuild.Part, func(context.Context, rebuild.Batch) error) error {
	return a.err
}

// background is by how much a rebuild steps back behind whoever serves on the same machine.
const background = 15

// projectionsRebuild builds a generation.
type projectionsRebuild struct {
	Models  []string `arg:"" optional:"" help:"Read models: stock, price, product, source; all by default."`
	From    *string  `help:"What to build from: topics, the state rows of PostgreSQL, or its events folded anew." enum:"topics,states,events" placeholder:"SOURCE"`
	Only    []string `help:"Mend the keys of these SKUs, in place, from PostgreSQL." placeholder:"SKU,…"`
	Rate    int      `help:"Records a second at the most."`
	Hasty   bool     `help:"Take all that the machine gives, although partners wait longer for their reads meanwhile."`
	Restart bool     `help:"Give up a run that is not finished."`
	reasoned
	output
}

// Run implements the command.
func (c projectionsRebuild) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	if c.Rate < 0 {
		return errors.New("--rate is below zero")
	}
	if len(c.Only) > 0 {
		if c.From != nil || c.Restart || c.Rate > 0 {
			return errors.New("--only mends from PostgreSQL, in place: it goes with none of --from, --rate and --restart")
		}
		return projectionsVerify{Models: c.Models, Only: c.Only, Repair: true, reasoned: c.reasoned, output: c.output}.Run(ctx, s, logger)
	}
	if !c.Hasty {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, background) // where it is not allowed, nothing is lost
	}
	show := newShower(os.Stderr)
	w, err := openWorkshop(ctx, s, logger, workshopNeeds{adjust: func(config *rebuild.Config) {
		config.Report, config.Found, config.GivesWay, config.Hasty = show.progress, show.broken, show.givesWay, c.Hasty
	}})
	if err != nil {
		return err
	}
	defer w.close()
	run, err := w.rebuilder.Rebuild(ctx, rebuild.Request{
		Models: c.Models, Source: chosen(c.From), Rate: c.Rate, Restart: c.Restart, Actor: operatorName(), Reason: c.Reason,
	})
	show.end()
	if err != nil {
		return interrupted(ctx, err)
	}
	return c.print(runView(run), func(out io.Writer) {
		took := run.EndedAt.Sub(run.StartedAt).Round(time.Millisecond)
		fmt.Fprintf(out, "generation %s serves %s: %d records from %s in %s, verified\n", run.Generation, strings.Join(run.Models, ", "), run.Records, run.Source, took)
		if run.Mended > 0 {
			fmt.Fprintf(out, "%d keys were not as PostgreSQL has them and were mended\n", run.Mended)
		}
		if run.Broken > 0 {
			fmt.Fprintf(out, "%d broken records are in the DLQ of %s\n", run.Broken, projectorName)
		}
	})
}

// interrupted says so plainly.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("stopped; run the same command again to go on where it was")
	}
	return err
}

// projectionsVerify compares.
type projectionsVerify struct {
	Models []string `arg:"" optional:"" help:"Read models; all by default."`
	Only   []string `help:"Only the keys of these SKUs." placeholder:"SKU,…"`
	Repair bool     `help:"Mend the keys that differ."`
	reasoned
	output
}

var errDiffers = errors.New("the read model differs from PostgreSQL")

// Run implements the command.
func (c projectionsVerify) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	show := newShower(os.Stderr)
	w, err := openWorkshop(ctx, s, logger, workshopNeeds{adjust: func(config *rebuild.Config) { config.Report = show.progress }})
	if err != nil {
		return err
	}
	defer w.close()
	report, err := w.rebuilder.Verify(ctx, rebuild.Check{Models: c.Models, Only: c.Only, Repair: c.Repair, Actor: operatorName(), Reason: c.Reason})
	show.end()
	if err != nil {
		return interrupted(ctx, err)
	}
	if err := c.print(report, func(out io.Writer) { printReport(out, report) }); err != nil {
		return err
	}
	switch {
	case len(report.Unknown) > 0:
		return fmt.Errorf("neither the read model nor PostgreSQL knows %s; keys that differ: %d", strings.Join(report.Unknown, ", "), report.Differing())
	case report.Stopped:
		return fmt.Errorf("%w in more than %d keys: rebuild it instead", errDiffers, rebuild.DefaultDifferences)
	case report.Differing() > 0:
		return fmt.Errorf("%w in %d keys; --repair mends them", errDiffers, report.Differing())
	}
	return nil
}

// projectionsRollback goes back.
type projectionsRollback struct {
	Models []string `arg:"" optional:"" help:"Read models; all by default."`
	reasoned
	output
}

// Run implements the command.
func (c projectionsRollback) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	w, err := openWorkshop(ctx, s, logger, workshopNeeds{})
	if err != nil {
		return err
	}
	defer w.close()
	named, err := w.rebuilder.Rollback(ctx, c.Models, operatorName(), c.Reason)
	if err != nil {
		return err
	}
	serving := map[string]projections.Generation{}
	for _, model := range w.set.Names() {
		serving[model] = named.Of(model).Serving
	}
	return c.print(map[string]any{"pointer": named.String(), "serving": serving}, func(out io.Writer) {
		for _, model := range w.set.Names() {
			fmt.Fprintf(out, "%s: generation %s serves\n", model, serving[model])
		}
	})
}

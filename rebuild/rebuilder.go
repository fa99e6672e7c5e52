package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"andes/projections"
)

// Config is what a Rebuilder works with, and its bounds. The zero value of a bound is its default.
type Config struct {
	Set     *projections.Set // all read models
	Copy    Copy
	States  States
	Ledger  Ledger
	Sources map[string]Source // by name
	Audit   Audit             // may be nil
	Now     func() time.Time
	Logger  *slog.Logger

	// Report is told of the progress every ReportEvery, and Found of each broken record.
	Report      func(Progress)
	ReportEvery time.Duration
	Found       func(Broken)
	GivesWay    func(model string, kept projections.Generation) // a generation that was kept to go back to, before it is dropped

	Hasty        bool          // without regard for those who read meanwhile
	SaveEvery    time.Duration // how much work a killed run does again at the most
	CopyPatience time.Duration // for a Redis that does not answer
	Close        int64         // a run that is so many records behind is close enough to verify
	MaxMended    int           // keys that the source had wrong; beyond it something is wrong with the source
	Patience     time.Duration // for a key to arrive that differs while changes go on
}

// DefaultConfig has the defaults of all bounds.
func DefaultConfig() Config {
	return Config{
		ReportEvery: time.Second, SaveEvery: 2 * time.Second, CopyPatience: 30 * time.Second,
		Close: 1000, MaxMended: 1000, Patience: 10 * time.Second,
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	setDefault(&c.ReportEvery, d.ReportEvery)
	setDefault(&c.SaveEvery, d.SaveEvery)
	setDefault(&c.CopyPatience, d.CopyPatience)
	setDefault(&c.Close, d.Close)
	setDefault(&c.MaxMended, d.MaxMended)
	setDefault(&c.Patience, d.Patience)
	if c.Report == nil {
		c.Report = func(Progress) {}
	}
	if c.Found == nil {
		c.Found = func(Broken) {}
	}
	if c.GivesWay == nil {
		c.GivesWay = func(string, projections.Generation) {}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	var faults []error
	if c.Set == nil || c.Copy == nil || c.States == nil || c.Ledger == nil || c.Now == nil {
		faults = append(faults, errors.New("rebuild: Set, Copy, States, Ledger and Now are needed"))
	}
	if c.MaxMended < 0 || c.Close < 0 || min(c.ReportEvery, c.SaveEvery, c.CopyPatience, c.Patience) < 0 {
		faults = append(faults, errors.New("rebuild: a bound is negative"))
	}
	return errors.Join(faults...)
}

// Rebuilder builds generations and switches between them.
type Rebuilder struct{ config Config }

// New checks the configuration.
func New(config Config) (*Rebuilder, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Rebuilder{config}, nil
}

// Request says what to rebuild.
type Request struct {
	Models  []string // none: those of the unfinished run, or all
	Source  string   // none: that of the unfinished run, or the topics
	Rate    int      // records a second; 0: no limit
	Restart bool     // give an unfinished run up
	Actor   string
	Reason  string
}

// Rebuild begins a run or goes on with an unfinished one, and returns when its generation serves. An
// error leaves the generation that served before, and a run that can go on unless it says otherwise.
func (r *Rebuilder) Rebuild(ctx context.Context, request Request) (Run, error) {
	if _, err := r.config.Set.Only(request.Models...); err != nil {
		return Run{}, err
	}
	var run Run
	err := r.config.Ledger.Exclusively(ctx, func(ctx context.Context) error {
		begun, err := r.begin(ctx, request)
		if err != nil {
			return err
		}
		run = begun
		w := &work{Rebuilder: r, run: run, pace: pace{perSecond: request.Rate, now: r.config.Now}}
		err = w.finish(ctx)
		run = w.run
		if err != nil {
			return err
		}
		return r.record(ctx, Action{
			Name: "projections.rebuild", Actor: request.Actor, Reason: request.Reason,
			Target: strings.Join(run.Models, ","), Generations: run.Generation.String(), Count: run.Records, At: r.config.Now(),
		})
	})
	return run, err
}

func (r *Rebuilder) record(ctx context.Context, action Action) error {
	if r.config.Audit == nil {
		return nil
	}
	if err := r.config.Audit.Record(ctx, action); err != nil {
		return fmt.Errorf("it is done, but not in the audit log: %w", err)
	}
	return nil
}

// begin finds the run to go on with, or makes a new one, and names its generation in the pointer.
func (r *Rebuilder) begin(ctx context.Context, request Request) (Run, error) {
	last, exists, err := r.config.Ledger.Latest(ctx)
	if err != nil {
		return Run{}, err
	}
	unfinished := exists && !last.Ended()
	if unfinished && request.Restart {
		if err := r.abandon(ctx, &last, errors.New("given up for a new one")); err != nil {
			return Run{}, err
		}
		unfinished = false
	}
	models, source := request.Models, request.Source
	if unfinished {
		if len(models) == 0 {
			models = last.Models
		}
		setDefault(&source, last.Source)
		if !last.sameAs(models, source) {
			return Run{}, fmt.Errorf("the rebuild of %s from %s (generation %s) %w: go on with it by `andes projections rebuild`, or give it up by --restart",
				strings.Join(last.Models, ", "), last.Source, last.Generation, ErrUnfinished)
		}
		err := r.resume(ctx, &last)
		return last, err
	}
	if len(models) == 0 {
		models = r.config.Set.Names()
	}
	setDefault(&source, FromTopics)
	if err := r.reach(ctx, source, models); err != nil {
		return Run{}, err
	}
	run := Run{
		Generation: last.Generation, Models: models, Source: source, Phase: Loading,
		Actor: request.Actor, StartedAt: r.config.Now(),
	}
	err = r.open(ctx, &run)
	return run, err
}

// reach makes sure that a source is there before anything is changed for it.
func (r *Rebuilder) reach(ctx context.Context, source string, models []string) error {
	if r.config.Sources[source] == nil {
		return fmt.Errorf("there is no source %q", source)
	}
	set, err := r.config.Set.Only(models...)
	if err != nil {
		return err
	}
	_, err = r.config.Sources[source].Parts(ctx, set.Categories())
	return err
}

// open names a new generation. The older ones that were kept are dropped, so that there is room. The run
// is saved first: its number is taken, whatever comes.
func (r *Rebuilder) open(ctx context.Context, run *Run) error {
	named, err := r.config.Copy.Generations(ctx)
	if err != nil {
		return err
	}
	run.Generation = max(run.Generation, named.Highest()) + 1
	if err := r.save(ctx, run); err != nil {
		return err
	}
	return r.name(ctx, run, named)
}

func (r *Rebuilder) name(ctx context.Context, run *Run, named projections.Generations) error {
	for _, model := range run.Models {
		for _, kept := range named.Of(model).Others {
			if kept != run.Generation {
				r.config.GivesWay(model, kept)
			}
		}
	}
	building := named.With(r.config.Set.Names(), run.Models, func(l projections.Lineage) projections.Lineage {
		return l.Building(run.Generation)
	})
	if err := r.config.Copy.Repoint(ctx, named, building); err != nil {
		return err
	}
	return r.sweep(ctx, building)
}

// resume makes sure that the live feed has written to the run's generation ever since. A Redis that lost
// the pointer has lost the entries too, so they are read again.
func (r *Rebuilder) resume(ctx context.Context, run *Run) error {
	named, err := r.config.Copy.Generations(ctx)
	if err != nil {
		return err
	}
	for _, model := range run.Models {
		if !named.Of(model).Names(run.Generation) {
			run.Parts, run.Phase, run.Records = nil, Loading, 0
			if err := r.save(ctx, run); err != nil {
				return err
			}
			return r.name(ctx, run, named)
		}
	}
	return r.sweep(ctx, named)
}

// sweep drops what no pointer names: kept generations that gave way, and what is left of failures.
func (r *Rebuilder) sweep(ctx context.Context, named projections.Generations) error {
	census, err := r.config.Copy.Census(ctx)
	if err != nil {
		return err
	}
	for generation, counts := range census.Keys {
		var strays []string
		for _, model := range r.config.Set.Names() {
			if counts[model] > 0 && !named.Of(model).Names(generation) {
				strays = append(strays, model)
			}
		}
		if len(strays) == 0 {
			continue
		}
		dropped, err := r.config.Copy.Drop(ctx, generation, strays)
		if err != nil {
			return err
		}
		r.config.Logger.InfoContext(ctx, "rebuild: generation dropped", "generation", int64(generation), "models", strings.Join(strays, ","), "keys", dropped)
	}
	return nil
}

func (r *Rebuilder) save(ctx context.Context, run *Run) error {
	run.UpdatedAt = r.config.Now()
	if run.Ended() && run.EndedAt.IsZero() {
		run.EndedAt = run.UpdatedAt
	}
	if err := r.config.Ledger.Save(ctx, *run); err != nil {
		return fmt.Errorf("save the rebuild: %w", err)
	}
	return nil
}

// abandon ends a run for good: its generation is no longer written and its keys are dropped. A full Redis
// refuses the pointer until keys are gone, so they go first and, for what was written meanwhile, again.
func (r *Rebuilder) abandon(ctx context.Context, run *Run, why error) error {
	named, err := r.config.Copy.Generations(ctx)
	if err != nil {
		return err
	}
	for _, model := range run.Models {
		if named.Of(model).Serving == run.Generation {
			return fmt.Errorf("generation %s serves %s already", run.Generation, model)
		}
	}
	if errors.Is(why, ErrFull) {
		if _, err := r.config.Copy.Drop(ctx, run.Generation, run.Models); err != nil {
			return err
		}
	}
	rest := named.With(r.config.Set.Names(), run.Models, func(l projections.Lineage) projections.Lineage { return l.Without(run.Generation) })
	if err := r.config.Copy.Repoint(ctx, named, rest); err != nil {
		return err
	}
	if _, err := r.config.Copy.Drop(ctx, run.Generation, run.Models); err != nil {
		return err
	}
	run.Phase, run.Failure = Failed, why.Error()
	return r.save(ctx, run)
}

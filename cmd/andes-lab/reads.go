package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"andes/test/load/reads"
)

// readsCmd puts the same reads on the legacy systems themselves and on Andes.
type readsCmd struct {
	Scenarios []int         `help:"Which of the scenarios 1, 2, 3 and 6; by default all of them."`
	Short     bool          `help:"Shorter phases: to see that it works, not to measure."`
	Down      time.Duration `default:"30s" help:"How long ERP and WMS are down in scenario 3. The threshold of staleness is a third of it."`
	ERP       *string       `name:"erp" enum:"tryton" placeholder:"KIND" help:"tryton: ERP and WMS are a real Tryton, in scenario 1."`
	Andes     string        `default:"bin/andes" type:"path" help:"The binary of Andes."`
	Results   string        `default:"test/load/results" type:"path" help:"Folder that gets a folder with the results."`
	Check     bool          `help:"Only tell whether all that is asked for can be played."`
	Tryton    string        `name:"tryton-url" env:"ANDES_TRYTON_URL" help:"Where Tryton is; its database is tryton, its user and password admin."`
}

var errNotAsWanted = errors.New("not all of it is as it is wanted")

// Run plays the scenarios, writes the results, and fails if something is not as it is wanted.
func (c *readsCmd) Run(ctx context.Context) error {
	o := reads.Options{Andes: c.Andes, Scenarios: c.Scenarios, Short: c.Short, Down: c.Down}
	if c.ERP != nil {
		o.Tryton = &reads.Tryton{URL: c.Tryton, Database: "tryton", User: "admin", Password: "admin"}
	}
	if err := o.Validate(); err != nil || c.Check {
		return err
	}
	for _, name := range []string{"ANDES_POSTGRES_URL", "ANDES_REDIS_ADDRS", "ANDES_KAFKA_BROKERS"} {
		if os.Getenv(name) == "" {
			return errors.New(name + " is not set: use `make lab-reads`")
		}
	}
	if c.ERP != nil && c.Tryton == "" {
		return errors.New("ANDES_TRYTON_URL is not set: use `make lab-reads ERP=tryton`")
	}
	o.Folder = filepath.Join(c.Results, time.Now().UTC().Format("2006-01-02T150405Z"))
	if err := os.MkdirAll(o.Folder, 0o755); err != nil {
		return err
	}
	line := &statusLine{}
	o.Tell = line.tell
	result, err := reads.Run(ctx, o)
	line.end()
	if len(result.Takes) == 0 {
		// Nothing was measured: what Andes logged stays.
		return errors.Join(err, interrupted(result))
	}
	return errors.Join(err, c.report(result), interrupted(result))
}

func interrupted(r *reads.Result) error {
	if !r.Interrupted {
		return nil
	}
	return errors.New("interrupted: what was measured until then is in the results")
}

func (c *readsCmd) report(r *reads.Result) error {
	if err := r.Write(); err != nil {
		return err
	}
	broken := false
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n\tAS-IS\tTO-BE\twanted\t\n")
	scenario := ""
	for _, row := range r.Rows() {
		if row.Scenario != scenario {
			scenario = row.Scenario
			fmt.Fprintf(t, "%s\t\t\t\t\n", scenario)
		}
		verdict := "ok"
		switch {
		case row.Broken:
			verdict, broken = "BROKEN", true
		case row.NotJudged:
			verdict = "not judged"
		case row.Wanted == "":
			verdict = ""
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", row.Measure, row.AsIs, row.ToBe, row.Wanted, verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Println()
	for _, figure := range r.Figures() {
		fmt.Printf("RESULT %s %.2f %s (%s)\n", figure.Name, figure.Value, figure.Unit, figure.Note)
	}
	if warning := r.Warning(); warning != "" {
		fmt.Println(warning)
	}
	fmt.Printf("\nreport: %s\n", shorter(filepath.Join(r.Options.Folder, reads.ReportFile)))
	if broken {
		return errNotAsWanted
	}
	return nil
}

// shorter is the path from here, if there is one.
func shorter(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if relative, err := filepath.Rel(here, path); err == nil {
		return relative
	}
	return path
}

// statusLine shows what is going on: one line that is written again on a terminal, one now and then elsewhere.
type statusLine struct {
	told  time.Time
	phase string
}

func (l *statusLine) tell(p reads.Progress) {
	text := fmt.Sprintf("%s  %s  %s  %.0f of %.0f s: p95 %s, %.1f%% errors", p.Scenario, p.Side, p.Phase,
		p.Done.Seconds(), p.Lasts.Seconds(), short(p.Last.P95), 100*p.Last.Share(p.Last.Errors()))
	if onTerminal() {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s", text)
		return
	}
	if phase := p.Scenario + p.Side + p.Phase; phase != l.phase || time.Since(l.told) >= tellEvery {
		l.phase, l.told = phase, time.Now()
		fmt.Println(text)
	}
}

func (l *statusLine) end() {
	if onTerminal() {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}

func onTerminal() bool {
	info, err := os.Stderr.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

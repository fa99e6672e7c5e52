package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/adapters/postgres"
	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/commands/subscription"
	"andes/eventstore"
	"andes/test/pgtest"
)

// logbook is an event log that `andes events` is tried on; no process of the platform runs.
type logbook struct {
	t      *testing.T
	config postgres.Config
	store  *postgres.Store
}

// hidden is what no answer may hold, whatever is asked for.
var hidden = []string{"tok_visa_4242", "Ada Lovelace", "ada@example.test", "+44 1", "Mayfair", "whsec_bm90IHRvIGJlIHNlZW4gYnkgYW55Ym9keSBhdCBhbGw="}

func openLogbook(t *testing.T) *logbook {
	t.Helper()
	t.Parallel()
	config := pgtest.Config(t)
	l := &logbook{t, config, pgtest.Store(t, config, pgtest.Registry(t))}
	now := time.Now()
	l.write(partner.Configure{Partner: partner.State{ID: "acme", Name: "Acme", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"}}})
	l.write(product.Report{SKU: "A", Name: "Lamp", SourceVersion: 1, At: now})
	l.write(price.Report{List: "retail", SKU: "A", Amount: "2.55", Currency: "GBP", SourceVersion: 1, At: now})
	l.write(stock.Report{SKU: "A", OnHand: 10, SourceVersion: 1, At: now})
	l.write(order.Place{
		OrderID: "o1", Partner: "acme", PriceList: "retail", Currency: "GBP", Lines: []order.RequestedLine{{SKU: "A", Quantity: 2}}, PaymentToken: hidden[0],
		Customer: order.Customer{Name: hidden[1], Email: hidden[2], Phone: hidden[3], Address: hidden[4]},
	})
	l.write(subscription.Create{ID: "s1", Partner: "acme", URL: "https://acme.test/hooks", Types: []string{"*"}, Secret: hidden[5]})
	l.write(order.Cancel{OrderID: "o1", Partner: "acme", Reason: order.CancelledByPartner})
	return l
}

func (l *logbook) write(command eventstore.Command) {
	l.t.Helper()
	request := eventstore.Request{Command: command, Meta: eventstore.Metadata{CorrelationID: fmt.Sprintf("%T", command)}}
	if _, err := l.store.Execute(l.t.Context(), request); err != nil {
		l.t.Fatalf("%#v: %v", command, err)
	}
}

func (l *logbook) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, binary, append([]string{"events"}, arguments...)...)
	command.Env = append(os.Environ(), "ANDES_POSTGRES_URL="+l.config.URL, "ANDES_POSTGRES_SCHEMA="+l.config.Schema)
	return command
}

// ask runs the command and gives its standard output and error. Nothing hidden may be in either.
func (l *logbook) ask(arguments ...string) (out, told string, code int) {
	l.t.Helper()
	var stdout, stderr bytes.Buffer
	command := l.command(l.t.Context(), arguments...)
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		code = exit.ExitCode()
	} else if err != nil {
		l.t.Fatal(err)
	}
	for _, secret := range hidden {
		if strings.Contains(stdout.String()+stderr.String(), secret) && !slices.ContainsFunc(arguments, func(a string) bool { return strings.Contains(a, secret) }) {
			l.t.Errorf("andes events %s shows %q", strings.Join(arguments, " "), secret)
		}
	}
	return stdout.String(), stderr.String(), code
}

// must asks what has to be answered.
func (l *logbook) must(arguments ...string) string {
	l.t.Helper()
	out, told, code := l.ask(arguments...)
	if code != 0 {
		l.t.Fatalf("andes events %s: exit %d: %s", strings.Join(arguments, " "), code, told)
	}
	return out
}

// shownLine is a line of JSON of cat, grep, tail and show.
type shownLine struct {
	Position int64           `json:"position"`
	Stream   string          `json:"stream"`
	Version  int64           `json:"version"`
	Type     string          `json:"type"`
	Data     json.RawMessage `json:"data"`
	Redacted []string        `json:"redacted"`
	State    json.RawMessage `json:"state"`
}

func (l *logbook) lines(arguments ...string) []shownLine {
	l.t.Helper()
	var shown []shownLine
	for text := range strings.Lines(l.must(append(arguments, "--output", "json")...)) {
		var line shownLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			l.t.Fatalf("%v: %s", err, text)
		}
		shown = append(shown, line)
	}
	return shown
}

func types(lines []shownLine) string {
	var names []string
	for _, line := range lines {
		names = append(names, line.Type)
	}
	return strings.Join(names, " ")
}

func TestOperatorsReadTheLog(t *testing.T) {
	l := openLogbook(t)
	all := l.lines("cat")
	want := "partner.configured product.described pricelist.opened price.set stock.level_reported"
	if !strings.HasPrefix(types(all), want) || !slices.IsSortedFunc(all, func(a, b shownLine) int { return int(a.Position - b.Position) }) {
		t.Errorf("the log is %s", types(all))
	}
	for _, line := range all {
		if line.Type == "order.placed" && (len(line.Redacted) != 5 || !strings.Contains(string(line.Data), `"paymentToken":"--data_redacted--"`)) {
			t.Errorf("order.placed is shown as %s, redacted %v", line.Data, line.Redacted)
		}
	}
	last := fmt.Sprint(all[len(all)-1].Position)
	for _, c := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"cat", "--limit", "2"}, "partner.configured product.described"},
		{[]string{"cat", "--from", "2", "--to", "3"}, "product.described pricelist.opened"},
		{[]string{"cat", "--stream", "stock/A"}, "stock.level_reported stock.reserved stock.released"},
		{[]string{"cat", "--category", "stock", "--type", "stock.reserved,stock.released"}, "stock.reserved stock.released"},
		{[]string{"cat", "--category", "stock", "--without", "stock.reserved"}, "stock.level_reported stock.released"},
		{[]string{"cat", "--correlation", "product.Report"}, "product.described"},
		{[]string{"cat", "--from", "1h", "--type", "price.set"}, "price.set"},
		{[]string{"cat", "--to", "1h"}, ""},
		{[]string{"cat", "--from", last, "--to", last}, all[len(all)-1].Type},
		{[]string{"grep", "LAMP", "-i"}, "product.described"},
		{[]string{"grep", "Report", "--type", "price.set"}, "price.set"}, // in the metadata
		{[]string{"grep", `"quantity":2`, "--category", "stock", "--limit", "1"}, "stock.reserved"},
		{[]string{"grep", "o1", "--category", "order"}, "order.placed order.cancelled"}, // by the stream's name
		{[]string{"grep", "tok_visa"}, ""},                                              // what is masked is not found either
		{[]string{"grep", "Lovelace|Mayfair|whsec_"}, ""},
	} {
		if got := types(l.lines(c.arguments...)); got != c.want {
			t.Errorf("%v: %s, want %s", c.arguments, got, c.want)
		}
	}
	if table := l.must("cat", "--type", "price.set"); !strings.Contains(table, "POSITION") || !strings.Contains(table, "price/retail|A") {
		t.Error(table)
	}
}

func TestOperatorsSeeAStreamAsItWas(t *testing.T) {
	l := openLogbook(t)
	for _, c := range []struct {
		arguments []string
		events    string
		state     []string // that are in it
	}{
		{[]string{"show", "stock/A"}, "stock.level_reported stock.reserved stock.released", []string{`"onHand":10`, `"reserved":0`}},
		{[]string{"show", "stock/A", "--at", "2"}, "stock.level_reported stock.reserved", []string{`"reserved":2`}},
		{[]string{"show", "stock/A", "--last", "1"}, "stock.released", []string{`"reserved":0`}},
		{[]string{"show", "order/o1", "--at", "1"}, "order.placed", []string{`"status":"PENDING_PAYMENT"`}},
		{[]string{"show", "order/o1"}, "order.placed order.cancelled", []string{`"status":"CANCELLED"`, `"reason":"CANCELLED_BY_PARTNER"`}},
		{[]string{"show", "order/o1", "--at", "0s"}, "order.placed order.cancelled", []string{`"status":"CANCELLED"`}},
		{[]string{"show", "subscription/s1"}, "subscription.created", []string{`"secret":"--data_redacted--"`}}, // in the state too
	} {
		lines := l.lines(c.arguments...)
		events, state := lines[:len(lines)-1], lines[len(lines)-1]
		if types(events) != c.events {
			t.Errorf("%v: %s", c.arguments, types(events))
		}
		for _, part := range c.state {
			if !strings.Contains(string(state.State), part) {
				t.Errorf("%v: %s has no %s", c.arguments, state.State, part)
			}
		}
	}
	if table := l.must("show", "stock/A", "--at", "2"); !strings.Contains(table, "stock/A at version 2") {
		t.Error(table)
	}
}

func TestOperatorsCountTheLog(t *testing.T) {
	l := openLogbook(t)
	var stats struct {
		Events  int64
		Types   []struct{ Type string }
		Buckets []struct{ Events int64 }
		Largest []struct{ Stream string } `json:"largestStreams"`
	}
	if err := json.Unmarshal([]byte(l.must("stats", "--category", "stock", "--top", "1", "--output", "json")), &stats); err != nil {
		t.Fatal(err)
	}
	if stats.Events != 3 || len(stats.Types) != 3 || len(stats.Buckets) == 0 || len(stats.Largest) != 1 || stats.Largest[0].Stream != "stock/A" {
		t.Errorf("%+v", stats)
	}
	if table := l.must("stats"); !strings.Contains(table, "LARGEST STREAMS") || !strings.Contains(table, "order.placed") {
		t.Error(table)
	}
}

func TestOperatorsFollowTheLog(t *testing.T) {
	l := openLogbook(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := l.command(ctx, "tail", "-n", "1", "--stream", "stock/A", "--output", "json")
	var told bytes.Buffer
	command.Stderr = &told
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() string {
		if !lines.Scan() {
			t.Fatalf("the output ended: %v", lines.Err())
		}
		return lines.Text()
	}
	if first := next(); !strings.Contains(first, "stock.released") {
		t.Errorf("first: %s", first)
	}
	l.write(stock.Report{SKU: "B", OnHand: 1, SourceVersion: 1, At: time.Now()})
	l.write(stock.Report{SKU: "A", OnHand: 77, SourceVersion: 2, At: time.Now()})
	if second := next(); !strings.Contains(second, `"onHand":77`) {
		t.Errorf("second: %s", second)
	}
	l.cutConnections()
	l.write(stock.Report{SKU: "A", OnHand: 78, SourceVersion: 3, At: time.Now()})
	if third := next(); !strings.Contains(third, `"onHand":78`) {
		t.Errorf("after a lost connection: %s", third)
	}
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
	if !strings.Contains(told.String(), "connecting again") || !strings.Contains(told.String(), "it goes on after position") {
		t.Errorf("told of the lost connection: %s", &told)
	}
}

// cutConnections ends those of commands that walk through the log, when there is one.
func (l *logbook) cutConnections() {
	l.t.Helper()
	conn, err := pgx.Connect(l.t.Context(), l.config.URL)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for began := time.Now(); time.Since(began) < patience; {
		cut, err := conn.Exec(l.t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = 'andes/' || $1 AND query LIKE '-- A window of the log%'`, l.config.Schema)
		if err != nil {
			l.t.Fatal(err)
		}
		if cut.RowsAffected() > 0 {
			return
		}
	}
	l.t.Fatal("no command walks through the log")
}

func TestQuestionsToTheLogThatCanNotBeAnsweredSaySo(t *testing.T) {
	l := openLogbook(t)
	empty := &logbook{t: t, config: pgtest.Config(t)}
	for _, c := range []struct {
		arguments []string
		words     string
	}{
		{[]string{"show", "o1"}, `"o1" is no stream`},
		{[]string{"show", "basket/o1"}, `there is no category "basket"`},
		{[]string{"show", "order/o2"}, "there is no stream order/o2"},
		{[]string{"show", "order/o1", "--at", "9"}, "there is no version 9 yet"},
		{[]string{"show", "order/o1", "--at", "0"}, "versions start at 1"},
		{[]string{"show", "order/o1", "--at", "1h"}, "there was no stream order/o1 then"},
		{[]string{"show", "order/o1", "--at", "later"}, `"later" is no time`},
		{[]string{"cat", "--stream", "order/o2"}, "there is no stream order/o2"},
		{[]string{"cat", "--type", "order.plaecd"}, `there is no event type "order.plaecd"; those of order: order.placed`},
		{[]string{"tail", "--without", "source.sync"}, `there is no event type "source.sync"; those of source: source.synced`},
		{[]string{"cat", "--category", "orders"}, `there is no category "orders"`},
		{[]string{"cat", "--from", "4711"}, "position 4711 is beyond the end of the log"},
		{[]string{"cat", "--from", "3", "--to", "2"}, "--from is behind --to"},
		{[]string{"cat", "--from", "2027-01-01"}, "in the future"},
		{[]string{"grep", "("}, "no regular expression"},
		{[]string{"stats", "--bucket", "1ms"}, "--bucket has to be a second at least"},
		{[]string{"stats", "--top=-1"}, "--top has to be in"},
		{[]string{"stats", "--top", "many"}, "--top: expected"},
		{[]string{"cat", "--colour"}, "unknown flag --colour"},
		{[]string{"cat", "--output", "xml"}, "--output must be one of"},
		{[]string{"tail", "-n", "999999"}, "--lines has to be in"},
	} {
		out, told, code := l.ask(c.arguments...)
		if code != 1 || out != "" || !strings.HasPrefix(told, "andes: ") || strings.Count(told, "\n") != 1 || !strings.Contains(told, c.words) {
			t.Errorf("andes events %v: exit %d, said %q, want one line with %q", c.arguments, code, told, c.words)
		}
	}
	for _, arguments := range [][]string{{"cat"}, {"grep", "x"}, {"stats"}} {
		if out, told, code := empty.ask(arguments...); code != 0 {
			t.Errorf("an empty log, %v: exit %d %s %s", arguments, code, out, told)
		}
	}
}

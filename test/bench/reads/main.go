//go:build linux

// Command reads measures what an answer of the partner API costs beside the least that it could cost: `make
// bench-reads`.
//
//	read_ratio             authenticated, quota-checked answers for the stock of 10 SKUs by `andes serve`, a
//	                       second, ÷ those of a bare net/http handler, in a process of its own as well, which
//	                       writes the same body with a Content-Type and does nothing else; the same client,
//	                       the same number of connections, one request at a time on each
//	read_ratio_mixed       the same with 20,000 questions for 10 SKUs at random, so that each answer is made: above
//	                       there are 100 questions, and an answer is sent again while nothing of it changes
//	read_cpu_ratio         read_ratio by the CPU time that an answer costs server and client, which others on the
//	                       machine disturb less
//	read_vs_redis          SKU values answered so ÷ values of 16 rueidis clients that do nothing but MGETs of
//	                       the same 10 keys each, from the Redis that Andes reads
//	read_vs_redis_100      the same when a request asks for 100 SKUs, the most that a GET takes
//	read_vs_redis_pipelined  read_vs_redis, but ÷ 16 callers of one rueidis client, which sends what they ask together
//	redis_down_errors_pct  of the base load while a Redis of its own is down for a minute, after the first second
//
// Servers, client, Redis and PostgreSQL share the machine's cores, so the client costs as little as it can
// (client.go); its cost is printed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"andes/test/bench/measure"
)

// options are the flags.
type options struct {
	turn        time.Duration
	connections int
	down        time.Duration
	perSecond   int
	only        string
	binary      string
}

// Parts of the bench.
const (
	onlyRates = "rates"
	onlyDown  = "down"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.DurationVar(&o.turn, "turn", time.Second, "of each side, turn by turn")
	flag.IntVar(&o.connections, "connections", 16, "of the client, and callers of Redis")
	flag.DurationVar(&o.down, "down", time.Minute, "how long Redis is down")
	flag.IntVar(&o.perSecond, "base", 20, "requests a second while Redis is down")
	flag.StringVar(&o.only, "only", "", onlyRates+" or "+onlyDown)
	flag.StringVar(&o.binary, "binary", "", "an andes to measure; by default it is built")
	bare := flag.String("bare", "", "be the bare handler on this address")
	flag.Parse()
	err := error(nil)
	if *bare != "" {
		err = serveBare(*bare)
	} else {
		err = run(ctx, o, measure.Stdout())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-reads:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, report measure.Report) error {
	for _, name := range []string{"ANDES_POSTGRES_URL", "ANDES_REDIS_ADDRS", "ANDES_KAFKA_BROKERS"} {
		if os.Getenv(name) == "" {
			return errors.New(name + " is not set: use `make bench-reads`")
		}
	}
	p, err := preparePlatform(ctx, o.binary)
	defer p.Remove()
	if err != nil {
		return err
	}
	if o.only != onlyDown {
		if err := rates(ctx, o, p, report); err != nil {
			return err
		}
	}
	if o.only != onlyRates {
		return redisDown(ctx, o, p, report)
	}
	return nil
}

// turns of a run: each side in turn, so that all see the same weather.
const turns = 2

// warmUp is the part of a turn that does not count.
const warmUp = 4

// sides are what takes turns.
type sides struct {
	bare, edge, edgeMixed, edgeMost side
	redis, redisPipelined           side
}

func rates(ctx context.Context, o options, p *platform, report measure.Report) error {
	edge, err := p.serve(ctx)
	if err != nil {
		return err
	}
	defer edge.Stop()
	var asked, askedMixed, askedMost []question
	for _, each := range []struct {
		questions *[]question
		lists     [][]string
	}{{&asked, lists(skusAsked)}, {&askedMixed, mixed()}, {&askedMost, lists(mostAsked)}} {
		if *each.questions, err = p.questions(ctx, edge, each.lists); err != nil {
			return err
		}
	}
	bare, err := p.serveBare(ctx, asked[0].want)
	if err != nil {
		return err
	}
	defer bare.Stop()
	plain := make([]question, len(asked))
	for i := range asked {
		plain[i] = question{request: asked[i].request, want: asked[0].want}
	}
	redis, err := p.openRedis(ctx, o.connections)
	if err != nil {
		return err
	}
	defer redis.close()
	report.Note("%d connections, one request at a time on each, %d different questions for %d SKUs each; body %d bytes; quota on, tiers raised",
		o.connections, len(asked), skusAsked, len(asked[0].want))
	report.Note("nothing is durable here: PostgreSQL and Kafka are idle, Redis is read")
	var all []sides
	for i := range measure.Runs {
		var run sides
		for range turns {
			for _, each := range []struct {
				side *side
				turn func() (side, error)
			}{
				{&run.bare, func() (side, error) { return ask(bare, plain, o) }},
				{&run.edge, func() (side, error) { return ask(edge, asked, o) }},
				{&run.redis, func() (side, error) { return redis.apart(ctx, o) }},
				{&run.redisPipelined, func() (side, error) { return redis.pipelined(ctx, o) }},
				{&run.edgeMost, func() (side, error) { return ask(edge, askedMost, o) }},
				{&run.edgeMixed, func() (side, error) { return ask(edge, askedMixed, o) }},
			} {
				one, err := each.turn()
				if err = errors.Join(err, ctx.Err()); err != nil {
					return err
				}
				each.side.add(one)
			}
		}
		report.Note("run %d: bare %s; edge %s; mixed %s; %d SKUs %s; MGET %s; MGET pipelined %s",
			i+1, run.bare, run.edge, run.edgeMixed, mostAsked, run.edgeMost, run.redis, run.redisPipelined)
		all = append(all, run)
	}
	results(all, report)
	return nil
}

func results(runs []sides, report measure.Report) {
	for _, result := range []struct {
		name, unit string
		of         func(sides) float64
	}{
		{"read_ratio", "x", func(s sides) float64 { return s.edge.rate() / s.bare.rate() }},
		{"read_ratio_mixed", "x", func(s sides) float64 { return s.edgeMixed.rate() / s.bare.rate() }},
		{"read_cpu_ratio", "x", func(s sides) float64 { return s.bare.cpu() / s.edge.cpu() }},
		{"read_vs_redis", "x", func(s sides) float64 { return s.edge.rate() / s.redis.rate() }},
		{"read_vs_redis_100", "x", func(s sides) float64 { return s.edgeMost.rate() * mostAsked / (s.redis.rate() * skusAsked) }},
		{"read_vs_redis_pipelined", "x", func(s sides) float64 { return s.edge.rate() / s.redisPipelined.rate() }},
		{"read_answers", "/s", func(s sides) float64 { return s.edge.rate() }},
	} {
		var values measure.Series
		for _, run := range runs {
			values = append(values, result.of(run))
		}
		report.Result(result.name, values, result.unit)
	}
}

// side is what one side did in its turns.
type side struct {
	answers        int
	took           time.Duration
	server, client time.Duration // CPU time
}

func (s *side) add(turn side) {
	s.answers += turn.answers
	s.took += turn.took
	s.server += turn.server
	s.client += turn.client
}

func (s side) rate() float64 { return float64(s.answers) / s.took.Seconds() }

// cpu is what an answer cost client and server together, in seconds.
func (s side) cpu() float64 { return (s.client + s.server).Seconds() / float64(s.answers) }

func (s side) String() string {
	text := fmt.Sprintf("%.0f/s, client %.2f cores", s.rate(), s.client.Seconds()/s.took.Seconds())
	if s.server > 0 {
		text += fmt.Sprintf(", server %.2f cores = %.1f µs each", s.server.Seconds()/s.took.Seconds(), float64(s.server.Microseconds())/float64(s.answers))
	}
	return text
}

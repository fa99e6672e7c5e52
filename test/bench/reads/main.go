//go:build linux

// Command reads measures what an answer of the partner API costs beside the least that it could cost: `make
// bench-reads`.
//
//	read_ratio             authenticated, quota-checked answers for the stock of 10 SKUs by `andes serve`, a
//	                       second, ÷ those of a bare net/http handler, in a process of its own as well, which
//	                       writes the same body with a Content-Type and does nothing else; the same client,
//	                       the same number of connections, one request at a time on each
//	read_cpu_ratio         the same by the CPU time that an answer costs server and client, which others on the
//	                       machine disturb less
//	read_vs_redis          SKU values answered so ÷ values of 16 rueidis clients that do nothing but MGETs of
//	                       the same 10 keys each, from the Redis that Andes reads
//	read_vs_redis_pipelined  the same ÷ 16 callers of one rueidis client, which sends what they ask together
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

func rates(ctx context.Context, o options, p *platform, report measure.Report) error {
	edge, err := p.serve(ctx)
	if err != nil {
		return err
	}
	defer edge.Stop()
	asked, err := p.questions(ctx, edge)
	if err != nil {
		return err
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
	var ratio, cpu, values, pipelined, perSecond series
	for i := range measure.Runs {
		var sides [4]side // bare, edge, MGET, MGET pipelined
		for range turns {
			for n, turn := range []func() (side, error){
				func() (side, error) { return ask(bare, plain, o) },
				func() (side, error) { return ask(edge, asked, o) },
				func() (side, error) { return redis.apart(ctx, o) },
				func() (side, error) { return redis.pipelined(ctx, o) },
			} {
				one, err := turn()
				if err != nil {
					return err
				}
				sides[n].add(one)
			}
		}
		report.Note("run %d: bare %s; edge %s; MGET %s; MGET pipelined %s", i+1, sides[0], sides[1], sides[2], sides[3])
		ratio = append(ratio, sides[1].rate()/sides[0].rate())
		cpu = append(cpu, sides[0].cpu()/sides[1].cpu())
		values = append(values, sides[1].rate()/sides[2].rate())
		pipelined = append(pipelined, sides[1].rate()/sides[3].rate())
		perSecond = append(perSecond, sides[1].rate())
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	report.Result("read_ratio", ratio, "x")
	report.Result("read_cpu_ratio", cpu, "x")
	report.Result("read_vs_redis", values, "x")
	report.Result("read_vs_redis_pipelined", pipelined, "x")
	report.Result("read_answers", perSecond, "/s")
	return nil
}

type series = measure.Series

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

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// value is one line of a metric.
type value struct {
	line   string
	amount float64
}

type values []value

func (v values) String() string {
	var text strings.Builder
	for _, one := range v {
		text.WriteString(one.line + "\n")
	}
	return text.String()
}

func (v values) sum() (total float64) {
	for _, one := range v {
		total += one.amount
	}
	return total
}

func (v values) above(limit float64) values {
	return slices.DeleteFunc(slices.Clone(v), func(one value) bool { return one.amount <= limit })
}

// metric reads the lines of a metric that have the label.
func (d *drill) metric(ctx context.Context, name, label string) (values, error) {
	got, err := newCaller(d.cmd.product.url(), "").call(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	var found values
	for line := range strings.Lines(string(got.body)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if !strings.HasPrefix(line, name+"{") || !strings.Contains(line, label) || at < 0 {
			continue
		}
		amount, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		found = append(found, value{line, amount})
	}
	return found, nil
}

// emptyRedis removes every key of the read model.
func (d *drill) emptyRedis(ctx context.Context) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: strings.Split(d.cmd.Redis, ","), DisableCache: true})
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	defer client.Close()
	removed := 0
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		page, err := client.Do(ctx, client.B().Scan().Cursor(cursor).Match(d.cmd.Prefix+"*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		if len(page.Elements) > 0 {
			if err := client.Do(ctx, client.B().Unlink().Key(page.Elements...).Build()).Error(); err != nil {
				return fmt.Errorf("redis: %w", err)
			}
		}
		removed, cursor = removed+len(page.Elements), page.Cursor
	}
	d.say("%d keys are gone; a partner goes on reading %d times a second.", removed, drillReads)
	return nil
}

// readers ask for stock at a fixed rate.
type readers struct {
	end     context.CancelFunc
	done    sync.WaitGroup
	mu      sync.Mutex
	times   []time.Duration
	failed  int
	example string
}

// readOn begins to read.
func (d *drill) readOn(ctx context.Context) *readers {
	ctx, cancel := context.WithCancel(ctx)
	r := &readers{end: cancel}
	r.done.Go(func() {
		tick := time.NewTicker(time.Second / drillReads)
		defer tick.Stop()
		path := readPath("stock", d.skus)
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				got, err := d.channel.call(ctx, kindRead, http.MethodGet, path, nil)
				if ctx.Err() == nil {
					r.note(got, err, len(d.skus))
				}
			}
		}
	})
	return r
}

// note judges an answer: every SKU must be in it.
func (r *readers) note(got answer, err error, wanted int) {
	var page stockAnswer
	if err == nil {
		err = got.into(http.MethodGet, "/v1/stock", &page)
	}
	if err == nil && len(page.Items) != wanted {
		err = fmt.Errorf("%d of %d SKUs were answered", len(page.Items), wanted)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, got.took)
	if err != nil {
		r.failed++
		r.example = err.Error()
	}
}

// stop ends the reading; it fails if one of the answers was wrong.
func (r *readers) stop() error {
	r.end()
	r.done.Wait()
	if r.failed > 0 {
		return fmt.Errorf("%d of %d reads failed, for example: %s", r.failed, len(r.times), r.example)
	}
	return nil
}

func (r *readers) String() string {
	return fmt.Sprintf("Meanwhile %d reads, none failed; p50 %s, p99 %s.", len(r.times),
		quantile(r.times, 0.5).Round(10*time.Microsecond), quantile(r.times, 0.99).Round(10*time.Microsecond))
}

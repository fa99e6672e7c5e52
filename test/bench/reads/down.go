//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"andes/test/bench/andes"
	"andes/test/bench/measure"
)

// forgiven is how long after Redis goes down errors do not count.
const forgiven = time.Second

// redisDown stops a Redis of its own under the base load, and starts it again.
func redisDown(ctx context.Context, o options, p *platform, report measure.Report) error {
	redis, err := startRedis(ctx, p.Folder, "")
	if err != nil {
		return err
	}
	defer func() { redis.kill() }()
	edge, err := p.serve(ctx, "ANDES_REDIS_ADDRS="+redis.address)
	if err != nil {
		return err
	}
	defer edge.Stop()
	token, err := edge.Token(ctx, channel)
	if err != nil {
		return err
	}
	load := func(d time.Duration) outcome { return p.baseLoad(ctx, edge, token, o.perSecond, d) }
	before := load(5 * time.Second)
	redis.kill()
	first := load(forgiven)
	down := load(o.down - forgiven)
	if redis, err = startRedis(ctx, p.Folder, redis.address); err != nil {
		return err
	}
	back := load(5 * time.Second)
	for _, each := range []struct {
		name string
		outcome
	}{{"before", before}, {"first second of Redis down", first}, {"down", down}, {"started again, empty", back}} {
		report.Note("%-26s %d reads of %d SKUs, %d failed, p50 %.2f ms, p99 %.2f ms, slowest %.2f ms", each.name, each.asked, skusAsked, each.failed,
			measure.Milliseconds(each.percentile(50)), measure.Milliseconds(each.percentile(99)), measure.Milliseconds(each.percentile(100)))
		if each.first != nil {
			report.Note("  for example: %v", each.first)
		}
	}
	report.Result("redis_down_errors_pct", measure.Series{100 * float64(down.failed) / float64(down.asked)}, "%")
	return ctx.Err()
}

// outcome is what became of the requests of a load.
type outcome struct {
	asked, failed int
	first         error // of those that failed
	took          []time.Duration
}

func (o *outcome) percentile(percent float64) time.Duration {
	slices.Sort(o.took)
	return measure.Percentile(o.took, percent)
}

// baseLoad sends requests when they are due, however long the others take; latency counts from then.
func (p *platform) baseLoad(ctx context.Context, of *andes.Server, token string, perSecond int, d time.Duration) outcome {
	var mu sync.Mutex
	var result outcome
	var sent sync.WaitGroup
	step, began := time.Second/time.Duration(perSecond), time.Now()
	for n := range int(d / step) {
		due := began.Add(time.Duration(n) * step)
		if pause(ctx, time.Until(due)) != nil {
			break
		}
		var names []string
		for i := range skusAsked {
			names = append(names, skuName((n*skusAsked+i)%skus))
		}
		sent.Go(func() {
			_, err := p.read(ctx, of, "/v1/stock?sku="+strings.Join(names, ","), token)
			mu.Lock()
			defer mu.Unlock()
			result.asked++
			result.took = append(result.took, time.Since(due))
			if err != nil {
				result.failed++
				result.first = err
			}
		})
	}
	sent.Wait()
	return result
}

// ownRedis is a Redis that the bench may stop.
type ownRedis struct {
	process *exec.Cmd
	address string
}

const (
	redisWait  = 30 * time.Second
	redisPause = 50 * time.Millisecond
)

func startRedis(ctx context.Context, folder, address string) (*ownRedis, error) {
	if address == "" {
		var err error
		if address, err = andes.FreeAddress(); err != nil {
			return nil, err
		}
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder)
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	r := &ownRedis{process: process, address: address}
	for deadline := time.Now().Add(redisWait); time.Now().Before(deadline); {
		if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			return r, conn.Close()
		}
		if err := pause(ctx, redisPause); err != nil {
			break
		}
	}
	r.kill()
	return nil, fmt.Errorf("redis-server on port %s did not become ready", strconv.Quote(port))
}

func (r *ownRedis) kill() {
	if r != nil {
		_ = r.process.Process.Kill()
		_ = r.process.Wait()
	}
}

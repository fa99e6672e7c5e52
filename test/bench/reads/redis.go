//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"andes/test/bench/andes"
	"andes/test/bench/measure"
)

// redisLoop is the least that a reader of Redis does: MGETs of the keys that Andes keeps the SKUs under.
type redisLoop struct {
	clients []rueidis.Client
	keys    [][]string
}

func (p *platform) openRedis(ctx context.Context, callers int) (*redisLoop, error) {
	loop := &redisLoop{}
	for range callers {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: strings.Split(os.Getenv("ANDES_REDIS_ADDRS"), ","), DisableCache: true})
		if err != nil {
			loop.close()
			return nil, err
		}
		loop.clients = append(loop.clients, client)
	}
	client := loop.clients[0]
	kept, err := client.Do(ctx, client.B().Keys().Pattern(p.Name+":*:stock:*").Build()).AsStrSlice()
	if err == nil && len(kept) != skus {
		err = fmt.Errorf("%d SKUs are in Redis, want %d", len(kept), skus)
	}
	if err != nil {
		loop.close()
		return nil, err
	}
	for from := 0; from < len(kept); from += skusAsked {
		loop.keys = append(loop.keys, kept[from:from+skusAsked])
	}
	return loop, nil
}

func (r *redisLoop) close() {
	for _, client := range r.clients {
		client.Close()
	}
}

// apart runs a caller on each client for a turn: a connection for each.
func (r *redisLoop) apart(ctx context.Context, o options) (side, error) {
	return r.loop(ctx, o, func(caller int) rueidis.Client { return r.clients[caller] })
}

// pipelined runs the same callers on one client, which sends what is asked at the same time together.
func (r *redisLoop) pipelined(ctx context.Context, o options) (side, error) {
	return r.loop(ctx, o, func(int) rueidis.Client { return r.clients[0] })
}

// loop runs the callers for a turn, of which the first tenth warms up.
func (r *redisLoop) loop(ctx context.Context, o options, of func(caller int) rueidis.Client) (side, error) {
	began, before := time.Now(), andes.OwnCPU()
	load := measure.Closed(len(r.clients), o.turn, func(caller, n int) error {
		client, keys := of(caller), r.keys[(caller*len(r.keys)/len(r.clients)+n)%len(r.keys)]
		values, err := client.Do(ctx, client.B().Mget().Key(keys...).Build()).ToArray()
		if err != nil {
			return err
		}
		for i := range values {
			if _, err := values[i].ToString(); err != nil {
				return err
			}
		}
		return nil
	})
	took := time.Since(began)
	return side{answers: int(load.PerSecond * took.Seconds()), took: took, client: andes.OwnCPU() - before}, load.First
}

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// plan is a partner's requests.
type plan struct {
	partner   string
	perSecond int
}

// warmUp is the time at the begin of a run that does not count.
const warmUp = time.Second

// load runs the plans side by side and gives the outcome of each.
func (p *platform) load(ctx context.Context, duration time.Duration, plans ...plan) ([]outcome, error) {
	outcomes := make([]outcome, len(plans))
	var running sync.WaitGroup
	for i, each := range plans {
		running.Go(func() { outcomes[i] = p.follow(ctx, duration, each) })
	}
	running.Wait()
	return outcomes, ctx.Err()
}

// follow sends the requests of a plan when they are due, however long the others take. The client's own
// timeout bounds how many are on their way.
func (p *platform) follow(ctx context.Context, duration time.Duration, of plan) outcome {
	var mu sync.Mutex
	var result outcome
	var accepted []time.Time
	var sent sync.WaitGroup
	pause := time.Second / time.Duration(of.perSecond)
	began := time.Now()
	for n := range int((warmUp + duration) / pause) {
		due := began.Add(time.Duration(n) * pause)
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(due)):
		}
		sent.Go(func() {
			err := p.read(ctx, p.servers[n%len(p.servers)].URL(), of.partner)
			took := time.Since(due)
			if due.Before(began.Add(warmUp)) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				result.others++
				result.first = err
				return
			}
			accepted = append(accepted, due)
			result.took = append(result.took, took)
		})
	}
	sent.Wait()
	if len(accepted) > 1 {
		slices.SortFunc(accepted, time.Time.Compare)
		result.steady, result.intervals = accepted[len(accepted)-1].Sub(accepted[0]), len(accepted)-1
	}
	return result
}

// read asks for stock; anything but 200 is an error.
func (p *platform) read(ctx context.Context, url, partner string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+p.target, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+p.tokens[partner])
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", response.Status)
	}
	return nil
}

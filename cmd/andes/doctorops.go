package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"andes/adapters/guard"
	"andes/adapters/opsclient"
	"andes/polling"
	"andes/tuning"
)

// throughOps lets the ops API tell more than a port does; where it can't be asked, that is said and is no fault of
// what is looked at.
func throughOps(need string, look func(context.Context, *settings, *opsclient.Client) (finding, error)) func(context.Context, *settings) finding {
	return func(ctx context.Context, s *settings) finding {
		unseen := func(why string) finding {
			return finding{need: need, state: "could not look: " + why, mark: unknownMark}
		}
		for _, each := range []struct{ name, value string }{{"ops_url", s.OpsURL}, {"ops_token", s.OpsToken}} {
			if each.value == "" {
				return unseen(asVariable(each.name) + " is not set")
			}
		}
		client, err := s.opsClient()
		if err != nil {
			return unseen(asVariable("ops_url") + " is no http:// or https:// URL")
		}
		f, err := look(ctx, s, client)
		switch {
		case errors.Is(err, opsclient.ErrNoAnswer):
			return unseen("the ops API at " + withoutUser(s.OpsURL) + " does not answer")
		case err != nil:
			return unseen(harmless(err.Error()))
		}
		f.need = need
		return f
	}
}

// lookAtGuards tells of breakers that let no calls through.
func lookAtGuards(ctx context.Context, _ *settings, client *opsclient.Client) (finding, error) {
	overview, err := client.Guards(ctx)
	if err != nil {
		return finding{}, err
	}
	return judgeGuards(overview.Items), nil
}

func judgeGuards(guards []tuning.Guard) finding {
	if len(guards) == 0 {
		return finding{state: "could not look: the process that answers calls no legacy system", mark: unknownMark}
	}
	var closed, tripped []string
	for _, each := range guards {
		if each.Breaker.State == string(guard.Closed) {
			closed = append(closed, each.System)
			continue
		}
		tripped = append(tripped, fmt.Sprintf("%s: the breaker is %s since %s, as its calls fail or are slow", each.System, each.Breaker.State, stampOf(each.Breaker.Since)))
	}
	if len(tripped) == 0 {
		return finding{state: "closed: " + strings.Join(closed, ", ")}
	}
	return finding{
		state: strings.Join(tripped, "\n"), mark: wrongMark,
		remedy: "see the runbook legacy-system-away; `andes guards` tells more",
	}
}

// lookAtFeeds tells of feeds that are behind.
func lookAtFeeds(ctx context.Context, s *settings, client *opsclient.Client) (finding, error) {
	standings, err := client.Standings(ctx)
	if err != nil {
		return finding{}, err
	}
	return s.judgeFeeds(standings, time.Now()), nil
}

// judgeFeeds takes feeds of stock levels and shipments for behind once answers with stock are stale, the others
// once prices are.
func (s *settings) judgeFeeds(standings []polling.FeedStanding, now time.Time) finding {
	if len(standings) == 0 {
		return finding{state: "could not look: the ops API tells of none", mark: unknownMark}
	}
	var ages []string
	var f finding
	for _, each := range standings {
		bound := s.PriceStale
		if strings.HasPrefix(each.Feed, "wms.") {
			bound = s.StockStale
		}
		age := max(0, now.Sub(each.SyncedAt)).Truncate(time.Second)
		told := fmt.Sprintf("%s: in step %s ago", each.Feed, age)
		switch {
		case each.SyncedAt.IsZero():
			told = each.Feed + ": was never in step"
			f.mark = wrongMark
		case age > bound:
			told += fmt.Sprintf(", above %s", bound)
			f.mark = wrongMark
		}
		if each.Rejects > 0 {
			told += fmt.Sprintf("; %d records can't be used", each.Rejects)
		}
		ages = append(ages, told)
	}
	if f.state = strings.Join(ages, "\n"); f.mark == wrongMark {
		f.remedy = "see the runbook legacy-system-away; `andes feeds` tells more"
	}
	return f
}

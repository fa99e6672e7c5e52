package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name by which Redis knows a script; it protects nothing
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"andes/projections"
)

//go:embed apply.lua
var applyScript string

var applySHA = sha1Of(applyScript)

func sha1Of(script string) string {
	sum := sha1.Sum([]byte(script)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

const (
	// maxKeysPerScript bounds how long a script keeps the server to itself.
	maxKeysPerScript = 200
	// maxPipelined bounds the commands that are sent without waiting for answers.
	maxPipelined = 256
)

// scripted is one run of the script.
type scripted struct {
	generation projections.Generation
	keys, args []string
	entries    []projections.Entry
}

// lot are entries on their way to a generation.
type lot struct {
	generation projections.Generation
	entries    []projections.Entry
}

// lots gives the entries to every generation that is named for their read model. The serving one comes
// last: what a reader has seen in it is in the others already, so no switch takes anybody back in time.
func lots(named projections.Generations, entries []projections.Entry) []lot {
	groups := map[string][]projections.Entry{"": entries} // by read model with a lineage of its own
	if len(named.Models) > 0 {
		groups = make(map[string][]projections.Entry, 1+len(named.Models))
		for _, entry := range entries {
			model := projections.ModelOf(entry.Key)
			if _, own := named.Models[model]; !own {
				model = ""
			}
			groups[model] = append(groups[model], entry)
		}
	}
	var all []lot
	for model, group := range groups {
		lineage := named.Of(model)
		for _, generation := range lineage.Others {
			all = append(all, lot{generation, group})
		}
		all = append(all, lot{lineage.Serving, group})
	}
	return all
}

// write runs the script for each lot. With askPointer it reads the pointer in the same round trip and
// gives what it names.
func (m *ReadModel) write(ctx context.Context, all []lot, askPointer bool) (projections.Generations, error) {
	ctx, cancel := context.WithTimeout(ctx, m.client.config.WriteTimeout)
	defer cancel()
	client, err := m.client.connection()
	if err != nil {
		return projections.Generations{}, err
	}
	var runs []scripted
	for _, lot := range all {
		runs = append(runs, m.script(client, lot.generation, lot.entries)...)
	}
	var named projections.Generations
	for len(runs) > 0 {
		window := runs[:min(len(runs), maxPipelined)]
		runs = runs[len(window):]
		if named, err = m.run(ctx, client, window, askPointer && len(runs) == 0); err != nil {
			return named, err
		}
	}
	return named, nil
}

// script parts the entries into runs: by slot where the server is a cluster, and by the bound.
func (m *ReadModel) script(client *connection, generation projections.Generation, entries []projections.Entry) []scripted {
	keys := client.layout(generation)
	groups := client.group(len(entries), maxKeysPerScript, func(i int) (string, int) {
		return entries[i].Key, len(entries[i].Value)
	})
	runs := make([]scripted, len(groups))
	for g, members := range groups {
		run := scripted{generation: generation, keys: make([]string, 0, len(members)), args: make([]string, 0, 2*len(members))}
		for _, i := range members {
			entry := entries[i]
			run.keys = append(run.keys, keys.key(entry.Key))
			run.args = append(run.args, entry.Text(), strconv.FormatInt(m.ttl(entry).Milliseconds(), 10))
			run.entries = append(run.entries, entry)
		}
		runs[g] = run
	}
	return runs
}

// run sends the scripts and reads their answers. A server that does not know the script yet is given its
// text.
func (m *ReadModel) run(ctx context.Context, client *connection, runs []scripted, askPointer bool) (projections.Generations, error) {
	commands := make(rueidis.Commands, 0, len(runs)+1)
	for _, run := range runs {
		commands = append(commands, client.B().Evalsha().Sha1(applySHA).Numkeys(int64(len(run.keys))).Key(run.keys...).Arg(run.args...).Build())
	}
	if askPointer {
		commands = append(commands, client.readPointer())
	}
	results := client.DoMulti(ctx, commands...)
	for i, run := range runs {
		result := results[i]
		if refused, is := rueidis.IsRedisErr(result.Error()); is && refused.IsNoScript() {
			result = client.Do(ctx, client.B().Eval().Script(applyScript).Numkeys(int64(len(run.keys))).Key(run.keys...).Arg(run.args...).Build())
		}
		client.near.wrote(run.keys...) // also if it failed: it may have been done
		if err := m.settle(ctx, run, result); err != nil {
			return projections.Generations{}, err // the others most likely say the same
		}
	}
	if !askPointer {
		return projections.Generations{}, nil
	}
	text, err := results[len(runs)].ToString()
	switch {
	case rueidis.IsRedisNil(err):
		return client.createPointer(ctx)
	case err != nil:
		return projections.Generations{}, fmt.Errorf("redis: read the generation pointer: %w", err)
	}
	return client.parsed(text)
}

// settle counts what a run did.
func (m *ReadModel) settle(ctx context.Context, run scripted, result rueidis.RedisResult) error {
	answer, err := result.AsIntSlice()
	if err != nil {
		return fmt.Errorf("redis: apply %d entries to generation %s: %w", len(run.entries), run.generation, orFull(err))
	}
	if len(answer) == 0 {
		return fmt.Errorf("redis: apply to generation %s: the script gave no answer", run.generation)
	}
	m.metrics.stale.Add(float64(answer[0]))
	m.metrics.applied.Add(float64(int64(len(run.entries)) - answer[0]))
	m.metrics.reached(run.entries)
	for _, i := range answer[1:] {
		if i >= 1 && i <= int64(len(run.entries)) {
			m.conflict(ctx, run.entries[i-1])
		}
	}
	return nil
}

package redis

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/rueidis"

	"andes/projections"
)

// ApplyTo implements rebuild.Copy: it writes the entries to one generation, whatever the pointer names.
//
// A generation that is being built has next to nothing yet. What is not there is put there by a command that
// does nothing where a key exists, at a part of the script's cost; what is there goes by the script.
func (m *ReadModel) ApplyTo(ctx context.Context, generation projections.Generation, entries []projections.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	var there []projections.Entry
	for few := range slices.Chunk(entries, maxPipelined) {
		found, err := m.insert(ctx, generation, few)
		if err != nil {
			m.metrics.failed.Inc()
			return err
		}
		there = append(there, found...)
	}
	if len(there) == 0 {
		return nil
	}
	if _, err := m.write(ctx, []lot{{generation, m.latest(ctx, there)}}, false); err != nil {
		m.metrics.failed.Inc()
		return err
	}
	return nil
}

// insert writes the entries whose keys do not exist, and gives the others.
func (m *ReadModel) insert(ctx context.Context, generation projections.Generation, entries []projections.Entry) (there []projections.Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.client.config.WriteTimeout)
	defer cancel()
	client, err := m.client.connection()
	if err != nil {
		return nil, err
	}
	keys := client.layout(generation)
	commands := make(rueidis.Commands, 0, len(entries))
	for _, entry := range entries {
		commands = append(commands, client.B().Set().Key(keys.key(entry.Key)).Value(entry.Text()).Nx().PxMilliseconds(m.ttl(entry).Milliseconds()).Build())
	}
	for i, result := range client.DoMulti(ctx, commands...) {
		err := result.Error()
		if rueidis.IsRedisNil(err) {
			there = append(there, entries[i])
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("redis: insert %d entries into generation %s: %w", len(entries), generation, orFull(err))
		}
	}
	m.metrics.applied.Add(float64(len(entries) - len(there)))
	m.metrics.reached(entries)
	return there, nil
}

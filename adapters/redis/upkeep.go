package redis

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"andes/projections"
	"andes/rebuild"
)

var _ rebuild.Copy = (*ReadModel)(nil)

// Generations implements rebuild.Copy.
func (m *ReadModel) Generations(ctx context.Context) (projections.Generations, error) {
	return m.client.Generations(ctx)
}

// Repoint implements rebuild.Copy.
func (m *ReadModel) Repoint(ctx context.Context, from, to projections.Generations) error {
	return m.client.Repoint(ctx, from, to)
}

// Kept implements rebuild.Copy.
func (m *ReadModel) Kept(ctx context.Context, generation projections.Generation, keys []string) ([]rebuild.Kept, error) {
	live, err := m.client.connection()
	if err != nil {
		return nil, err
	}
	kept := make([]rebuild.Kept, len(keys))
	err = live.get(ctx, live.layout(generation), keys, func(i int, text string, there bool) {
		kept[i] = rebuild.Kept{Text: text, There: there}
	})
	return kept, err
}

//go:embed mend.lua
var mendScript string

// Mend implements rebuild.Copy.
func (m *ReadModel) Mend(ctx context.Context, generation projections.Generation, mends []rebuild.Mend) (int, error) {
	live, err := m.client.connection()
	if err != nil {
		return 0, err
	}
	keys := live.layout(generation)
	mended := 0
	for _, members := range live.group(len(mends), maxKeysPerScript, func(i int) (string, int) {
		return mends[i].Entry.Key, len(mends[i].Entry.Value) + len(mends[i].Was.Text)
	}) {
		var full, arguments []string
		for _, i := range members {
			full = append(full, keys.key(mends[i].Entry.Key))
			arguments = append(arguments, m.mendArguments(mends[i])...)
		}
		command := live.B().Eval().Script(mendScript).Numkeys(int64(len(full))).Key(full...).Arg(arguments...).Build()
		moved, err := live.Do(ctx, command).AsIntSlice()
		live.near.wrote(full...)
		if err != nil {
			return mended, fmt.Errorf("redis: mend %d entries of generation %s: %w", len(members), generation, orFull(err))
		}
		mended += len(members) - len(moved)
	}
	return mended, nil
}

func (m *ReadModel) mendArguments(mend rebuild.Mend) []string {
	was, shall := "-", "-"
	if mend.Was.There {
		was = "=" + mend.Was.Text
	}
	if mend.Entry.Position > 0 {
		shall = "=" + mend.Entry.Text()
	}
	return []string{was, shall, strconv.FormatInt(m.ttl(mend.Entry).Milliseconds(), 10)}
}

// orFull marks the error of a server that has no memory left.
func orFull(err error) error {
	if refused, is := rueidis.IsRedisErr(err); is && strings.HasPrefix(refused.Error(), "OOM") {
		return fmt.Errorf("%w: %w", rebuild.ErrFull, err)
	}
	return err
}

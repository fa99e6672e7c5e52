package redis

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"andes/rebuild"
)

//go:embed identity.lua
var identityScript string

var _ rebuild.Identified = (*ReadModel)(nil)

// unnamed is the identity of servers that do not tell theirs: they seem to be the same for ever.
const unnamed = "unnamed"

// Identity names the servers that keep the read model. It is another one after a server was started again or was replaced by
// its replica; until then nothing that was acknowledged is lost, but by eviction or by whoever deletes it.
func (m *ReadModel) Identity(ctx context.Context) (string, error) {
	live, err := m.client.connection()
	if err != nil {
		return "", err
	}
	asked := tags[:1]
	if live.clustered {
		asked = tags[:] // they reach every node that has keys
	}
	commands := make(rueidis.Commands, len(asked))
	for i, tag := range asked {
		commands[i] = pinned(live.B().Eval().Script(identityScript).Numkeys(1).Key(m.client.config.Prefix + "{" + tag + "}identity").Build())
	}
	names := make([]string, len(asked))
	for i, result := range live.DoMulti(ctx, commands...) {
		names[i], err = result.ToString()
		if refused, is := rueidis.IsRedisErr(err); is && strings.Contains(refused.Error(), "NOPERM") {
			return unnamed, nil
		}
		if err != nil {
			return "", fmt.Errorf("redis: which server is it: %w", err)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " "), nil
}

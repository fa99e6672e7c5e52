package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"andes/projections"
	"andes/rebuild"
)

// Lists of keys are read and dropped in bounded steps, so that the server answers others in between.
const (
	// keysPerScan is how many keys a server looks at in one step, when nothing else was asked for.
	keysPerScan    = 500
	maxKeysPerDrop = 250
	// sampledKeys are looked at to estimate how many keys there are of each kind.
	sampledKeys = 20_000
)

// Each implements rebuild.Copy. While the table of keys grows, a key may be given twice.
func (m *ReadModel) Each(ctx context.Context, generations map[string]projections.Generation, step int, take func(keys []string) error) error {
	live, err := m.client.connection()
	if err != nil {
		return err
	}
	return live.scan(ctx, live.patternOf(generations), step, func(full []string) error {
		keys := full[:0]
		for _, key := range full {
			if generation, entryKey, ours := live.parse(key); ours {
				if of, asked := generations[projections.ModelOf(entryKey)]; asked && of == generation {
					keys = append(keys, entryKey)
				}
			}
		}
		return take(keys)
	})
}

// patternOf matches the keys of the generations, and no others if it is one.
func (c *connection) patternOf(generations map[string]projections.Generation) string {
	distinct := slices.Compact(slices.Sorted(maps.Values(generations)))
	if len(distinct) == 1 {
		return c.pattern(distinct[0].String() + ":*")
	}
	return c.pattern("*")
}

// Drop implements rebuild.Copy. What a writer that has not heard of the drop yet writes afterwards goes by
// its time to live.
func (m *ReadModel) Drop(ctx context.Context, generation projections.Generation, models []string) (int64, error) {
	live, err := m.client.connection()
	if err != nil {
		return 0, err
	}
	dropped := int64(0)
	err = live.scan(ctx, live.pattern(generation.String()+":*"), keysPerScan, func(full []string) error {
		ours := slices.DeleteFunc(full, func(key string) bool {
			_, is := live.entryOf(key, generation, models)
			return !is
		})
		n, err := live.unlink(ctx, ours)
		dropped += n
		return err
	})
	if err != nil {
		return dropped, fmt.Errorf("redis: drop generation %s: %w", generation, err)
	}
	return dropped, nil
}

// unlink takes keys away; in a cluster those of one bucket share a command.
func (c *connection) unlink(ctx context.Context, full []string) (int64, error) {
	groups := c.group(len(full), maxKeysPerDrop, func(i int) (string, int) {
		_, entryKey, _ := c.parse(full[i])
		return entryKey, 0
	})
	unlinked := int64(0)
	for _, members := range groups {
		keys := make([]string, len(members))
		for n, i := range members {
			keys[n] = full[i]
		}
		n, err := c.Do(ctx, c.B().Unlink().Key(keys...).Build()).AsInt64()
		if err != nil {
			return unlinked, err
		}
		unlinked += n
	}
	return unlinked, nil
}

// globMarks are what a pattern reads as something else than itself.
var globMarks = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// pattern matches the keys of all buckets with this rest.
func (c *connection) pattern(rest string) string {
	return globMarks.Replace(c.config.Prefix) + "{*}" + rest
}

// scan gives the keys of every server that match, page by page.
func (c *connection) scan(ctx context.Context, pattern string, step int, take func(keys []string) error) error {
	nodes, err := c.masters(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := scanNode(ctx, node, pattern, step, take); err != nil {
			return err
		}
	}
	return nil
}

// scanNode has the server look for a page while the one before is being taken.
func scanNode(ctx context.Context, node rueidis.Client, pattern string, step int, take func(keys []string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := make(chan rueidis.ScanEntry)
	failed := make(chan error, 1)
	go func() {
		defer close(pages)
		for cursor := uint64(0); ; {
			page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(int64(step)).Build()).AsScanEntry()
			if err != nil {
				failed <- fmt.Errorf("redis: list keys: %w", err)
				return
			}
			select {
			case pages <- page:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
			if cursor = page.Cursor; cursor == 0 {
				return
			}
		}
	}()
	var refused error
	for page := range pages {
		if refused == nil {
			if refused = take(page.Elements); refused != nil {
				cancel()
			}
		}
	}
	if refused != nil {
		return refused
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// masters are the servers that hold keys; a replica would give them a second time.
func (c *connection) masters(ctx context.Context) ([]rueidis.Client, error) {
	if !c.clustered {
		return []rueidis.Client{c.Client}, nil
	}
	var masters []rueidis.Client
	for _, node := range c.Nodes() {
		role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
		if err != nil {
			return nil, fmt.Errorf("redis: ask a node for its role: %w", err)
		}
		if len(role) > 0 {
			if name, _ := role[0].ToString(); name == "master" {
				masters = append(masters, node)
			}
		}
	}
	return masters, nil
}

// entryOf gives the entry's key of a full key, if it is one of the read models in the generation.
func (c *connection) entryOf(full string, generation projections.Generation, models []string) (string, bool) {
	of, entryKey, ours := c.parse(full)
	return entryKey, ours && of == generation && slices.Contains(models, projections.ModelOf(entryKey))
}

// parse is the inverse of layout.key.
func (c *connection) parse(key string) (projections.Generation, string, bool) {
	rest, ours := strings.CutPrefix(key, c.config.Prefix+"{")
	_, rest, tagged := strings.Cut(rest, "}")
	number, entryKey, found := strings.Cut(rest, ":")
	generation, err := strconv.ParseInt(number, 10, 64)
	return projections.Generation(generation), entryKey, ours && tagged && found && err == nil
}

// Census implements rebuild.Copy. Beyond some thousand keys it is an estimate from a sample.
func (m *ReadModel) Census(ctx context.Context) (rebuild.Census, error) {
	live, err := m.client.connection()
	if err != nil {
		return rebuild.Census{}, err
	}
	nodes, err := live.masters(ctx)
	if err != nil {
		return rebuild.Census{}, err
	}
	census := rebuild.Census{Keys: map[projections.Generation]map[string]int64{}}
	for _, node := range nodes {
		if err := live.sample(ctx, node, &census); err != nil {
			return rebuild.Census{}, err
		}
	}
	return census, nil
}

// sample counts the keys of one server. The order of a scan is that of hashes, so its beginning is a
// sample of the whole.
func (c *connection) sample(ctx context.Context, node rueidis.Client, census *rebuild.Census) error {
	size, err := node.Do(ctx, node.B().Dbsize().Build()).AsInt64()
	if err != nil {
		return fmt.Errorf("redis: count keys: %w", err)
	}
	seen := int64(0)
	counts := map[projections.Generation]map[string]int64{}
	for cursor := uint64(0); ; {
		page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Count(keysPerScan).Build()).AsScanEntry()
		if err != nil {
			return fmt.Errorf("redis: list keys: %w", err)
		}
		for _, key := range page.Elements {
			seen++
			if generation, entryKey, ours := c.parse(key); ours {
				if counts[generation] == nil {
					counts[generation] = map[string]int64{}
				}
				counts[generation][projections.ModelOf(entryKey)]++
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			size = seen // all of them were counted
			break
		}
		if seen >= sampledKeys {
			census.Estimated = true
			break
		}
	}
	for generation, models := range counts {
		if census.Keys[generation] == nil {
			census.Keys[generation] = map[string]int64{}
		}
		for model, n := range models {
			census.Keys[generation][model] += n * size / seen
		}
	}
	return nil
}

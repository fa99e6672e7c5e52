package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Generation is one build of the read model, from 1.
type Generation int64

func (g Generation) String() string { return strconv.FormatInt(int64(g), 10) }

// Generations are those that exist: one answers the queries, the others are kept up to date beside it,
// one that is being built or an old one that can be gone back to.
type Generations struct {
	Serving Generation
	Others  []Generation
}

// firstGenerations are those of an empty Redis.
var firstGenerations = Generations{Serving: 1}

// All lists the generations that the feed is written to, the serving one first.
func (g Generations) All() []Generation { return append([]Generation{g.Serving}, g.Others...) }

func (g Generations) equal(other Generations) bool {
	return g.Serving == other.Serving && slices.Equal(g.Others, other.Others)
}

// String gives the pointer's text: the serving generation first.
func (g Generations) String() string {
	var text strings.Builder
	for i, generation := range g.All() {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(generation.String())
	}
	return text.String()
}

// maxGenerations bounds how many are kept up to date at a time.
const maxGenerations = 4

// ParseGenerations is the inverse of Generations.String.
func ParseGenerations(text string) (Generations, error) {
	words := strings.Split(text, " ")
	if len(words) > maxGenerations {
		return Generations{}, fmt.Errorf("redis: generation pointer %.40q names more than %d", text, maxGenerations)
	}
	var parsed []Generation
	for _, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 1 || slices.Contains(parsed, Generation(n)) {
			return Generations{}, fmt.Errorf("redis: generation pointer %.40q is no list of generations", text)
		}
		parsed = append(parsed, Generation(n))
	}
	return Generations{Serving: parsed[0], Others: parsed[1:]}, nil
}

func (c *connection) pointerKey() string { return c.config.Prefix + "generation" }

// Generations reads the pointer. It does not use the cache, and an absent pointer is set first.
func (c *Client) Generations(ctx context.Context) (Generations, error) {
	live, err := c.connection()
	if err != nil {
		return Generations{}, err
	}
	return live.generations(ctx)
}

func (c *connection) generations(ctx context.Context) (Generations, error) {
	text, err := c.Do(ctx, c.readPointer()).ToString()
	if rueidis.IsRedisNil(err) {
		return c.createPointer(ctx)
	}
	if err != nil {
		return Generations{}, fmt.Errorf("redis: read the generation pointer: %w", err)
	}
	return ParseGenerations(text)
}

func (c *connection) readPointer() rueidis.Completed {
	return c.B().Get().Key(c.pointerKey()).Build()
}

// createPointer sets the pointer of an empty Redis; another instance may have been quicker.
func (c *connection) createPointer(ctx context.Context) (Generations, error) {
	set := c.B().Set().Key(c.pointerKey()).Value(firstGenerations.String()).Nx().Build()
	if err := c.Do(ctx, set).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return Generations{}, fmt.Errorf("redis: create the generation pointer: %w", err)
	}
	text, err := c.Do(ctx, c.readPointer()).ToString()
	if err != nil {
		return Generations{}, fmt.Errorf("redis: read the generation pointer: %w", err)
	}
	return ParseGenerations(text)
}

// pointerCacheTTL bounds how long a reader goes by a pointer that Redis did not invalidate.
const pointerCacheTTL = 5 * time.Second

// servingLayout is that of the generation that answers queries. It reads the pointer through client-side
// caching: mostly without a round trip, and Redis tells when it changed. A Redis without a pointer is
// empty and gets one by its first write.
func (c *connection) servingLayout(ctx context.Context) (layout, error) {
	get := c.B().Get().Key(c.pointerKey()).Cache()
	pointer, err := c.DoCache(ctx, get, pointerCacheTTL).ToString()
	if rueidis.IsRedisNil(err) {
		return c.layout(firstGenerations.Serving), nil
	}
	if err != nil {
		return layout{}, fmt.Errorf("redis: read the generation pointer: %w", err)
	}
	first, _, _ := strings.Cut(pointer, " ")
	generation, err := strconv.ParseInt(first, 10, 64)
	if err != nil || generation < 1 {
		return layout{}, fmt.Errorf("redis: generation pointer %.40q is no list of generations", pointer)
	}
	return c.layout(Generation(generation)), nil
}

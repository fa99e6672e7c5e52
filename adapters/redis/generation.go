package redis

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/rueidis"

	"andes/projections"
	"andes/rebuild"
)

// pointerName follows the prefix in the pointer's key.
const pointerName = "generation"

func (c *connection) pointerKey() string { return c.config.Prefix + pointerName }

// Generations reads the pointer. It does not use the cache, and an absent pointer is set first.
func (c *Client) Generations(ctx context.Context) (projections.Generations, error) {
	live, err := c.connection()
	if err != nil {
		return projections.Generations{}, err
	}
	return live.generations(ctx)
}

func (c *connection) generations(ctx context.Context) (projections.Generations, error) {
	text, err := c.Do(ctx, c.readPointer()).ToString()
	if rueidis.IsRedisNil(err) {
		return c.createPointer(ctx)
	}
	if err != nil {
		return projections.Generations{}, fmt.Errorf("redis: read the generation pointer: %w", err)
	}
	return c.parsePointer(text)
}

func (c *connection) readPointer() rueidis.Completed {
	return pinned(c.B().Get().Key(c.pointerKey()).Build())
}

// createPointer sets the pointer of an empty Redis; another instance may have been quicker.
func (c *connection) createPointer(ctx context.Context) (projections.Generations, error) {
	set := c.B().Set().Key(c.pointerKey()).Value(projections.FirstGenerations.String()).Nx().Build()
	if err := c.Do(ctx, set).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return projections.Generations{}, fmt.Errorf("redis: create the generation pointer: %w", err)
	}
	text, err := c.Do(ctx, c.readPointer()).ToString()
	if err != nil {
		return projections.Generations{}, fmt.Errorf("redis: read the generation pointer: %w", err)
	}
	return c.parsePointer(text)
}

// parsedPointer is a pointer's text with what it says.
type parsedPointer struct {
	text string
	says projections.Generations
}

// parsed keeps the last pointer, which hardly ever changes.
func (c *connection) parsed(text string) (projections.Generations, error) {
	if last := c.pointer.Load(); last != nil && last.text == text {
		return last.says, nil
	}
	says, err := c.parsePointer(text)
	if err == nil {
		c.pointer.Store(&parsedPointer{text, says})
	}
	return says, err
}

// parsePointer reads the pointer's text. One that is damaged is not mended by itself: which generation is whole only
// an operator can say.
func (c *connection) parsePointer(text string) (projections.Generations, error) {
	says, err := projections.ParseGenerations(text)
	if err != nil {
		return says, fmt.Errorf("redis: %w: the key %s is damaged; delete it (redis-cli DEL %[2]s) and rebuild (andes projections rebuild --from states --restart); reads come from PostgreSQL meanwhile", err, c.pointerKey())
	}
	return says, nil
}

//go:embed repoint.lua
var repointScript string

// Repoint replaces the pointer, in one step and only if it still says what was read. Readers follow within
// a round trip, as Redis tells them.
func (c *Client) Repoint(ctx context.Context, from, to projections.Generations) error {
	live, err := c.connection()
	if err != nil {
		return err
	}
	command := live.B().Eval().Script(repointScript).Numkeys(1).Key(live.pointerKey()).Arg(from.String(), to.String()).Build()
	done, err := live.Do(ctx, command).AsInt64()
	live.near.wrote(live.pointerKey())
	if err != nil {
		return fmt.Errorf("redis: change the generation pointer: %w", orFull(err))
	}
	if done == 0 {
		return fmt.Errorf("redis: %w", rebuild.ErrMoved)
	}
	return nil
}

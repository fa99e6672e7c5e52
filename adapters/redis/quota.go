package redis

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"andes/quota"
)

//go:embed quota.lua
var quotaScript string

var quotaSHA = sha1Of(quotaScript)

// Quota keeps the levels of partners' quotas. It implements quota.Store.
type Quota struct{ client *Client }

// NewQuota gives a store on the client.
func NewQuota(client *Client) *Quota { return &Quota{client: client} }

// channelBytes of a channel's hash are in its key.
const channelBytes = 16

// quotaKey has the partner in the clear. A channel may be called anything, so its hash stands for it.
// Each script touches one key, so in a cluster the keys spread over all slots by themselves.
func (c *connection) quotaKey(key quota.Key) string {
	name := c.config.Prefix + "quota:" + string(key.Group) + ":" + key.Partner
	if key.Channel == "" {
		return name
	}
	sum := sha256.Sum256([]byte(key.Channel))
	return name + ":" + hex.EncodeToString(sum[:channelBytes])
}

// Take implements quota.Store.
func (q *Quota) Take(ctx context.Context, key quota.Key, limit quota.Limit, cost, extra int64) (quota.Level, int64, error) {
	client, err := q.client.connection()
	if err != nil {
		return quota.Level{}, 0, err
	}
	name := client.quotaKey(key)
	args := [...]string{
		strconv.FormatInt(limit.PerSecond, 10), strconv.FormatInt(limit.Burst, 10), strconv.FormatInt(cost, 10), strconv.FormatInt(extra, 10),
	}
	result := client.Do(ctx, client.B().Evalsha().Sha1(quotaSHA).Numkeys(1).Key(name).Arg(args[:]...).Build())
	if refused, is := rueidis.IsRedisErr(result.Error()); is && refused.IsNoScript() {
		result = client.Do(ctx, client.B().Eval().Script(quotaScript).Numkeys(1).Key(name).Arg(args[:]...).Build())
	}
	answer, err := result.AsIntSlice()
	if err != nil {
		return quota.Level{}, 0, fmt.Errorf("redis: take from a quota of %s: %w", key.Group, err)
	}
	if len(answer) != 3 {
		return quota.Level{}, 0, fmt.Errorf("redis: take from a quota of %s: the script gave %d values", key.Group, len(answer))
	}
	return quota.Level{Used: answer[1], At: answer[2]}, answer[0], nil
}

var _ quota.Store = (*Quota)(nil)

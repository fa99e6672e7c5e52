package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"
)

// Source gives the issuer's current key set.
type Source func(ctx context.Context) (jwk.Set, error)

// maxKeySet bounds the key set's document.
const maxKeySet = 1 << 20

// FromURL reads the key set from its address.
func FromURL(client *http.Client, address string) Source {
	return func(ctx context.Context) (jwk.Set, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, fmt.Errorf("key set: %w", err)
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("key set: the issuer answered %s", response.Status)
		}
		text, err := io.ReadAll(io.LimitReader(response.Body, maxKeySet))
		if err != nil {
			return nil, fmt.Errorf("key set: %w", err)
		}
		// A key of a kind that is not known here is passed over: it must not take the others away.
		return jwk.Parse(text, jwk.WithIgnoreParseError(true))
	}
}

// errNoKeys refuses a key set that would lock everybody out.
var errNoKeys = errors.New("the key set has no keys")

// keyCache keeps the key set and bounds how often it is fetched.
type keyCache struct {
	source     Source
	now        func() time.Time
	cacheFor   time.Duration
	minRefetch time.Duration
	logger     *slog.Logger
	timeout    time.Duration // of a fetch
	patience   time.Duration // how long a token waits for a fetch while an older set is there

	mu        sync.Mutex
	set       jwk.Set
	fetchedAt time.Time // of the set
	triedAt   time.Time
	fetching  chan struct{} // closed when the fetch under way is over; nil: none
	lastErr   error
}

// find gives the key with this id, or nil, and until when it may be relied on. Its error says that no set
// could be read so far.
//
// A set that is too old is fetched first, so that a key that left it is not used on; when that does not
// work in time, the old set goes on serving.
func (c *keyCache) find(ctx context.Context, kid string) (jwk.Key, time.Time, error) {
	found := c.look(kid)
	if found.key != nil && found.fresh {
		return found.key, found.until, nil
	}
	fetched := c.refresh()
	if found.key == nil || !found.ill { // an issuer that just failed holds up nobody whose key is here
		c.await(ctx, fetched, found.known)
	}
	if found = c.look(kid); found.known {
		return found.key, found.until, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return nil, time.Time{}, errors.Join(errUnread, c.lastErr)
}

// errUnread tells that there is no key set yet.
var errUnread = errors.New("the key set was not read yet")

// finding is what the cache knows of a key.
type finding struct {
	key   jwk.Key   // nil: not in the set
	known bool      // there is a set
	fresh bool      // it is not too old
	ill   bool      // the last fetch failed
	until time.Time // what the key verified holds until then
}

func (c *keyCache) look(kid string) finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set == nil {
		return finding{}
	}
	key, _ := c.set.LookupKeyID(kid)
	now, until := c.now(), c.fetchedAt.Add(c.cacheFor)
	fresh := now.Before(until)
	if !fresh { // the next fetch may bring news
		until = now.Add(c.minRefetch)
	}
	return finding{key: key, known: true, fresh: fresh, ill: c.lastErr != nil, until: until}
}

// await waits for a fetch, not for long if there is a set to go on with.
func (c *keyCache) await(ctx context.Context, fetched <-chan struct{}, known bool) {
	if fetched == nil {
		return
	}
	limit := c.timeout
	if known {
		limit = c.patience
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-fetched:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// refresh begins a fetch, unless one is under way or was begun within minRefetch. It gives what closes
// when it is over, or nil.
func (c *keyCache) refresh() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fetching != nil {
		return c.fetching
	}
	if !c.triedAt.IsZero() && c.now().Sub(c.triedAt) < c.minRefetch {
		return nil
	}
	c.triedAt, c.fetching = c.now(), make(chan struct{})
	go c.fetch(c.fetching)
	return c.fetching
}

// fetch ends by its own time limit: who asked for it first may be gone before.
func (c *keyCache) fetch(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	set, err := c.source(ctx)
	if err == nil && (set == nil || set.Len() == 0) {
		err = errNoKeys
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastErr = err; err == nil {
		c.set, c.fetchedAt = set, c.now()
	}
	if err != nil {
		c.logger.Warn("oidc: the key set could not be read", "error", err, "keysFrom", c.fetchedAt)
	}
	c.fetching = nil
	close(done)
}

package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		return jwk.Parse(text)
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
	timeout    time.Duration // of a fetch
	patience   time.Duration // how long a token waits for a fetch while an older set is there

	mu        sync.Mutex
	set       jwk.Set
	fetchedAt time.Time // of the set
	triedAt   time.Time
	fetching  chan struct{} // closed when the fetch under way is over; nil: none
	lastErr   error
}

// find gives the key with this id, or nil. Its error says that no set could be read so far.
//
// A set that is too old is fetched first, so that a key that left it is not used on; when that does not
// work in time, the old set goes on serving.
func (c *keyCache) find(ctx context.Context, kid string) (jwk.Key, error) {
	key, fresh, known := c.look(kid)
	if key != nil && fresh {
		return key, nil
	}
	c.await(ctx, c.refresh(), known)
	if key, _, known = c.look(kid); known {
		return key, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return nil, errors.Join(errUnread, c.lastErr)
}

// errUnread tells that there is no key set yet.
var errUnread = errors.New("the key set was not read yet")

func (c *keyCache) look(kid string) (key jwk.Key, fresh, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set == nil {
		return nil, false, false
	}
	found, _ := c.set.LookupKeyID(kid)
	return found, c.now().Sub(c.fetchedAt) < c.cacheFor, true
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
	if err == nil && set.Len() == 0 {
		err = errNoKeys
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastErr = err; err == nil {
		c.set, c.fetchedAt = set, c.now()
	}
	c.fetching = nil
	close(done)
}

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
	timeout    time.Duration

	mu        sync.Mutex
	set       jwk.Set
	fetchedAt time.Time // of the set
	triedAt   time.Time
	fetching  chan struct{} // closed when the fetch under way is over; nil: none
	lastErr   error
}

// find gives the key with this id. known tells whether any set could be read so far.
func (c *keyCache) find(ctx context.Context, kid string) (key jwk.Key, known bool, err error) {
	key, stale, known := c.look(kid)
	if key != nil && !stale {
		return key, true, nil
	}
	if err := c.refresh(ctx, key == nil); err != nil && !known {
		return nil, false, err
	}
	if key, _, known = c.look(kid); key == nil && !known {
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, false, c.lastErr
	}
	return key, known, nil
}

func (c *keyCache) look(kid string) (key jwk.Key, stale, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set == nil {
		return nil, true, false
	}
	found, _ := c.set.LookupKeyID(kid)
	return found, c.now().Sub(c.fetchedAt) >= c.cacheFor, true
}

// refresh fetches the set, once for all who wait, and not again within minRefetch.
func (c *keyCache) refresh(ctx context.Context, wait bool) error {
	c.mu.Lock()
	if running := c.fetching; running != nil {
		c.mu.Unlock()
		if !wait {
			return nil
		}
		select {
		case <-running:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if !c.triedAt.IsZero() && c.now().Sub(c.triedAt) < c.minRefetch {
		c.mu.Unlock()
		return nil
	}
	c.triedAt = c.now()
	done := make(chan struct{})
	c.fetching = done
	c.mu.Unlock()

	fetch, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	set, err := c.source(fetch)
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
	return err
}

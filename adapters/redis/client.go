package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Config says where Redis is and how long it may take.
type Config struct {
	Addrs  []string // of a single server, or of some nodes of a cluster
	Prefix string   // of every key; without braces

	Username, Password string

	DialTimeout  time.Duration // of a new connection
	WriteTimeout time.Duration // of a batch of writes
	StallTimeout time.Duration // without an answer for so long, a connection is given up
	ConnLifetime time.Duration // after which a connection is made anew, so that a failover by DNS is followed
}

// DefaultConfig has the defaults of all but the addresses.
var DefaultConfig = Config{
	Prefix:       "andes:",
	DialTimeout:  time.Second,
	WriteTimeout: 2 * time.Second,
	StallTimeout: time.Second,
	ConnLifetime: 5 * time.Minute,
}

func (c Config) withDefaults() Config {
	setDefault(&c.Prefix, DefaultConfig.Prefix)
	setDefault(&c.DialTimeout, DefaultConfig.DialTimeout)
	setDefault(&c.WriteTimeout, DefaultConfig.WriteTimeout)
	setDefault(&c.StallTimeout, DefaultConfig.StallTimeout)
	setDefault(&c.ConnLifetime, DefaultConfig.ConnLifetime)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	var faults []error
	complain := func(wrong bool, text string) {
		if wrong {
			faults = append(faults, errors.New("redis: "+text))
		}
	}
	complain(len(c.Addrs) == 0, "no address is given")
	complain(strings.ContainsAny(c.Prefix, "{}"), "the prefix of the keys must have no braces, they would put all keys in one slot")
	complain(c.DialTimeout < 0 || c.WriteTimeout < 0 || c.StallTimeout < 0 || c.ConnLifetime < 0, "a timeout is negative")
	return errors.Join(faults...)
}

// Client is a connection to Redis that the parts of this package share.
type Client struct {
	rueidis   rueidis.Client
	config    Config
	clustered bool
}

const (
	keepAlive = time.Second
	// cacheBytes bounds what client-side caching keeps for each connection: pointers and watermarks.
	cacheBytes = 1 << 20
	// maxReadRetries bounds how often a read is tried again after its connection broke. Writes are
	// never repeated here.
	maxReadRetries  = 3
	firstRetryDelay = time.Millisecond
)

// Open connects, and fails when no node answers.
func Open(ctx context.Context, config Config) (*Client, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	option := rueidis.ClientOption{
		InitAddress:       config.Addrs,
		Username:          config.Username,
		Password:          config.Password,
		ClientName:        "andes",
		Dialer:            net.Dialer{Timeout: config.DialTimeout, KeepAlive: keepAlive},
		ConnWriteTimeout:  config.StallTimeout,
		ConnLifetime:      config.ConnLifetime,
		CacheSizeEachConn: cacheBytes,
		ShuffleInit:       true,
		RetryDelay:        readRetryDelay,
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("redis: connect to %s: %w", strings.Join(config.Addrs, ", "), err)
	}
	opened := &Client{rueidis: client, config: config, clustered: client.Mode() == rueidis.ClientModeCluster}
	if err := opened.Ping(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return opened, nil
}

// readRetryDelay grows 4 times with each attempt; below zero it ends them.
func readRetryDelay(attempts int, _ rueidis.Completed, _ error) time.Duration {
	if attempts > maxReadRetries {
		return -1
	}
	return firstRetryDelay << (2 * (attempts - 1))
}

// Ping tells whether Redis answers.
func (c *Client) Ping(ctx context.Context) error {
	if err := c.rueidis.Do(ctx, c.rueidis.B().Ping().Build()).Error(); err != nil {
		return fmt.Errorf("redis: ping: %w", err)
	}
	return nil
}

// Close ends the connections.
func (c *Client) Close() { c.rueidis.Close() }

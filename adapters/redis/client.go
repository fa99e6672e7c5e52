package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Config says where Redis is and how long it may take.
type Config struct {
	Addrs  []string // of a single server, or of some nodes of a cluster
	Prefix string   // of every key; without braces

	Username, Password string

	// Background lets Open succeed where Redis can't be reached: attempts go on, and until one succeeds
	// everything fails with ErrNotConnected. For roles that can do without Redis for a while.
	Background bool

	DialTimeout  time.Duration // of a new connection
	WriteTimeout time.Duration // of a batch of writes
	StallTimeout time.Duration // without an answer for so long, a connection is given up
	ConnLifetime time.Duration // after which a connection is made anew, so that a failover by DNS is followed

	NearBytes int // of memory, about, for what this process keeps at hand of the read model
}

// DefaultConfig has the defaults of all but the addresses.
var DefaultConfig = Config{
	Prefix:       "andes:",
	DialTimeout:  time.Second,
	WriteTimeout: 2 * time.Second,
	StallTimeout: time.Second,
	ConnLifetime: 5 * time.Minute,
	NearBytes:    64 << 20,
}

func (c Config) withDefaults() Config {
	setDefault(&c.Prefix, DefaultConfig.Prefix)
	setDefault(&c.DialTimeout, DefaultConfig.DialTimeout)
	setDefault(&c.WriteTimeout, DefaultConfig.WriteTimeout)
	setDefault(&c.StallTimeout, DefaultConfig.StallTimeout)
	setDefault(&c.ConnLifetime, DefaultConfig.ConnLifetime)
	setDefault(&c.NearBytes, DefaultConfig.NearBytes)
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
	complain(slices.ContainsFunc(c.Addrs, func(address string) bool { return strings.ContainsAny(address, "@/") }),
		"an address is no host:port; a URL is none, nor may there be a password in it") // it is not repeated here
	complain(strings.ContainsAny(c.Prefix, "{}"), "the prefix of the keys must have no braces, they would put all keys in one slot")
	complain(c.NearBytes < 0, "the memory for what is kept at hand is negative")
	complain(c.DialTimeout < 0 || c.WriteTimeout < 0 || c.StallTimeout < 0 || c.ConnLifetime < 0, "a timeout is negative")
	return errors.Join(faults...)
}

// Client is a connection to Redis that the parts of this package share.
type Client struct {
	config Config
	live   atomic.Pointer[connection]
	stop   context.CancelFunc // ends the attempts in the background
	done   sync.WaitGroup
}

// connection is a driver's client that has found its server or cluster.
type connection struct {
	rueidis.Client
	config    Config
	clustered bool
	pointer   atomic.Pointer[parsedPointer] // as last read

	reading rueidis.Client // its reads are tracked: Redis tells of what they brought when it changes
	near    *near
}

// ErrNotConnected: Redis could not be reached since the start, and attempts go on.
var ErrNotConnected = errors.New("redis: not connected yet")

func (c *Client) connection() (*connection, error) {
	if live := c.live.Load(); live != nil {
		return live, nil
	}
	return nil, ErrNotConnected
}

const (
	// keepAlive is how often a connection that is silent is tried. With StallTimeout it bounds how long what is kept
	// at hand is relied on while nothing can be heard of Redis.
	keepAlive = time.Second
	// maxReadRetries bounds how often a read is tried again after its connection broke. Writes are
	// never repeated here.
	maxReadRetries  = 3
	firstRetryDelay = time.Millisecond
)

// Open connects, and fails when no node answers, unless Config.Background is set.
func Open(ctx context.Context, config Config) (*Client, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	opened, err := connect(ctx, config)
	if err != nil && !config.Background {
		return nil, err
	}
	attempts, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Client{config: config, stop: stop}
	if err == nil {
		c.live.Store(opened)
	} else {
		c.done.Go(func() { c.goOn(attempts) })
	}
	return c, nil
}

// goOn tries until it is connected.
func (c *Client) goOn(ctx context.Context) {
	pause := time.NewTicker(c.config.DialTimeout)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		if opened, err := connect(ctx, c.config); err == nil {
			c.live.Store(opened)
			return
		}
	}
}

func connect(ctx context.Context, config Config) (*connection, error) {
	options := rueidis.ClientOption{
		InitAddress:      config.Addrs,
		Username:         config.Username,
		Password:         config.Password,
		ClientName:       "andes",
		Dialer:           net.Dialer{Timeout: config.DialTimeout, KeepAlive: keepAlive},
		ConnWriteTimeout: config.StallTimeout,
		ConnLifetime:     config.ConnLifetime,
		DisableCache:     true, // of the driver; near takes its place
		ShuffleInit:      true,
		RetryDelay:       readRetryDelay,
	}
	client, err := open(ctx, config, options)
	if err != nil {
		return nil, err
	}
	opened := &connection{
		Client: client, config: config, clustered: client.Mode() == rueidis.ClientModeCluster,
		near: newNear(config.Prefix, config.NearBytes),
	}
	options.ClientName = "andes-reads"
	options.DisableCache, options.ClientTrackingOptions = false, []string{"OPTOUT"}
	options.OnInvalidations = opened.near.invalidated
	options.PipelineMultiplex = oneConnection
	if opened.reading, err = open(ctx, config, options); err != nil {
		client.Close()
		return nil, err
	}
	return opened, nil
}

// oneConnection to each node: near relies on the order of what comes by it.
const oneConnection = -1

func open(ctx context.Context, config Config, options rueidis.ClientOption) (rueidis.Client, error) {
	client, err := rueidis.NewClient(options)
	if err != nil {
		return nil, fmt.Errorf("redis: connect to %s: %w", strings.Join(config.Addrs, ", "), err)
	}
	if err := ping(ctx, client); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
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
	live, err := c.connection()
	if err != nil {
		return err
	}
	return ping(ctx, live)
}

func ping(ctx context.Context, client rueidis.Client) error {
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		return fmt.Errorf("redis: ping: %w", err)
	}
	return nil
}

// Close ends the connections.
func (c *Client) Close() {
	c.stop()
	c.done.Wait()
	if live := c.live.Load(); live != nil {
		live.reading.Close()
		live.Close()
	}
}

package kafka

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"
)

// LaneConfig shapes a Lanes subscriber.
type LaneConfig struct {
	Cluster Cluster
	Group   string // the consumer group's full name
	Lanes   int    // per partition: 64
	// InFlight bounds the records of a partition that are read and not finished (1024): those being
	// handled and those that wait behind them in their lanes. Held bounds them for a topic whose records
	// wait until they are due (4096), and InFlightBytes for any (16 MB).
	InFlight      int
	Held          int
	InFlightBytes int
	// Window bounds how far a partition is read beyond its low-water mark (65,536 records), so how much
	// one record that does not finish makes others repeat after a crash.
	Window int
	// A nacked record is delivered again after a wait that doubles between these: 100 ms, 30 s.
	RedeliveryMin time.Duration
	RedeliveryMax time.Duration
	// CloseGrace (20 s) and RevokeGrace (3 s) are how long handlers may go on when the subscriber is
	// closed and when a rebalance takes the partition. Then their context is cancelled.
	CloseGrace  time.Duration
	RevokeGrace time.Duration
	// Ready is asked before each delivery and blocks while there must be none; nil: there may always be. It
	// returns when ctx is done, which is when the partition is given up.
	Ready  func(ctx context.Context) error
	Logger *slog.Logger

	doors      int                      // channels that messages come out of: 1
	delays     map[string]time.Duration // topics whose records wait until they are due, with the longest wait
	sequencing *sequencing              // nil: there is no order per key over retries
}

func (c LaneConfig) withDefaults() LaneConfig {
	setDefault(&c.Lanes, 64)
	setDefault(&c.doors, 1)
	setDefault(&c.InFlight, 1024)
	setDefault(&c.Held, 4096)
	setDefault(&c.InFlightBytes, 16<<20)
	setDefault(&c.Window, 1<<16)
	setDefault(&c.RedeliveryMin, 100*time.Millisecond)
	setDefault(&c.RedeliveryMax, 30*time.Second)
	setDefault(&c.CloseGrace, 20*time.Second)
	setDefault(&c.RevokeGrace, 3*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c LaneConfig) validate() error {
	faults := []error{c.Cluster.validate()}
	if c.Group == "" {
		faults = append(faults, errors.New("lanes: no consumer group"))
	}
	if c.Lanes < 1 || c.InFlight < 1 || c.Held < 1 || c.InFlightBytes < 1 || c.Window < max(c.InFlight, c.Held) {
		faults = append(faults, errors.New("lanes: lanes and in-flight records must be positive and the window not less than them"))
	}
	if c.RevokeGrace >= rebalanceTimeout {
		faults = append(faults, errors.New("lanes: the grace of a revoked partition reaches the rebalance timeout"))
	}
	return errors.Join(faults...)
}

// Lanes is a Watermill subscriber over a consumer group. Each partition has lanes by key hash:
//
//	partition ──► admit (bounded) ─┬─► lane ──► message ──► Ack ──► low-water mark ──► commit
//	                               ├─► lane        └─ Nack: again, after a backoff, in the lane
//	                               └─► lane
//
// A key's records are delivered one after another, a lane that waits does not hold the others, and an
// offset is committed only when everything before it is finished. Members share partitions by range and, where order
// is kept over retries, so that one of them has all that may be parked of a partition (shares).
type Lanes struct {
	cfg     LaneConfig
	closing context.Context
	close   context.CancelFunc
	running sync.WaitGroup
}

// NewLanes checks the configuration.
func NewLanes(cfg LaneConfig) (*Lanes, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	closing, cancel := context.WithCancel(context.Background())
	return &Lanes{cfg: cfg, closing: closing, close: cancel}, nil
}

// handOver is how many messages may lie ready for whoever reads the subscription.
const handOver = 64

// ErrLanesClosed is returned by Subscribe after Close.
var ErrLanesClosed = errors.New("the subscriber is closed")

// Subscribe starts one member of the group. topic may name several, separated by commas, which no name
// of a topic can hold: they share the member, so that starting costs one rebalance. When ctx ends the
// subscription drains as in Close; the messages' own context does not end with it.
func (l *Lanes) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	doors, err := l.open(ctx, topic)
	if err != nil {
		return nil, err
	}
	return doors[0], nil
}

// open starts a member whose messages come through several doors.
func (l *Lanes) open(ctx context.Context, topic string) ([]chan *message.Message, error) {
	if l.closing.Err() != nil {
		return nil, ErrLanesClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.closing, cancel)
	s := &subscription{cfg: l.cfg, ctx: ctx, doors: make([]chan *message.Message, l.cfg.doors)}
	for i := range s.doors {
		s.doors[i] = make(chan *message.Message, handOver)
	}
	topics := strings.Split(topic, ",")
	balance := []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	if l.cfg.sequencing != nil {
		balance = l.cfg.sequencing.balance()
	}
	l.running.Go(func() {
		defer cancel()
		defer stop()
		defer s.closeDoors()
		member{l.cfg.Cluster, l.cfg.Group, topics, balance, s, l.cfg.Logger}.run(ctx)
	})
	return s.doors, nil
}

// closeDoors tells whoever reads that nothing comes any more.
func (s *subscription) closeDoors() {
	for _, door := range s.doors {
		close(door)
	}
}

// Close stops reading, gives handlers their grace, commits what is finished and leaves the group.
func (l *Lanes) Close() error {
	l.close()
	l.running.Wait()
	return nil
}

// subscription is one member's life: sessions, each with claims.
type subscription struct {
	cfg   LaneConfig
	ctx   context.Context
	doors []chan *message.Message

	sequences  map[int32]*sequence // of the session, by partition; those of parts that are wholly assigned
	membership membership
}

// Setup finds out what is outstanding in the partitions of the session.
func (s *subscription) Setup(session sarama.ConsumerGroupSession) error {
	if s.cfg.sequencing == nil {
		return nil
	}
	sequences, err := s.cfg.sequencing.begin(session.Context(), session.Claims())
	s.sequences = sequences
	return err
}

// Cleanup follows when every claim has drained.
func (s *subscription) Cleanup(sarama.ConsumerGroupSession) error {
	for _, sequence := range s.sequences {
		sequence.end()
	}
	s.sequences = nil
	return nil
}

// ConsumeClaim works on one partition until the session ends.
func (s *subscription) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	work, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	defer cancel()
	p := newLanePartition(s, session, work, claim.Partition())
	if longest, delayed := s.cfg.delays[claim.Topic()]; delayed {
		p.limit = s.cfg.Held
		p.readDelayed(claim.Messages(), longest)
	} else {
		p.read(claim.Messages())
	}
	grace := s.cfg.RevokeGrace
	if s.ctx.Err() != nil {
		grace = s.cfg.CloseGrace
	}
	p.drain(grace, cancel)
	return nil
}

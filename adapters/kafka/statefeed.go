package kafka

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"

	"andes/eventstore"
)

const (
	// DefaultFeedBatch bounds a batch of a StateFeed, in records.
	DefaultFeedBatch = 500

	feedBackoffMin = 50 * time.Millisecond
	feedBackoffMax = 5 * time.Second
)

// StateFeed hands the records of state topics to a projector in batches. There is no linger: a batch
// is what has arrived, up to the bound. Batches come one at a time and a key's records in their order.
type StateFeed struct {
	Cluster        Cluster
	Names          Topics   // names the group and the DLQ
	Group          string   // the projector's name
	Topics         []string // full names
	Batch          int      // 0: DefaultFeedBatch
	MaxRecordBytes int      // of the topics' settings; 0: DefaultMaxRecordBytes
	Logger         *slog.Logger
	Metrics        prometheus.Registerer
}

func (f StateFeed) withDefaults() StateFeed {
	setDefault(&f.Batch, DefaultFeedBatch)
	setDefault(&f.MaxRecordBytes, DefaultMaxRecordBytes)
	if f.Logger == nil {
		f.Logger = slog.Default()
	}
	return f
}

func (f StateFeed) validate() error {
	faults := []error{f.Cluster.validate()}
	if f.Group == "" || len(f.Topics) == 0 {
		faults = append(faults, errors.New("state feed: a group and at least one topic are needed"))
	}
	return errors.Join(faults...)
}

// Run feeds handle until ctx is done. Offsets are committed after handle returned nil; on an error the
// same batch comes again, after a bounded backoff, and is never skipped. A record that is no state goes
// to the DLQ of the group. handle must bear repeats (it compares positions) and must not keep the batch,
// which is used again.
func (f StateFeed) Run(ctx context.Context, handle func(ctx context.Context, batch []eventstore.StateRecord) error) error {
	f = f.withDefaults()
	if err := f.validate(); err != nil {
		return err
	}
	metrics, err := newConsumerMetrics(f.Metrics)
	if err != nil {
		return err
	}
	dead := &parker{cluster: f.Cluster, topics: f.Names, maxRecordBytes: f.MaxRecordBytes}
	defer dead.close()
	feeder := &feeder{feed: f, handle: handle, dead: dead, metrics: metrics.of(f.Group)}
	member{f.Cluster, f.Names.Group(f.Group), f.Topics, []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}, feeder, f.Logger}.run(ctx)
	return nil
}

// fed is a decoded record on its way to a batch. Without a state it only moves the offset.
type fed struct {
	state    eventstore.StateRecord
	skip     bool
	position *sarama.ConsumerMessage
}

// feeder merges the partitions of a session into one flow of batches.
type feeder struct {
	feed    StateFeed
	handle  func(context.Context, []eventstore.StateRecord) error
	dead    *parker
	metrics consumerCounters
	merged  chan fed
	done    chan struct{}
}

// Setup starts the flow of a session.
func (f *feeder) Setup(session sarama.ConsumerGroupSession) error {
	f.merged = make(chan fed, f.feed.Batch)
	f.done = make(chan struct{})
	go func() {
		defer close(f.done)
		f.flow(session)
	}()
	return nil
}

// Cleanup waits until nothing is marked any more.
func (f *feeder) Cleanup(sarama.ConsumerGroupSession) error {
	<-f.done
	return nil
}

// ConsumeClaim decodes one partition's records.
func (f *feeder) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	ctx := session.Context()
	for message := range claim.Messages() {
		next := fed{position: message}
		var err error
		if next.state, err = DecodeState(message); err != nil {
			next.skip = true
			if !f.park(ctx, message, err) {
				return nil
			}
		}
		select {
		case f.merged <- next:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// park repeats until the record is in the DLQ; false when the session ended before.
func (f *feeder) park(ctx context.Context, message *sarama.ConsumerMessage, err error) bool {
	wait := backoff{least: feedBackoffMin, most: feedBackoffMax}
	first := time.Now()
	for attempt := 1; ; attempt++ {
		why := cause{consumer: f.feed.Group, class: classUndecodable, err: err, attempt: attempt, firstFailure: first, due: first}
		failed := f.dead.park(ctx, message, why)
		if failed == nil {
			f.metrics.dead.Inc()
			f.feed.Logger.ErrorContext(ctx, "state feed: record sent to the DLQ", "group", f.feed.Group,
				"topic", message.Topic, "partition", message.Partition, "offset", message.Offset, "error", err)
			return true
		}
		f.feed.Logger.WarnContext(ctx, "state feed: DLQ can't be written", "group", f.feed.Group, "error", failed)
		if !wait.pause(ctx) {
			return false
		}
	}
}

// flow collects what is there, hands it over and marks it.
func (f *feeder) flow(session sarama.ConsumerGroupSession) {
	ctx := session.Context()
	taken := make([]fed, 0, f.feed.Batch)
	states := make([]eventstore.StateRecord, 0, f.feed.Batch)
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-f.merged:
			taken = f.collect(append(taken[:0], first))
		}
		states = states[:0]
		for _, next := range taken {
			if !next.skip {
				states = append(states, next.state)
			}
		}
		if len(states) > 0 && !f.deliver(ctx, states) {
			return
		}
		for _, next := range taken {
			session.MarkOffset(next.position.Topic, next.position.Partition, next.position.Offset+1, "")
		}
	}
}

func (f *feeder) collect(taken []fed) []fed {
	for len(taken) < f.feed.Batch {
		select {
		case next := <-f.merged:
			taken = append(taken, next)
		default:
			return taken
		}
	}
	return taken
}

// deliver repeats until handle takes the batch; false when the session ended before.
func (f *feeder) deliver(ctx context.Context, states []eventstore.StateRecord) bool {
	wait := backoff{least: feedBackoffMin, most: feedBackoffMax}
	for {
		err := f.handle(ctx, states)
		if ctx.Err() != nil {
			return err == nil
		}
		if err == nil {
			f.metrics.handled.Add(float64(len(states)))
			return true
		}
		f.metrics.failed.Inc()
		f.feed.Logger.WarnContext(ctx, "state feed: batch failed and comes again", "group", f.feed.Group,
			"records", len(states), "error", err)
		if !wait.pause(ctx) {
			return false
		}
	}
}

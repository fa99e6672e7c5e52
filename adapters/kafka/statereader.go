package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"andes/rebuild"
)

// StateReader reads state topics from the beginning, or from where it was, to where they ended when it
// was asked. It is a rebuild.Source. Batches of the broker are taken as they are, so the position behind
// a batch is known even where compaction or a transaction marker left nothing in it to read.
type StateReader struct {
	config StateReaderConfig
	client sarama.Client
	dead   *parker
	parked *parkedOrigins
}

// StateReaderConfig says what is read. Group names the DLQ for what is no state: that of the projector,
// which meets the same records.
type StateReaderConfig struct {
	Cluster        Cluster
	Names          Topics
	Group          string
	FetchBytes     int32         // of one answer of the broker; one batch may be larger by itself; 0: DefaultReadBytes
	Patience       time.Duration // without an answer for so long a read fails; 0: DefaultReadPatience
	MaxRecordBytes int           // of the topics' settings; 0: DefaultMaxRecordBytes
	Logger         *slog.Logger
}

// Defaults of a StateReaderConfig.
const (
	DefaultReadBytes    = 512 << 10
	DefaultReadPatience = 30 * time.Second
)

// maxReadRequests is how many requests to a broker may be under way.
const maxReadRequests = 16

// NewStateReader connects to the brokers.
func NewStateReader(ctx context.Context, config StateReaderConfig) (*StateReader, error) {
	setDefault(&config.FetchBytes, DefaultReadBytes)
	setDefault(&config.Patience, DefaultReadPatience)
	setDefault(&config.MaxRecordBytes, DefaultMaxRecordBytes)
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if err := config.Cluster.validate(); err != nil {
		return nil, err
	}
	client, err := sarama.NewClient(config.Cluster.Brokers, config.Cluster.readerConfig())
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	if err := ctx.Err(); err != nil {
		_ = client.Close()
		return nil, err
	}
	dead := &parker{cluster: config.Cluster, topics: config.Names, maxRecordBytes: config.MaxRecordBytes}
	parked := &parkedOrigins{known: map[parkedRecord]struct{}{}, scanned: map[int32]int64{}}
	return &StateReader{config: config, client: client, dead: dead, parked: parked}, nil
}

// readerConfig gives a client whose attempts are short: the reader has a patience of its own.
func (c Cluster) readerConfig() *sarama.Config {
	s := c.config()
	s.Net.MaxOpenRequests = maxReadRequests
	s.Metadata.Retry.Max = 1
	s.Consumer.IsolationLevel = sarama.ReadCommitted
	return s
}

// Close ends the connections.
func (r *StateReader) Close() {
	r.dead.close()
	_ = r.client.Close()
}

// Parts implements rebuild.Source: one for each partition of the categories' topics.
func (r *StateReader) Parts(ctx context.Context, categories []string) ([]rebuild.Part, error) {
	var parts []rebuild.Part
	for _, category := range categories {
		topic := r.config.Names.State(category)
		partitions, err := patiently(ctx, r, func() ([]int32, error) { return r.client.Partitions(topic) })
		if err != nil {
			return nil, fmt.Errorf("read topic %s: %w", topic, err)
		}
		slices.Sort(partitions)
		for _, partition := range partitions {
			begin, err := r.offset(ctx, topic, partition, sarama.OffsetOldest)
			if err != nil {
				return nil, err
			}
			parts = append(parts, rebuild.Part{Name: partName(topic, partition), From: begin, Next: begin, End: begin})
		}
	}
	return r.Extend(ctx, parts)
}

// Extend implements rebuild.Source. A part ends where the last open transaction begins.
func (r *StateReader) Extend(ctx context.Context, parts []rebuild.Part) ([]rebuild.Part, error) {
	extended := slices.Clone(parts)
	for i := range extended {
		topic, partition, err := parsePart(extended[i].Name)
		if err != nil {
			return nil, err
		}
		end, err := r.offset(ctx, topic, partition, sarama.OffsetNewest)
		if err != nil {
			return nil, err
		}
		if end < extended[i].Next {
			return nil, fmt.Errorf("%w: %s ends at offset %d, though it was read to %d: it was emptied or made anew", rebuild.ErrSourceLost, extended[i].Name, end, extended[i].Next)
		}
		extended[i].End = end
		extended[i].Complete = extended[i].Next >= end
	}
	return extended, nil
}

var _ rebuild.Source = (*StateReader)(nil)

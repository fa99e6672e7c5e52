package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"andes/rebuild"
)

const (
	fetchVersion   = 11
	offsetVersion  = 5
	readBackoffMin = 50 * time.Millisecond
	readBackoffMax = 2 * time.Second

	// maxReadBytes is the greatest batch that is read at all.
	maxReadBytes = 128 << 20
	// readWait is hardly ever waited for: there is something before a part's end.
	readWait = 100 * time.Millisecond
	// unknownPatience is for a topic that no broker knows: one that has just started learns of it soon.
	unknownPatience = 5 * time.Second
)

// offset asks for the log's beginning, or for its last stable end.
func (r *StateReader) offset(ctx context.Context, topic string, partition int32, which int64) (int64, error) {
	found := int64(-1)
	err := r.patiently(ctx, func() error {
		broker, err := r.client.Leader(topic, partition)
		if err != nil {
			return err
		}
		request := &sarama.OffsetRequest{Version: offsetVersion, IsolationLevel: sarama.ReadCommitted}
		request.AddBlock(topic, partition, which, 1)
		response, err := broker.GetAvailableOffsets(request)
		if err != nil {
			_ = broker.Close() // the next attempt opens it again
			return err
		}
		block := response.GetBlock(topic, partition)
		if block == nil {
			return sarama.ErrIncompleteResponse
		}
		found = block.Offset
		return fault(block.Err)
	})
	if err != nil {
		return 0, fmt.Errorf("offsets of %s: %w", partName(topic, partition), err)
	}
	return found, nil
}

// fetch reads what is at the offset and behind it.
func (r *StateReader) fetch(ctx context.Context, topic string, partition int32, offset int64, size int32) (*sarama.FetchResponseBlock, error) {
	var found *sarama.FetchResponseBlock
	err := r.patiently(ctx, func() error {
		broker, err := r.client.Leader(topic, partition)
		if err != nil {
			return err
		}
		request := &sarama.FetchRequest{
			Version: fetchVersion, MinBytes: 1, MaxBytes: size, MaxWaitTime: int32(readWait.Milliseconds()),
			Isolation: sarama.ReadCommitted, SessionEpoch: -1, // no fetch session
		}
		request.AddBlock(topic, partition, offset, size, -1)
		response, err := broker.Fetch(request)
		if err != nil {
			_ = broker.Close()
			return err
		}
		block := response.GetBlock(topic, partition)
		if block == nil {
			return sarama.ErrIncompleteResponse
		}
		found = block
		return fault(block.Err)
	})
	return found, err
}

func fault(code sarama.KError) error {
	if code == sarama.ErrNoError {
		return nil
	}
	return code
}

// patiently repeats a request until the patience is over. After a failure the metadata are read anew, as
// a leader may have moved.
func (r *StateReader) patiently(ctx context.Context, request func() error) error {
	wait := backoff{least: readBackoffMin, most: readBackoffMax}
	for began := time.Now(); ; {
		err := bounded(ctx, request)
		patience := r.config.Patience
		switch {
		case err == nil, errors.Is(err, sarama.ErrOffsetOutOfRange), errors.Is(err, sarama.ErrTopicAuthorizationFailed):
			return err
		case errors.Is(err, sarama.ErrUnknownTopicOrPartition):
			patience = min(patience, unknownPatience)
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%w: no answer from Kafka for %s: %w", rebuild.ErrSourceLost, patience, err)
		}
		if !wait.pause(ctx) {
			return ctx.Err()
		}
		_ = bounded(ctx, func() error { return r.client.RefreshMetadata() }) // the next attempt finds out
	}
}

// bounded leaves a request behind when ctx is done; the client's own timeouts end it.
func bounded(ctx context.Context, request func() error) error {
	done := make(chan error, 1)
	go func() { done <- request() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

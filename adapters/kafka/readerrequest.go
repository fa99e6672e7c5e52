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
	found, err := patiently(ctx, r, func() (int64, error) {
		broker, err := r.client.Leader(topic, partition)
		if err != nil {
			return 0, err
		}
		request := &sarama.OffsetRequest{Version: offsetVersion, IsolationLevel: sarama.ReadCommitted}
		request.AddBlock(topic, partition, which, 1)
		response, err := broker.GetAvailableOffsets(request)
		if err != nil {
			_ = broker.Close() // the next attempt opens it again
			return 0, err
		}
		block := response.GetBlock(topic, partition)
		if block == nil {
			return 0, sarama.ErrIncompleteResponse
		}
		return block.Offset, fault(block.Err)
	})
	if err != nil {
		return 0, fmt.Errorf("offsets of %s: %w", partName(topic, partition), err)
	}
	return found, nil
}

// fetch reads what is at the offset and behind it.
func (r *StateReader) fetch(ctx context.Context, topic string, partition int32, offset int64, size int32) (*sarama.FetchResponseBlock, error) {
	return patiently(ctx, r, func() (*sarama.FetchResponseBlock, error) {
		broker, err := r.client.Leader(topic, partition)
		if err != nil {
			return nil, err
		}
		request := &sarama.FetchRequest{
			Version: fetchVersion, MinBytes: 1, MaxBytes: size, MaxWaitTime: int32(readWait.Milliseconds()),
			Isolation: sarama.ReadCommitted, SessionEpoch: -1, // no fetch session
		}
		request.AddBlock(topic, partition, offset, size, -1)
		response, err := broker.Fetch(request)
		if err != nil {
			_ = broker.Close()
			return nil, err
		}
		block := response.GetBlock(topic, partition)
		if block == nil {
			return nil, sarama.ErrIncompleteResponse
		}
		return block, fault(block.Err)
	})
}

func fault(code sarama.KError) error {
	if code == sarama.ErrNoError {
		return nil
	}
	return code
}

// patiently repeats a request until the patience is over. After a failure the metadata are read anew, as
// a leader may have moved.
func patiently[T any](ctx context.Context, r *StateReader, request func() (T, error)) (T, error) {
	wait := backoff{least: readBackoffMin, most: readBackoffMax}
	for began := time.Now(); ; {
		answer, err := bounded(ctx, request)
		patience := r.config.Patience
		switch {
		case err == nil, errors.Is(err, sarama.ErrOffsetOutOfRange), errors.Is(err, sarama.ErrTopicAuthorizationFailed):
			return answer, err
		case errors.Is(err, sarama.ErrUnknownTopicOrPartition):
			patience = min(patience, unknownPatience)
		}
		if time.Since(began) > patience {
			return answer, fmt.Errorf("%w: no answer from Kafka for %s: %w", rebuild.ErrSourceLost, patience, err)
		}
		if !wait.pause(ctx) {
			return answer, ctx.Err()
		}
		_, _ = bounded(ctx, func() (any, error) { return nil, r.client.RefreshMetadata() }) // the next attempt finds out
	}
}

// bounded leaves a request behind when ctx is done; the client's own timeouts end it. So a request gives what it found, and
// writes nothing of its caller's.
func bounded[T any](ctx context.Context, request func() (T, error)) (T, error) {
	type answer struct {
		found T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		found, err := request()
		done <- answer{found, err}
	}()
	select {
	case got := <-done:
		return got.found, got.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

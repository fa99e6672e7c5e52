package kafka

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/IBM/sarama"
)

const (
	groupBackoffMin = 200 * time.Millisecond
	groupBackoffMax = 5 * time.Second
)

// member is one instance's part in a consumer group.
type member struct {
	cluster Cluster
	group   string
	topics  []string
	balance []sarama.BalanceStrategy
	handler sarama.ConsumerGroupHandler
	logger  *slog.Logger
}

// run takes part until ctx is done: session after session, through rebalances and outages.
func (m member) run(ctx context.Context) {
	wait := backoff{least: groupBackoffMin, most: groupBackoffMax}
	for ctx.Err() == nil {
		group, err := sarama.NewConsumerGroup(m.cluster.Brokers, m.group, m.cluster.groupConfig(m.balance))
		if err != nil {
			m.warn(ctx, "consumer group: no connection", err)
			wait.pause(ctx)
			continue
		}
		m.consume(ctx, group, &wait)
	}
}

func (m member) consume(ctx context.Context, group sarama.ConsumerGroup, wait *backoff) {
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for err := range group.Errors() {
			m.warn(ctx, "consumer group: fault", err)
		}
	}()
	defer func() {
		if err := group.Close(); err != nil {
			m.warn(ctx, "consumer group: not left cleanly", err)
		}
		<-logged
	}()
	for ctx.Err() == nil {
		began := time.Now()
		err := group.Consume(ctx, m.topics, m.handler)
		switch {
		case errors.Is(err, sarama.ErrClosedConsumerGroup):
			return
		case err != nil && ctx.Err() == nil:
			m.warn(ctx, "consumer group: session ended", err)
			wait.pause(ctx)
		case time.Since(began) > groupBackoffMax:
			wait.reset()
		}
	}
}

func (m member) warn(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		m.logger.WarnContext(ctx, what, "group", m.group, "error", err)
	}
}

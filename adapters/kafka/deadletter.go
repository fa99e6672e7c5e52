package kafka

import (
	"context"
	"time"

	"github.com/IBM/sarama"
)

// cause says why a feed gives a record up.
type cause struct {
	consumer     string
	class        string
	err          error
	attempt      int
	firstFailure time.Time
	due          time.Time // when to look at it again: at once, for a DLQ
}

// park writes the record to the consumer's DLQ and returns when the broker has acknowledged it.
func (p *parker) park(ctx context.Context, record *sarama.ConsumerMessage, why cause) error {
	text := why.err.Error()
	j := journey{origin: originOf(record), attempt: why.attempt, firstFailure: why.firstFailure}
	j.failures = withFailure("", time.Now(), why.attempt, why.class, text)
	_, err := p.put(ctx, record, parking{
		consumer: why.consumer, topic: p.topics.DLQ(why.consumer), dead: true, class: why.class, reason: text, due: why.due, journey: j,
	})
	return err
}

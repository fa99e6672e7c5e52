package kafka

import (
	"context"
	"time"

	"github.com/IBM/sarama"
)

// letterPlace is a partition of a DLQ.
type letterPlace struct {
	topic     string
	partition int32
}

// lookedAt is what a look at a partition found: it holds first to end-1.
type lookedAt struct {
	at         time.Time
	first, end int64
}

// lettersLook is how long a look at a DLQ is good for.
const lettersLook = 5 * time.Second

// turn asks whether it is the record's turn. Nothing waits for a letter that retention has deleted, or that was in a
// topic which was made anew.
func (c *chain) turn(ctx context.Context, delivery *Delivery) turn {
	its := delivery.turn()
	for its.verdict == follow && its.topic == c.ladder.dlq && its.first.position != landing {
		gone, err := c.parker.gone(ctx, c.ladder.dlq, delivery.origin().partition, its.first.position)
		if err != nil || !gone {
			break // when it can't be told, the letter is there
		}
		delivery.partition.sequence.lose(delivery.origin(), delivery.Message.Key, its.first)
		its = delivery.turn() // behind the next one, if there is one: a line is finite
	}
	return its
}

// gone tells whether a letter is not in the DLQ any more.
func (p *parker) gone(ctx context.Context, topic string, origin int32, position int64) (bool, error) {
	client, _, err := p.connect()
	if err != nil || ctx.Err() != nil {
		return false, err
	}
	partitions, err := client.Partitions(topic)
	if err != nil || len(partitions) == 0 {
		return false, err
	}
	place := letterPlace{topic, origin % int32(len(partitions))}
	p.looking.Lock()
	defer p.looking.Unlock()
	look, known := p.looked[place]
	if !known || time.Since(look.at) > lettersLook || position >= look.end {
		look.at = time.Now()
		if look.first, err = client.GetOffset(topic, place.partition, sarama.OffsetOldest); err != nil {
			return false, err
		}
		if look.end, err = client.GetOffset(topic, place.partition, sarama.OffsetNewest); err != nil {
			return false, err
		}
		if p.looked == nil {
			p.looked = map[letterPlace]lookedAt{}
		}
		p.looked[place] = look
	}
	return position < look.first || position >= look.end, nil
}

// wrote takes note of a letter. Where the offsets do not go on from the last one, the topic may have been made
// anew: then what was noted of other letters with such offsets is dropped. If that fails, the next letter does it.
func (p *parker) wrote(ctx context.Context, consumer string, place letterPlace, offset int64) {
	if p.settled == nil {
		return
	}
	p.looking.Lock()
	last, known := p.written[place]
	p.looking.Unlock()
	if known && offset > last {
		p.noteWritten(place, offset)
		return
	}
	if err := p.settled.ForgetSettled(ctx, consumer, place.partition, offset); err == nil {
		p.noteWritten(place, offset)
	}
}

func (p *parker) noteWritten(place letterPlace, offset int64) {
	p.looking.Lock()
	defer p.looking.Unlock()
	if p.written == nil {
		p.written = map[letterPlace]int64{}
	}
	p.written[place] = offset
}

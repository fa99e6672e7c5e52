package kafka

import (
	"context"
	"time"

	"github.com/IBM/sarama"

	"andes/eventstore"
)

// Delivery is a record on its way through a lane. It is reached from the message's context.
type Delivery struct {
	Message      *sarama.ConsumerMessage
	Attempt      int       // from 1, those before the record was parked included
	FirstFailure time.Time // zero on the first attempt

	ctx       deliveryContext // of its message
	record    eventstore.Record
	progress  string
	putOff    bool     // what it needs is away: this delivery does not count
	parked    *journey // nil: it was not parked yet
	ours      bool     // its journey is told by our headers
	due       time.Time
	partition *lanePartition
	seq       uint64
}

// deliveryContext is the context of a message: that of the partition's work, and the delivery.
type deliveryContext struct {
	context.Context
	delivery *Delivery
}

type deliveryKey struct{}

// Value gives the delivery without a further context between.
func (c *deliveryContext) Value(key any) any {
	if key == (deliveryKey{}) {
		return c.delivery
	}
	return c.Context.Value(key)
}

// Delivered gives the Kafka record behind a message that came through Lanes.
func Delivered(ctx context.Context) (*Delivery, bool) {
	delivery, found := ctx.Value(deliveryKey{}).(*Delivery)
	return delivery, found
}

// returned reads what a parked record tells of itself, and when it is due: never later than the topic's delay
// from now, whatever another machine's clock said.
func (d *Delivery) returned(longest time.Duration, now time.Time) {
	j, ours := readJourney(d.Message)
	d.parked, d.ours = &j, ours
	d.Attempt, d.FirstFailure, d.progress = j.attempt, j.firstFailure, j.progress
	d.due = j.due
	if latest := now.Add(longest); d.due.After(latest) {
		d.due = latest
	}
}

// origin is where the record was read first.
func (d *Delivery) origin() origin {
	if d.parked != nil {
		return d.parked.origin
	}
	return originOf(d.Message)
}

// turn asks whether it is the record's turn. What an operator gave up is never handled, whether an order is kept for it
// or not: nothing of it is left but that it is given up.
func (d *Delivery) turn() turn {
	its := turn{verdict: proceed}
	if sequence := d.partition.sequence; sequence != nil {
		its = sequence.turn(d)
	}
	if its.verdict == proceed && d.parked != nil && d.parked.discard {
		its.verdict = release
	}
	return its
}

// done tells those behind the record that it is done with.
func (d *Delivery) done() {
	if d.partition.sequence != nil {
		d.partition.sequence.done(d)
	}
}

// leave tells those behind the record that it goes to another place. landed has to be called.
func (d *Delivery) leave(topic string) (landed func(position int64, err error)) {
	if d.partition.sequence == nil {
		return func(int64, error) {}
	}
	return d.partition.sequence.leave(d, topic)
}

// abandoned tells that the partition is being given up, so whatever happened, another member does it again.
func (d *Delivery) abandoned() bool {
	select {
	case <-d.partition.stop:
		return true
	default:
		return false
	}
}

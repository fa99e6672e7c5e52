package kafka

import (
	"context"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// maxDoors bounds the router's handlers of a consumer.
const maxDoors = 8

// doorway is one of several ways out of a Lanes. Watermill's router takes the messages of a handler one by one
// in one goroutine, which a single handler would make the consumer's limit.
type doorway struct {
	lanes  *Lanes
	index  int
	once   *sync.Once
	opened *opened
}

// opened is what the first doorway that is subscribed to finds for all.
type opened struct {
	doors []chan *message.Message
	err   error
}

// doorways gives as many subscribers as the Lanes has doors. Together they are one member of the group.
func (l *Lanes) doorways() []message.Subscriber {
	once, found := new(sync.Once), new(opened)
	subscribers := make([]message.Subscriber, l.cfg.doors)
	for i := range subscribers {
		subscribers[i] = &doorway{lanes: l, index: i, once: once, opened: found}
	}
	return subscribers
}

// Subscribe implements message.Subscriber. All doorways are subscribed to with the same context and topics.
func (d *doorway) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	d.once.Do(func() { d.opened.doors, d.opened.err = d.lanes.open(ctx, topic) })
	if d.opened.err != nil {
		return nil, d.opened.err
	}
	return d.opened.doors[d.index], nil
}

// Close implements message.Subscriber.
func (d *doorway) Close() error { return d.lanes.Close() }

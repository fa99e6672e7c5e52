package kafka

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"

	"andes/eventstore"
)

// abandonWait is how long a handler whose context was cancelled may take to return before its record
// is left to whoever reads the partition next.
const abandonWait = 500 * time.Millisecond

// lanePartition is one claimed partition.
type lanePartition struct {
	sub     *subscription
	session sarama.ConsumerGroupSession
	stop    <-chan struct{} // nothing is delivered any more
	work    context.Context // of the handlers

	mu         sync.Mutex
	window     *lowWater
	lanes      []lane
	unfinished int
	workers    sync.WaitGroup
	room       chan struct{} // told when a record finished
}

// lane is a queue that one worker at a time empties.
type lane struct {
	queue []*Delivery
	busy  bool
}

// Delivery is a record on its way through a lane. It is reached from the message's context.
type Delivery struct {
	Message      *sarama.ConsumerMessage
	Attempt      int       // from 1; in memory only
	FirstFailure time.Time // zero on the first attempt

	record eventstore.Record
	seq    uint64
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

var laneSeed = maphash.MakeSeed()

func newLanePartition(s *subscription, session sarama.ConsumerGroupSession, work context.Context) *lanePartition {
	return &lanePartition{
		sub:     s,
		session: session,
		stop:    session.Context().Done(),
		work:    work,
		window:  newLowWater(s.cfg.Window),
		lanes:   make([]lane, s.cfg.Lanes),
		room:    make(chan struct{}, 1),
	}
}

// read admits records to their lanes until the session ends.
func (p *lanePartition) read(messages <-chan *sarama.ConsumerMessage) {
	for message := range messages {
		for !p.admit(message) {
			select {
			case <-p.room:
			case <-p.stop:
				return
			}
		}
	}
}

// admit queues the record in its lane; false while the partition is full.
func (p *lanePartition) admit(message *sarama.ConsumerMessage) bool {
	index := maphash.Bytes(laneSeed, message.Key) % uint64(len(p.lanes))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unfinished >= p.sub.cfg.InFlight || p.window.full() {
		return false
	}
	p.unfinished++
	l := &p.lanes[index]
	l.queue = append(l.queue, &Delivery{Message: message, seq: p.window.follow(message.Offset)})
	if !l.busy {
		l.busy = true
		p.workers.Add(1)
		go p.serve(l)
	}
	return true
}

// serve delivers a lane's records one after another until it is empty or the session ends.
func (p *lanePartition) serve(l *lane) {
	defer p.workers.Done()
	delivery := p.next(l)
	for delivery != nil {
		if !p.deliver(delivery) {
			return // the lane stays busy: nothing may overtake the record that is not finished
		}
		delivery = p.finish(l, delivery)
	}
}

func (p *lanePartition) next(l *lane) *Delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	return pop(l)
}

// finish moves the low-water mark and gives the lane's next record.
func (p *lanePartition) finish(l *lane, delivery *Delivery) *Delivery {
	p.mu.Lock()
	commit, moved := p.window.finish(delivery.seq)
	p.unfinished--
	next := pop(l)
	p.mu.Unlock()
	if moved {
		p.session.MarkOffset(delivery.Message.Topic, delivery.Message.Partition, commit, "")
	}
	select {
	case p.room <- struct{}{}:
	default:
	}
	return next
}

func pop(l *lane) *Delivery {
	if len(l.queue) == 0 {
		l.busy = false
		return nil
	}
	first := l.queue[0]
	l.queue[0] = nil
	if l.queue = l.queue[1:]; len(l.queue) == 0 {
		l.queue = nil
	}
	return first
}

// deliver hands the record over until it is acknowledged; false when the session ended before.
func (p *lanePartition) deliver(delivery *Delivery) bool {
	wait := backoff{least: p.sub.cfg.RedeliveryMin, most: p.sub.cfg.RedeliveryMax}
	for {
		select {
		case <-p.stop:
			return false
		default:
		}
		delivery.Attempt++
		m := message.NewMessage(headerOf(delivery.Message, headerID), delivery.Message.Value)
		m.SetContext(&deliveryContext{p.work, delivery})
		select {
		case p.sub.out <- m:
		case <-p.stop:
			return false
		}
		if p.acknowledged(m) {
			return true
		}
		if delivery.FirstFailure.IsZero() {
			delivery.FirstFailure = time.Now()
		}
		if !p.pause(wait.next()) {
			return false
		}
	}
}

func (p *lanePartition) acknowledged(m *message.Message) bool {
	select {
	case <-m.Acked():
		return true
	case <-m.Nacked():
		return false
	case <-p.work.Done():
	}
	timer := time.NewTimer(abandonWait)
	defer timer.Stop()
	select {
	case <-m.Acked():
		return true
	case <-m.Nacked():
	case <-timer.C:
	}
	return false
}

func (p *lanePartition) pause(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.stop:
		return false
	}
}

// drain waits for the handlers: for the grace, and a moment more after their context was cancelled.
func (p *lanePartition) drain(grace time.Duration, cancel context.CancelFunc) {
	timer := time.AfterFunc(grace, cancel)
	defer timer.Stop()
	p.workers.Wait()
}

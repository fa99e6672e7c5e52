package kafka

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill/message"
)

// abandonWait is how long a handler whose context was cancelled may take to return before its record
// is left to whoever reads the partition next.
const abandonWait = 500 * time.Millisecond

// lanePartition is one claimed partition.
type lanePartition struct {
	sub      *subscription
	session  sarama.ConsumerGroupSession
	stop     <-chan struct{} // nothing is delivered any more
	work     context.Context // of the handlers
	sequence *sequence       // of the partition's number; nil: no order over retries
	limit    int             // of unfinished records

	mu         sync.Mutex
	window     *lowWater
	lanes      []lane
	unfinished int
	bytes      int // of the unfinished
	closed     bool
	workers    sync.WaitGroup
	room       chan struct{} // told when a record finished
}

// lane is a queue that one worker at a time empties.
type lane struct {
	queue []*Delivery
	busy  bool
}

var laneSeed = maphash.MakeSeed()

func newLanePartition(s *subscription, session sarama.ConsumerGroupSession, work context.Context, partition int32) *lanePartition {
	return &lanePartition{
		sub:      s,
		session:  session,
		stop:     session.Context().Done(),
		work:     work,
		sequence: s.sequences[partition],
		limit:    s.cfg.InFlight,
		window:   newLowWater(s.cfg.Window),
		lanes:    make([]lane, s.cfg.Lanes),
		room:     make(chan struct{}, 1),
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
	p.mu.Lock()
	defer p.mu.Unlock()
	delivery := p.track(message)
	if delivery == nil {
		return false
	}
	p.queue(delivery)
	return true
}

// take makes the record one of the unfinished, in no lane yet; nil while the partition is full.
func (p *lanePartition) take(message *sarama.ConsumerMessage) *Delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.track(message)
}

func (p *lanePartition) track(message *sarama.ConsumerMessage) *Delivery {
	size := len(message.Value)
	if p.unfinished >= p.limit || p.window.full() || p.unfinished > 0 && p.bytes+size > p.sub.cfg.InFlightBytes {
		return nil
	}
	p.unfinished++
	p.bytes += size
	return &Delivery{Message: message, partition: p, seq: p.window.follow(message.Offset)}
}

// enqueue gives a record that was taken to its lane.
func (p *lanePartition) enqueue(delivery *Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed { // else whoever reads the partition next has it
		p.queue(delivery)
	}
}

func (p *lanePartition) queue(delivery *Delivery) {
	l := &p.lanes[maphash.Bytes(laneSeed, delivery.Message.Key)%uint64(len(p.lanes))]
	l.queue = append(l.queue, delivery)
	if !l.busy {
		l.busy = true
		p.workers.Add(1)
		go p.serve(l)
	}
}

// serve delivers a lane's records one after another until it is empty or the session ends.
func (p *lanePartition) serve(l *lane) {
	defer p.workers.Done()
	delivery := p.next(l)
	for delivery != nil {
		switch p.deliver(delivery) {
		case acknowledged:
			delivery = p.finish(l, delivery)
		case held:
			delivery = p.next(l) // that one comes again when it is woken: perhaps what it waits for is behind it
		case ended:
			return // the lane stays busy: nothing may overtake the record that is not finished
		}
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
	p.bytes -= len(delivery.Message.Value)
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

// outcome is how a delivery ended.
type outcome int

const (
	acknowledged outcome = iota
	held                 // it waits for an earlier one of its key
	ended                // the session did
)

// deliver hands the record over until it is acknowledged, or can't be now.
func (p *lanePartition) deliver(delivery *Delivery) outcome {
	wait := backoff{least: p.sub.cfg.RedeliveryMin, most: p.sub.cfg.RedeliveryMax}
	for {
		select {
		case <-p.stop:
			return ended
		default:
		}
		if delivery.parked != nil && p.holds(delivery) {
			return held
		}
		if !p.ready() {
			return ended
		}
		delivery.Attempt++
		m := message.NewMessage("", delivery.Message.Value) // Watermill needs no id, and the record has one
		delivery.ctx = deliveryContext{p.work, delivery}
		m.SetContext(&delivery.ctx)
		select {
		case p.sub.doors[delivery.seq%uint64(len(p.sub.doors))] <- m:
		case <-p.stop:
			return ended
		}
		if p.isAcknowledged(m) {
			return acknowledged
		}
		switch {
		case delivery.putOff:
			delivery.putOff = false
			delivery.Attempt--
		case delivery.FirstFailure.IsZero():
			delivery.FirstFailure = time.Now()
		}
		if !p.pause(wait.next()) {
			return ended
		}
	}
}

// ready waits until there may be a delivery; false when the session ended before.
func (p *lanePartition) ready() bool {
	if p.sub.cfg.Ready == nil {
		return true
	}
	wait := backoff{least: p.sub.cfg.RedeliveryMin, most: p.sub.cfg.RedeliveryMax}
	for {
		err := p.sub.cfg.Ready(p.session.Context())
		if p.session.Context().Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		p.sub.cfg.Logger.Warn("consumer can't tell whether it is ready", "group", p.sub.cfg.Group, "error", err)
		if !p.pause(wait.next()) {
			return false
		}
	}
}

func (p *lanePartition) isAcknowledged(m *message.Message) bool {
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
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	timer := time.AfterFunc(grace, cancel)
	defer timer.Stop()
	p.workers.Wait()
}

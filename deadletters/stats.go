package deadletters

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Queue is how a consumer's DLQ stands.
type Queue struct {
	Consumer string       `json:"consumer"`
	Depth    int64        `json:"depth" doc:"Outstanding letters"`
	Settled  int64        `json:"settled" doc:"Letters that are still there and done with"`
	Oldest   time.Time    `json:"oldest,omitzero" doc:"When the oldest outstanding letter was parked"`
	LastHour int64        `json:"lastHour" doc:"Letters parked within the last hour: the growth"`
	LastDay  int64        `json:"lastDay" doc:"Letters parked within the last 24 hours"`
	Members  int          `json:"members" doc:"Running members of the consumer's group"`
	Errors   []ErrorCount `json:"errors" doc:"The most frequent errors of the newest outstanding letters"`
}

// ErrorCount is how often an error is among the letters.
type ErrorCount struct {
	Class string `json:"class,omitempty"`
	Type  string `json:"type,omitempty" doc:"Of the event"`
	Error string `json:"error"`
	Count int64  `json:"count"`
}

// Bounds of the statistics.
const (
	statsSample = 2000 // newest letters of a partition that are looked at for their errors
	statsErrors = 5
	statsText   = 160 // bytes of an error's text that tell it from others
)

// Stats tells how every DLQ stands; with a name, that of one consumer.
func (s *Service) Stats(ctx context.Context, name string) ([]Queue, error) {
	var queues []Queue
	for _, consumer := range s.Consumers {
		if name != "" && name != consumer.Name {
			continue
		}
		queue, err := s.queue(ctx, consumer.Name)
		if err != nil {
			return nil, fmt.Errorf("DLQ of %s: %w", consumer.Name, err)
		}
		queues = append(queues, queue)
	}
	if len(queues) == 0 {
		_, _, err := s.consumer(ctx, name)
		return nil, err
	}
	return queues, nil
}

func (s *Service) queue(ctx context.Context, name string) (Queue, error) {
	q := Queue{Consumer: name, Errors: []ErrorCount{}}
	_, bounds, err := s.consumer(ctx, name)
	if err != nil {
		return q, err
	}
	counts := map[ErrorCount]int64{}
	for _, b := range bounds {
		settled, err := s.Ledger.SettledCount(ctx, name, b.Partition, b.First)
		if err != nil {
			return q, err
		}
		q.Settled += settled
		q.Depth += max(0, b.End-b.First-settled)
		if err := s.sample(ctx, b, &q, counts); err != nil {
			return q, err
		}
	}
	for key, count := range counts {
		key.Count = count
		q.Errors = append(q.Errors, key)
	}
	slices.SortFunc(q.Errors, func(a, b ErrorCount) int {
		return cmp.Or(behindLast(a, b), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Type, b.Type))
	})
	q.Errors = q.Errors[:min(len(q.Errors), statsErrors)]
	now := s.Now()
	if q.LastHour, err = s.Log.ParkedSince(ctx, name, now.Add(-time.Hour)); err != nil {
		return q, err
	}
	if q.LastDay, err = s.Log.ParkedSince(ctx, name, now.Add(-24*time.Hour)); err != nil {
		return q, err
	}
	q.Members, _, err = s.Log.Members(ctx, name)
	return q, err
}

// sample looks at a partition's oldest outstanding letter and at its newest ones.
func (s *Service) sample(ctx context.Context, b Bounds, q *Queue, counts map[ErrorCount]int64) error {
	if b.First >= b.End {
		return nil
	}
	oldest, err := s.Ledger.FirstOutstanding(ctx, q.Consumer, b.Partition, b.First)
	if err != nil || oldest >= b.End {
		return err
	}
	newest := max(oldest, b.End-statsSample)
	settlements, err := s.Ledger.Settlements(ctx, q.Consumer, b.Partition, newest, b.End)
	if err != nil {
		return err
	}
	err = s.Log.Scan(ctx, q.Consumer, b.Partition, oldest, b.End, func(l *Letter) bool {
		if q.Oldest.IsZero() || l.ParkedAt.Before(q.Oldest) {
			q.Oldest = milliseconds(l.ParkedAt)
		}
		return false
	})
	if err != nil {
		return err
	}
	return s.Log.Scan(ctx, q.Consumer, b.Partition, newest, b.End, func(l *Letter) bool {
		if !settlements[l.Offset].Done {
			counts[errorOf(l)]++
		}
		return true
	})
}

// behindLast: what only waits for another letter is no cause.
func behindLast(a, b ErrorCount) int {
	switch {
	case a.Class == b.Class || a.Class != Behind && b.Class != Behind:
		return 0
	case a.Class == Behind:
		return 1
	}
	return -1
}

// anyID is what makes equal errors of several orders differ.
var anyID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func errorOf(l *Letter) ErrorCount {
	if l.Foreign != "" {
		return ErrorCount{Error: l.Foreign}
	}
	text := anyID.ReplaceAllString(l.Error, "…")
	if len(text) > statsText {
		text = text[:statsText]
	}
	return ErrorCount{Class: l.Class, Type: l.EventType, Error: text}
}

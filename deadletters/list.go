package deadletters

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"andes/eventstore"
)

// Query asks for letters.
type Query struct {
	Consumer string
	Filter   Filter
	All      bool // settled ones too
	Payload  bool // with their payloads, masked
	Limit    int  // of the page; 0: 50
	Cursor   string
}

// Page is a part of the letters that were asked for.
type Page struct {
	Items  []Summary `json:"items"`
	Cursor string    `json:"cursor,omitempty" doc:"Asks for what follows. A page may be empty and have one: the search goes on there"`
}

// Summary is a letter in a list.
type Summary struct {
	Letter    string    `json:"letter" example:"oms/3/17" doc:"consumer/partition/offset"`
	ParkedAt  time.Time `json:"parkedAt"`
	Class     string    `json:"class,omitempty"`
	Error     string    `json:"error,omitempty"`
	Type      string    `json:"type,omitempty" doc:"Of the event"`
	Key       string    `json:"key,omitempty"`
	Partner   string    `json:"partner,omitempty"`
	Origin    Origin    `json:"origin,omitzero"`
	Attempt   int       `json:"attempt,omitzero" doc:"Deliveries so far"`
	Replays   int       `json:"replays,omitzero" doc:"How often it was replayed and came back"`
	Foreign   string    `json:"foreign,omitempty" doc:"Why it is no record of ours"`
	Settled   string    `json:"settled,omitempty" doc:"What was done with it"`
	Bytes     int       `json:"bytes"`
	EventID   string    `json:"eventId,omitempty"`
	Correlate string    `json:"correlationId,omitempty"`
	Payload   *Payload  `json:"payload,omitempty"`
}

// place is where a page ended.
type place struct {
	Partition int32 `json:"p"`
	Offset    int64 `json:"o"`
}

const (
	somePage  = 50
	pageBytes = 4 << 20
)

// List gives a page of the letters of a consumer, by partition and offset.
func (s *Service) List(ctx context.Context, query Query) (Page, error) {
	page := Page{Items: []Summary{}}
	consumer, bounds, err := s.consumer(ctx, query.Consumer)
	if err != nil {
		return page, err
	}
	if err := query.Filter.check(consumer); err != nil {
		return page, err
	}
	var from place
	if query.Cursor != "" && !decodeCursor(query.Cursor, &from) {
		return page, eventstore.Refuse(CodeCursorInvalid, "the cursor is none of ours")
	}
	if query.Limit <= 0 {
		query.Limit = somePage
	}
	search := search{service: s, query: query, limit: min(query.Limit, maxPage), left: maxScanned}
	for _, b := range bounds {
		if b.Partition < from.Partition {
			continue
		}
		if b.Partition == from.Partition {
			b.First = max(b.First, from.Offset)
		}
		if err := search.partition(ctx, b); err != nil {
			return page, err
		}
		if search.next != nil {
			page.Cursor = encodeCursor(search.next)
			break
		}
	}
	page.Items = append(page.Items, search.found...)
	return page, nil
}

// search is the work on one page.
type search struct {
	service *Service
	query   Query
	limit   int
	left    int // letters that may still be looked at
	bytes   int // of payloads in the page
	found   []Summary
	next    *place
}

// partition searches one partition.
func (s *search) partition(ctx context.Context, b Bounds) error {
	keep := func(l *Letter) bool {
		s.left--
		if !s.query.Payload {
			l.Value = nil
		}
		return s.query.Filter.matches(l)
	}
	return s.service.sweep(ctx, s.query.Consumer, b, keep, func(w swept) (bool, error) {
		if err := s.take(ctx, w); err != nil {
			return false, err
		}
		if s.next == nil && (s.left <= 0 || s.bytes >= pageBytes) && w.next < b.End {
			s.next = &place{b.Partition, w.next}
		}
		return s.next == nil, nil
	})
}

// take adds the letters of a window to the page.
func (s *search) take(ctx context.Context, w swept) error {
	if len(w.letters) == 0 {
		return nil
	}
	partners, err := s.service.partners(ctx, w.letters)
	if err != nil {
		return err
	}
	for _, l := range w.letters {
		settlement := w.settlements[l.Offset]
		partner := partners[l.Ref]
		if settlement.Done && !s.query.All || s.query.Filter.Partner != "" && partner != s.query.Filter.Partner {
			continue
		}
		if len(s.found) >= s.limit || s.bytes >= pageBytes {
			s.next = &place{l.Partition, l.Offset}
			return nil
		}
		s.bytes += len(l.Value)
		s.found = append(s.found, s.service.summary(l, partner, settlement, s.query.Payload))
	}
	return nil
}

// partners tells whose order each letter is about or, where that is not known, who caused the event.
func (s *Service) partners(ctx context.Context, letters []*Letter) (map[Ref]string, error) {
	keys := make([]string, 0, len(letters))
	for _, l := range letters {
		if l.Foreign == "" && len(l.Key) > 0 {
			keys = append(keys, string(l.Key))
		}
	}
	owners, err := s.Events.Owners(ctx, keys)
	if err != nil {
		return nil, err
	}
	partners := make(map[Ref]string, len(letters))
	for _, l := range letters {
		if partners[l.Ref] = owners[string(l.Key)]; partners[l.Ref] == "" {
			partners[l.Ref] = l.Actor
		}
	}
	return partners, nil
}

func (s *Service) summary(l *Letter, partner string, settlement Settlement, payload bool) Summary {
	summary := Summary{
		Letter: l.Ref.String(), ParkedAt: milliseconds(l.ParkedAt), Class: l.Class, Error: l.Error, Type: l.EventType,
		Key: printable(l.Key), Partner: partner, Origin: l.Origin, Attempt: l.Attempt, Replays: l.Replays, Foreign: l.Foreign,
		Bytes: l.Size, EventID: l.EventID, Correlate: l.Correlation,
	}
	summary.Origin.Timestamp = milliseconds(l.Origin.Timestamp)
	if settlement.Action != "" && !settlement.Free {
		summary.Settled = settlement.Action
		if !settlement.Done {
			summary.Settled = "claimed"
		}
	}
	if payload {
		shown := s.payload(l)
		summary.Payload = &shown
	}
	return summary
}

func encodeCursor(value any) string {
	text, err := json.Marshal(value)
	if err != nil { // a struct of numbers and texts
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func decodeCursor(cursor string, into any) bool {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	return err == nil && json.Unmarshal(text, into) == nil
}

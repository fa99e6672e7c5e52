// Package receiver simulates a partner's webhook endpoint. It verifies each
// delivery as the Standard Webhooks specification asks, remembers the last
// 50,000 (fewer if they are long), and counts repeats by webhook-id.
package receiver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"andes/test/lab/sim"
)

const (
	maxDeliveries = 50_000 // default of Config.Keep
	maxKeptBody   = 256 << 10
	maxRingBytes  = 128 << 20 // default of Config.KeepBytes
	maxTypes      = 200
)

// Knobs are the receiver's settings.
type Knobs struct {
	sim.Faults
	Status int    `json:"status"` // answer to verified deliveries; 0 is 204
	Secret string `json:"secret"` // whsec_…; several, separated by spaces, while one is rotated
}

// Validate reports every fault of the settings.
func (k Knobs) Validate() error {
	faults := []error{k.Faults.Validate()}
	if k.Status != 0 && (k.Status < 200 || k.Status > 599) {
		faults = append(faults, fmt.Errorf("status: %d is not 0 or 200..599", k.Status))
	}
	for _, secret := range strings.Fields(k.Secret) {
		if _, err := standardwebhooks.NewWebhook(secret); err != nil {
			faults = append(faults, errors.New("secret: not whsec_ and base64"))
		}
	}
	return errors.Join(faults...)
}

// Delivery is one POST that arrived.
type Delivery struct {
	Seq           int64           `json:"seq"`
	ID            string          `json:"id"`
	Type          string          `json:"type"`
	OrderID       string          `json:"orderId,omitempty"`  // data.orderId of the body
	Sequence      int64           `json:"sequence,omitempty"` // of the body
	Path          string          `json:"path"`
	Timestamp     string          `json:"timestamp"` // webhook-timestamp as sent
	ReceivedAt    string          `json:"receivedAt"`
	Verified      bool            `json:"verified"`
	Duplicate     bool            `json:"duplicate"` // its id was accepted before
	Status        int             `json:"status"`
	CorrelationID string          `json:"correlationId,omitempty"`
	Body          json.RawMessage `json:"body,omitempty"` // left out if not JSON or too long
}

// Config of one receiver.
type Config struct {
	Seed  uint64
	Now   func() time.Time
	Knobs Knobs

	Keep      int // deliveries remembered; 0: 50,000
	KeepBytes int // of their bodies; 0: 128 MiB
}

// Sim is a running receiver.
type Sim struct {
	*sim.Core[Knobs]

	mu       sync.Mutex
	seq      int64
	ring     []Delivery // oldest first
	bytes    int        // of the bodies in it
	keepN    int
	keepB    int
	accepted map[string]int // verified and answered 2xx, by id; only ids in the ring
	counts   Counters
}

// Counters are the business part of the stats.
type Counters struct {
	Deliveries int64            `json:"deliveries"`
	Verified   int64            `json:"verified"`
	Unverified int64            `json:"unverified"`
	Accepted   int64            `json:"accepted"`   // verified and answered 2xx
	Duplicates int64            `json:"duplicates"` // accepted again by id
	DistinctID int              `json:"distinctIds"`
	ByType     map[string]int64 `json:"byType"` // accepted, repeats left out
	LastSeq    int64            `json:"lastSeq"`
}

// New builds a receiver. Close it at the end.
func New(cfg Config) (*Sim, error) {
	if err := cfg.Knobs.Validate(); err != nil {
		return nil, fmt.Errorf("receiver simulator: %w", err)
	}
	s := &Sim{
		accepted: map[string]int{}, counts: Counters{ByType: map[string]int64{}},
		keepN: cmp.Or(cfg.Keep, maxDeliveries), keepB: cmp.Or(cfg.KeepBytes, maxRingBytes),
	}
	s.Core = sim.NewCore(sim.Config{Name: "receiver", Seed: cfg.Seed, Now: cfg.Now}, cfg.Knobs)
	s.OnStats(func() any { return s.Counters() })
	s.OnReset(s.reset)
	s.Handle("POST /webhooks", s.receive)
	s.Handle("POST /webhooks/{name}", s.receive)
	s.Lab("GET /_lab/deliveries", sim.Paged(s.DeliveriesAfter, s.Now))
	return s, nil
}

// Counters returns the counts of this moment.
func (s *Sim) Counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.ByType = maps.Clone(s.counts.ByType)
	c.LastSeq, c.DistinctID = s.seq, len(s.accepted)
	return c
}

func (s *Sim) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = Counters{ByType: map[string]int64{}}
	s.ring, s.bytes = nil, 0
	clear(s.accepted)
}

func (s *Sim) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		sim.Refuse(w, http.StatusBadRequest, "body: %v", err)
		return
	}
	k := s.Knobs()
	d := Delivery{
		ID: r.Header.Get(standardwebhooks.HeaderWebhookID), Path: r.URL.Path,
		Timestamp:     r.Header.Get(standardwebhooks.HeaderWebhookTimestamp),
		Verified:      verify(k.Secret, body, r.Header),
		ReceivedAt:    sim.Stamp(s.Now()),
		CorrelationID: r.Header.Get("X-Correlation-Id"),
		Status:        http.StatusUnauthorized,
	}
	if d.Verified {
		d.Status = http.StatusNoContent
		if k.Status != 0 {
			d.Status = k.Status
		}
	}
	var head struct {
		Type     string `json:"type"`
		Sequence int64  `json:"sequence"`
		Data     struct {
			OrderID string `json:"orderId"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &head) == nil {
		d.Type, d.Sequence, d.OrderID = head.Type, head.Sequence, head.Data.OrderID
		if len(body) <= maxKeptBody {
			d.Body = body
		}
	}
	s.keep(d)
	w.WriteHeader(d.Status)
}

func verify(secrets string, body []byte, header http.Header) bool {
	for _, secret := range strings.Fields(secrets) {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err == nil && verifier.Verify(body, header) == nil {
			return true
		}
	}
	return false
}

func (s *Sim) keep(d Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	d.Seq = s.seq
	s.counts.Deliveries++
	if d.Verified {
		s.counts.Verified++
	} else {
		s.counts.Unverified++
	}
	if accepted(d) {
		s.counts.Accepted++
		d.Duplicate = s.accepted[d.ID] > 0
		s.accepted[d.ID]++
		if d.Duplicate {
			s.counts.Duplicates++
		} else if len(s.counts.ByType) < maxTypes {
			s.counts.ByType[d.Type]++
		}
	}
	for len(s.ring) > 0 && (len(s.ring) >= s.keepN || s.bytes+len(d.Body) > s.keepB) {
		s.forgetOldest()
	}
	s.ring = append(s.ring, d)
	s.bytes += len(d.Body)
}

func accepted(d Delivery) bool { return d.Verified && d.Status/100 == 2 }

func (s *Sim) forgetOldest() {
	oldest := s.ring[0]
	s.ring[0] = Delivery{}
	s.ring = s.ring[1:]
	s.bytes -= len(oldest.Body)
	if !accepted(oldest) {
		return
	}
	if s.accepted[oldest.ID]--; s.accepted[oldest.ID] <= 0 {
		delete(s.accepted, oldest.ID)
	}
}

// DeliveriesAfter returns at most limit deliveries after the sequence number.
func (s *Sim) DeliveriesAfter(after int64, limit int) ([]Delivery, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := sort.Search(len(s.ring), func(i int) bool { return s.ring[i].Seq > after })
	to := min(from+limit, len(s.ring))
	return append([]Delivery(nil), s.ring[from:to]...), to < len(s.ring)
}

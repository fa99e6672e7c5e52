package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"andes/test/lab/wms"
)

// heldWarehouse dispatches nothing.
func heldWarehouse() *wms.Knobs { return &wms.Knobs{HoldDispatch: true} }

// syncBuffer is a log that is written while it is read.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (i *instance) logged() string { return i.log.String() }

const deliveriesPage = 10_000

// awaitWebhooks waits until the partner was told exactly these types of an order, each id once.
func (s *scene) awaitWebhooks(orderID string, types ...string) {
	s.t.Helper()
	want := slices.Sorted(slices.Values(types))
	s.eventually("webhooks of order "+orderID, func() error {
		deliveries, _ := s.lab.Receiver.DeliveriesAfter(0, deliveriesPage)
		var told []string
		ids := map[string]bool{}
		for _, delivery := range deliveries {
			if delivery.OrderID == orderID && !ids[delivery.ID] {
				ids[delivery.ID] = true
				told = append(told, delivery.Type)
			}
		}
		if slices.Sort(told); !slices.Equal(told, want) {
			return fmt.Errorf("told %v, want %v", told, want)
		}
		return nil
	})
}

// traced checks that an order's correlation id is in the log lines of the parts that it passes.
func (s *scene) traced(orderID string) {
	s.t.Helper()
	var correlation string
	for line := range strings.Lines(s.instances[0].logged()) {
		if strings.Contains(line, orderID) && strings.Contains(line, `"correlationId":"`) {
			_, rest, _ := strings.Cut(line, `"correlationId":"`)
			correlation, _, _ = strings.Cut(rest, `"`)
		}
	}
	for _, message := range []string{"http request", "order registered", "webhook delivered"} {
		found := false
		for line := range strings.Lines(s.instances[0].logged()) {
			found = found || strings.Contains(line, message) && strings.Contains(line, correlation)
		}
		if correlation == "" || !found {
			s.t.Errorf("no line %q with the correlation id %q of order %s", message, correlation, orderID)
		}
	}
}

package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Field case TIME-01: a window that was written in one zone, and machines that are in others.
func TestAnswersAreTheSameInWhateverZoneAMachineIs(t *testing.T) {
	s := start(t, options{})
	santiago := time.FixedZone("-03", -3*60*60)
	at := func(after time.Duration) string { return time.Now().Add(after).In(santiago).Format(time.RFC3339) }
	s.clientOf("", "ops-admin").must(http.StatusOK, http.MethodPut, "/ops/partners/zoned", map[string]any{
		"name": "Zoned", "tier": "gold", "policy": map[string]any{
			"priceList": "retail", "currency": "GBP", "discounts": []any{
				map[string]any{"sku": "A", "percent": "10", "from": at(-time.Hour), "until": at(time.Hour)},
				map[string]any{"sku": "A", "percent": "50", "from": at(time.Hour), "until": at(9 * time.Hour)},
				map[string]any{"sku": "B", "percent": "50", "from": at(-9 * time.Hour), "until": at(-time.Hour)},
			},
		},
	}, nil)
	partner := s.clientOf("zoned")
	configured := s.env
	for _, zone := range []string{"America/Santiago", "Asia/Kolkata"} {
		s.env = append(configured[:len(configured):len(configured)], "TZ="+zone)
		there := partner.on(s.restart(s.running()[0]))
		there.shows("the discount of now "+zone, "/v1/prices?sku=A", `"price":{"amount":"2.30"`) // 2.295, half to even
		there.shows("no discount of then "+zone, "/v1/prices?sku=B", `"price":{"amount":"2.55"`)
		asOf, stale, err := there.freshness("A")
		if age := time.Since(asOf); err != nil || stale || age < -time.Second || age > patience {
			t.Errorf("%s: as of %s, stale %t, %v", zone, asOf, stale, err)
		}
		if got, err := there.do(http.MethodGet, "/v1/products/A", nil); err != nil || !strings.Contains(string(got.body), `Z"}`) {
			t.Errorf("%s: %s, %v", zone, got.body, err)
		}
	}
	s.env = configured
}

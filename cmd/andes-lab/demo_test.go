package main

import (
	"strings"
	"testing"
	"time"

	"andes/test/lab/gateway"
	"andes/test/lab/retail"
	"andes/test/lab/wms"
	"andes/test/lab/world"
)

// runDemo replays a generated day against the fake platform.
func runDemo(t *testing.T, f faults) (*demo, int, string) {
	t.Helper()
	set, err := retail.Find("", 1)
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := set.Derive(retail.CatalogueConfig{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	cfg := world.Config{
		WMS:     &wms.Knobs{DispatchDelayMs: 100, DeliveryDelayMs: 10},
		Payment: &gateway.Knobs{DecideDelayMs: 20},
	}
	cfg.Products, cfg.Prices, cfg.Stock = rowsOf(catalogue, time.Now())
	w, err := world.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	andes := newFakeAndes(t, w, f)
	defer andes.close()
	if err := w.Payment.Turn(func(k *gateway.Knobs) { k.WebhookURL = andes.server.URL + gatewayWebhookPath }); err != nil {
		t.Fatal(err)
	}
	c := &demoCmd{
		addresses: addresses{ERP: w.URLs.ERP, WMS: w.URLs.WMS, OMS: w.URLs.OMS, Payment: w.URLs.Payment, Receiver: w.URLs.Receiver},
		product:   product{HTTPAddr: strings.TrimPrefix(andes.server.URL, "http://")},
		dataFlags: dataFlags{Seed: 1},
		Partner:   "demo", Day: retail.DefaultDay, Days: 1, Speed: 40_000, Concurrency: 16, Settle: 20 * time.Second,
		patience: 2 * time.Second,
	}
	d, err := c.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.replay(t.Context())
	d.settle(t.Context())
	d.check(t.Context())
	var out strings.Builder
	broken := d.report(&out)
	t.Log(out.String())
	return d, broken, out.String()
}

func TestADayAgainstAPlatformThatKeepsItsPromises(t *testing.T) {
	d, broken, out := runDemo(t, faults{})
	if broken != 0 {
		t.Errorf("%d broken", broken)
	}
	states := map[string]int{}
	for _, o := range d.journal.accepted() {
		states[o.status+" "+o.reason]++
	}
	if states["DELIVERED "] < 80 || states["CANCELLED PAYMENT_REJECTED"] == 0 || states["CANCELLED CANCELLED_BY_PARTNER"] == 0 {
		t.Errorf("orders by state: %v", states)
	}
	for _, text := range []string{"INSUFFICIENT_STOCK", "ORDER_INVALID", "freshness of stock", "legacy calls"} {
		if !strings.Contains(out, text) {
			t.Errorf("the report does not show %q", text)
		}
	}
}

func TestABrokenPromiseIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		faults faults
		told   string
	}{
		"charged twice":    {faults{chargeTwice: true}, "was charged 2 times"},
		"registered twice": {faults{registerTwice: true}, "is registered 2 times"},
		"order lost":       {faults{forget: true}, "was acknowledged and is not found"},
		"wrong signature":  {faults{wrongSecret: true}, "is not verified"},
		"server error":     {faults{crash: true}, "500"},
		"odd accepted":     {faults{acceptOdd: true}, "was accepted with a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, broken, out := runDemo(t, c.faults); broken == 0 || !strings.Contains(out, c.told) {
				t.Errorf("%d broken, none says %q", broken, c.told)
			}
		})
	}
}

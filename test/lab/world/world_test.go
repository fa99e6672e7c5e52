package world_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"andes/test/lab/feed"
	"andes/test/lab/gateway"
	"andes/test/lab/receiver"
	"andes/test/lab/wms"
	"andes/test/lab/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func send(t *testing.T, url, body string, headers ...string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		t.Fatalf("%s: status %d", url, resp.StatusCode)
	}
}

const patience = time.Minute

// eventually polls a condition that another process's clock makes true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func TestOverTheNetworkAnOrderIsShippedAndAChargeIsTold(t *testing.T) {
	w, err := world.Start(t.Context(), world.Config{
		WMS:      &wms.Knobs{DispatchDelayMs: 1, DeliveryDelayMs: 1},
		Payment:  &gateway.Knobs{WebhookSecret: secret},
		Receiver: receiver.Knobs{Secret: secret},
		Stock:    []feed.Row[wms.Level]{wms.LevelRow(wms.Level{SKU: "A", OnHand: 3}, time.Now())},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Payment.Turn(func(k *gateway.Knobs) { k.WebhookURL = w.URLs.Receiver + "/webhooks" }); err != nil {
		t.Fatal(err)
	}
	send(t, w.URLs.OMS+"/orders", `{"ref":"o","currency":"GBP","total":"2.00","lines":[{"sku":"A","quantity":2,"unitPrice":"1.00"}]}`)
	send(t, w.URLs.Payment+"/charges", `{"orderId":"o","amount":"2.00","currency":"GBP","token":"tok"}`, "Idempotency-Key", "charge:o")
	eventually(t, "the order is delivered", func() bool {
		snap := w.WMS.Snapshot()
		return len(snap.Picks) == 1 && snap.Picks[0].Status == wms.Delivered
	})
	if n, _ := w.WMS.OnHand("A"); n != 1 {
		t.Fatalf("on hand %d", n)
	}
	eventually(t, "the charge is told", func() bool { return w.Receiver.Counters().ByType["charge.approved"] == 1 })
}

func TestASnapshotSurvivesJSON(t *testing.T) {
	first, err := world.Start(t.Context(), world.Config{
		Stock: []feed.Row[wms.Level]{wms.LevelRow(wms.Level{SKU: "BANK CHARGES", OnHand: 3}, time.Now())},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.WMS.SetStock("BANK CHARGES", 8); err != nil {
		t.Fatal(err)
	}
	send(t, first.URLs.Payment+"/charges", `{"orderId":"o","amount":"2.00","currency":"GBP","token":"tok_pending"}`, "Idempotency-Key", "k")
	first.Close()
	text, err := json.Marshal(first.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	var snap world.Snapshot
	if err := json.Unmarshal(text, &snap); err != nil {
		t.Fatal(err)
	}
	second, err := world.Start(t.Context(), world.Config{Snapshot: &snap})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	sums, charged := second.Payment.Order("o")
	if n, ok := second.WMS.OnHand("BANK CHARGES"); !ok || n != 8 || !charged || sums.Charges != 1 {
		t.Fatalf("on hand %d, sums %+v", n, sums)
	}
}

func TestATakenAddressIsAnErrorAndLeavesNothingRunning(t *testing.T) {
	first, err := world.Start(t.Context(), world.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	taken := first.URLs.OMS[len("http://"):]
	if w, err := world.Start(t.Context(), world.Config{Addrs: world.Addrs{OMS: taken}}); err == nil {
		w.Close()
		t.Fatal("started twice on one address")
	}
}

func TestTheEndOfTheContextStopsEverything(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w, err := world.Start(ctx, world.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	w.Close()
}

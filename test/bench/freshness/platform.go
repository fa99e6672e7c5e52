package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"andes/commands/partner"
	"andes/eventstore"
	"andes/test/bench/andes"
	"andes/test/bench/seed"
	"andes/test/lab/feed"
	"andes/test/lab/wms"
)

const (
	readyWait  = 60 * time.Second
	readyPause = 100 * time.Millisecond
	maxAnswer  = 1 << 16
)

// platform is a running `andes serve` and the warehouse that it reads.
type platform struct {
	installation *andes.Installation
	edge         *andes.Server
	client       *http.Client
	token        string
	warehouse    *wms.Sim
	server       *httptest.Server

	mu    sync.Mutex
	asked []time.Time // when polls of the levels arrived, the last few
}

const maxAsked = 100

func skuName(i int) string { return fmt.Sprintf("SKU-%05d", i) }

// start gives what it started even when it fails.
func start(ctx context.Context, o options, interval time.Duration, push bool) (*platform, error) {
	p := &platform{client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}}
	if err := p.openWarehouse(o.skus); err != nil {
		return p, err
	}
	var err error
	if p.installation, err = andes.Install(ctx, "freshness", "", "ANDES_QUOTA=off", "ANDES_KAFKA_PARTITIONS=3",
		"ANDES_WMS_FEED_SECRET="+andes.Secret, "ANDES_WMS_URL="+p.server.URL, "ANDES_WMS_POLL="+interval.String()); err != nil {
		return p, err
	}
	if err := setUp(ctx, p.installation.Name); err != nil {
		return p, err
	}
	if p.edge, err = p.installation.Serve(ctx, "query,command,relay,projector,wms"); err != nil {
		return p, err
	}
	if err := p.ready(ctx); err != nil {
		return p, err
	}
	if push {
		err = p.warehouse.Turn(func(k *wms.Knobs) { k.PushURL, k.PushSecret = p.edge.URL()+"/v1/feeds/wms/changes", andes.Secret })
	}
	return p, err
}

// openWarehouse serves a warehouse and remembers when its levels are asked for.
func (p *platform) openWarehouse(skus int) error {
	rows := make([]feed.Row[wms.Level], skus)
	for i := range rows {
		rows[i] = wms.LevelRow(wms.Level{SKU: skuName(i), OnHand: 1}, time.Now().Add(-time.Hour))
	}
	warehouse, err := wms.New(wms.Config{Stock: rows})
	if err != nil {
		return err
	}
	p.warehouse = warehouse
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stock" {
			p.mu.Lock()
			p.asked = append(p.asked[max(0, len(p.asked)-maxAsked):], time.Now())
			p.mu.Unlock()
		}
		warehouse.Handler().ServeHTTP(w, r)
	}))
	return nil
}

// askedAfter is when the first poll after a moment arrived; that moment, if none did.
func (p *platform) askedAfter(moment time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.asked {
		if at.After(moment) {
			return at
		}
	}
	return moment
}

func setUp(ctx context.Context, schema string) error {
	return seed.With(ctx, schema, func(ctx context.Context, executor eventstore.Executor) error {
		_, err := executor.Execute(ctx, eventstore.Request{Command: partner.Configure{Partner: partner.State{
			ID: "bench", Name: "Bench", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"},
		}}})
		return err
	})
}

// ready waits until the last SKU of the warehouse is answered.
func (p *platform) ready(ctx context.Context) error {
	last := errors.New("it was not asked")
	for deadline := time.Now().Add(readyWait); time.Now().Before(deadline) && ctx.Err() == nil; pause(ctx, readyPause) {
		if p.token == "" {
			p.token, last = p.edge.Token(ctx, "bench")
			continue
		}
		var got int64
		if got, last = p.available(ctx, skuName(p.warehouse.Table().Len()-1)); last == nil && got == 1 {
			return nil
		}
	}
	return fmt.Errorf("the platform did not become ready: %w", errors.Join(last, ctx.Err()))
}

// available asks the API; -1 is a SKU that it does not know.
func (p *platform) available(ctx context.Context, sku string) (int64, error) {
	var answer struct {
		Items []struct{ Available int64 }
	}
	if err := p.ask(ctx, http.MethodGet, "/v1/stock?sku="+sku, nil, &answer); err != nil {
		return 0, err
	}
	if len(answer.Items) == 0 {
		return -1, nil
	}
	return answer.Items[0].Available, nil
}

func (p *platform) ask(ctx context.Context, method, target string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, p.edge.URL()+target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s %s", method, target, response.Status, text)
	}
	return json.Unmarshal(text, into)
}

func (p *platform) stop() {
	if p.edge != nil {
		p.edge.Stop()
	}
	if p.server != nil {
		p.server.Close()
		p.warehouse.Close()
	}
	if p.installation != nil {
		p.installation.Remove()
	}
}

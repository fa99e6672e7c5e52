package reads

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"andes/test/lab/erp"
	"andes/test/lab/feed"
	"andes/test/lab/sim"
	"andes/test/lab/wms"
)

// call is one call of a legacy system.
type call struct {
	at    time.Time
	route string // the first part of its path
}

// maxCalls bounds what a door remembers.
const maxCalls = 2_000_000

// door is where a legacy system is called: whoever comes is counted, whatever becomes of the call.
type door struct {
	URL    string
	server *http.Server
	served chan struct{}

	mu    sync.Mutex
	calls []call
}

const headerTimeout = 10 * time.Second

func openDoor(ctx context.Context, system http.Handler) (*door, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{URL: "http://" + listener.Addr().String(), served: make(chan struct{})}
	d.server = &http.Server{ReadHeaderTimeout: headerTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.note(r)
		system.ServeHTTP(w, r)
	})}
	go func() {
		defer close(d.served)
		_ = d.server.Serve(listener) // until close
	}()
	return d, nil
}

func (d *door) note(r *http.Request) {
	route, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) < maxCalls {
		d.calls = append(d.calls, call{time.Now(), route})
	}
}

// since gives the calls from a moment on.
func (d *door) since(moment time.Time) []call {
	d.mu.Lock()
	defer d.mu.Unlock()
	var later []call
	for _, c := range d.calls {
		if !c.at.Before(moment) {
			later = append(later, c)
		}
	}
	return later
}

func (d *door) close() {
	_ = d.server.Close() // whoever waits for an answer is cut off
	<-d.served
}

// The simulated ERP and WMS when they are well. The ERP has ten workers that take 150 ms for a call, so it
// does 67 calls a second, and when a call takes 3 s it does 3.3: the load does not matter to how much it can do.
const (
	erpWorkers   = 10
	capacity     = 67.0 // calls/s of the WMS
	slowMs       = 3000
	erpLatencyMs = 100
	erpJitterMs  = 100
	wmsLatencyMs = 70
	wmsJitterMs  = 60
)

func erpFaults(latencyMs, jitterMs int) sim.Faults {
	const second = 1000
	return sim.Faults{
		LatencyMs: latencyMs, JitterMs: jitterMs,
		CapacityPerSecond: erpWorkers * second / (float64(latencyMs) + float64(jitterMs)/2),
	}
}

func wmsFaults() sim.Faults {
	return sim.Faults{LatencyMs: wmsLatencyMs, JitterMs: wmsJitterMs, CapacityPerSecond: capacity}
}

// legacy is what stands behind both sides. Each side has its own, so that neither feels the other.
type legacy interface {
	doors() map[string]*door // by system
	// The conditions of the scenarios.
	well() error
	slow() error // the ERP takes 3 s for a call
	down() error // no system answers
	// change sets a level and a price, as somebody does who works there.
	change(sku string, onHand int64, amount string) error
	close()
}

// simulators are an ERP and a WMS of test/lab.
type simulators struct {
	erp     *erp.Sim
	wms     *wms.Sim
	entries map[string]*door
}

func openSimulators(ctx context.Context, c catalogue) (*simulators, error) {
	s := &simulators{entries: map[string]*door{}}
	// Versions rise from one run to the next.
	now := time.Now()
	erpConfig := erp.Config{Seed: seed, BaseVersion: now.UnixMilli(), Knobs: erp.Knobs{Faults: erpFaults(erpLatencyMs, erpJitterMs)}}
	knobs := wms.DefaultKnobs()
	knobs.Faults = wmsFaults()
	wmsConfig := wms.Config{Seed: seed, BaseVersion: now.UnixMilli(), Knobs: &knobs}
	for _, item := range c.items {
		erpConfig.Products = append(erpConfig.Products, erp.ProductRow(erp.Product{SKU: item.sku, Name: "Product " + item.sku, Segment: "gift"}, now))
		erpConfig.Prices = append(erpConfig.Prices, erp.PriceRow(erp.Price{PriceList: priceList, SKU: item.sku, Amount: item.amount, Currency: currency}, now))
		wmsConfig.Stock = append(wmsConfig.Stock, wms.LevelRow(wms.Level{SKU: item.sku, OnHand: item.onHand}, now))
	}
	return s, s.open(ctx, erpConfig, wmsConfig)
}

const seed = 1

func (s *simulators) open(ctx context.Context, erpConfig erp.Config, wmsConfig wms.Config) (err error) {
	if s.erp, err = erp.New(erpConfig); err != nil {
		return err
	}
	if s.wms, err = wms.New(wmsConfig); err != nil {
		return err
	}
	for name, handler := range map[string]http.Handler{"erp": s.erp.Handler(), "wms": s.wms.Handler()} {
		entry, err := openDoor(ctx, handler)
		if err != nil {
			return fmt.Errorf("%s simulator: %w", name, err)
		}
		s.entries[name] = entry
	}
	return nil
}

func (s *simulators) doors() map[string]*door { return s.entries }

func (s *simulators) turn(ofERP, ofWMS sim.Faults) error {
	return errors.Join(
		s.erp.Turn(func(k *erp.Knobs) { k.Faults = ofERP }),
		s.wms.Turn(func(k *wms.Knobs) { k.Faults = ofWMS }))
}

func (s *simulators) well() error { return s.turn(erpFaults(erpLatencyMs, erpJitterMs), wmsFaults()) }
func (s *simulators) slow() error { return s.turn(erpFaults(slowMs, 0), wmsFaults()) }
func (s *simulators) down() error {
	return s.turn(sim.Faults{Outage: true}, sim.Faults{Outage: true})
}

// tellTo has them tell Andes of changes by themselves, beside being polled.
func (s *simulators) tellTo(andes string) error {
	push := func(system string) feed.Push {
		return feed.Push{PushURL: andes + "/v1/feeds/" + system + "/changes", PushSecret: labSecret}
	}
	return errors.Join(
		s.erp.Turn(func(k *erp.Knobs) { k.Push = push("erp") }),
		s.wms.Turn(func(k *wms.Knobs) { k.Push = push("wms") }))
}

func (s *simulators) change(sku string, onHand int64, amount string) error {
	_, errStock := s.wms.SetStock(sku, onHand)
	_, errPrice := s.erp.SetPrice(erp.Price{PriceList: priceList, SKU: sku, Amount: amount, Currency: currency})
	return errors.Join(errStock, errPrice)
}

func (s *simulators) close() {
	for _, entry := range s.entries {
		entry.close()
	}
	if s.erp != nil {
		s.erp.Close()
	}
	if s.wms != nil {
		s.wms.Close()
	}
}

// catalogue is what is read, and what the right answer is.
type catalogue struct {
	items  []item
	stock  map[string]int64
	prices map[string]string
}

type item struct {
	sku    string
	onHand int64
	amount string
}

const (
	priceList = "retail"
	currency  = "GBP"
)

func newCatalogue(items []item) catalogue {
	c := catalogue{items: items, stock: map[string]int64{}, prices: map[string]string{}}
	for _, item := range items {
		c.stock[item.sku], c.prices[item.sku] = item.onHand, item.amount
	}
	return c
}

// madeUp is a catalogue of so many SKUs.
func madeUp(skus int) catalogue {
	items := make([]item, skus)
	for i := range items {
		items[i] = item{
			sku: fmt.Sprintf("SKU-%05d", i), onHand: int64(10 + 7*i%990), amount: fmt.Sprintf("%d.%02d", 1+i%97, 13*i%100),
		}
	}
	return newCatalogue(items)
}

// pick gives the SKUs of the nth read: another part of the catalogue each time, the same in each run.
func (c catalogue) pick(n uint64, skus int) []string {
	const scatter = 2654435761 // Knuth's multiplicative hash
	first := int(n * scatter % uint64(len(c.items)))
	names := make([]string, skus)
	for i := range names {
		names[i] = c.items[(first+i)%len(c.items)].sku
	}
	return names
}

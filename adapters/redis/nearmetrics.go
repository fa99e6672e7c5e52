package redis

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"andes/projections"
)

// nearCounts is what happened to what is kept at hand.
type nearCounts struct{ found, asked, evicted atomic.Int64 }

// looked counts values that were looked for one by one. Answers that are at hand as a whole are counted by who gives them.
func (n *nearCounts) looked(found, asked int) {
	n.found.Add(int64(found))
	n.asked.Add(int64(asked))
}

// nearMetrics tells of what a client keeps at hand, when it is asked.
type nearMetrics struct {
	client                  *Client
	bytes, entries          *prometheus.Desc
	limit, values, evicting *prometheus.Desc
}

var _ prometheus.Collector = (*nearMetrics)(nil)

// Measure registers the metrics of what this process keeps at hand of the read model.
func (c *Client) Measure(registerer prometheus.Registerer) error {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("andes_near_"+name, help, labels, nil)
	}
	return registerer.Register(&nearMetrics{
		client:  c,
		bytes:   describe("bytes", "Memory, about, of what this process keeps at hand of each read model.", "model"),
		entries: describe("entries", "Entries that this process keeps at hand of each read model.", "model"),
		limit:   describe("limit_bytes", "Memory that they may take together."),
		values: describe("values_total", "Values that were looked for: found at hand, or asked of Redis. Answers that are at hand as a whole "+
			"are not in it: andes_query_copy_reads_total counts them.", "outcome"),
		evicting: describe("evicted_total", "Entries that had to make room for others."),
	})
}

// Describe implements prometheus.Collector.
func (m *nearMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, each := range []*prometheus.Desc{m.bytes, m.entries, m.limit, m.values, m.evicting} {
		to <- each
	}
}

// Collect implements prometheus.Collector.
func (m *nearMetrics) Collect(to chan<- prometheus.Metric) {
	n := m.client.atHand()
	if n == nil { // not connected: nothing is at hand
		n = newNear(m.client.config.Prefix, m.client.config.NearBytes)
	}
	gauge := func(of *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, float64(value), labels...)
	}
	counter := func(of *prometheus.Desc, value *atomic.Int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(of, prometheus.CounterValue, float64(value.Load()), labels...)
	}
	for model, holds := range n.holds() {
		gauge(m.bytes, holds.bytes, model)
		gauge(m.entries, holds.entries, model)
	}
	gauge(m.limit, n.most)
	counter(m.values, &n.counts.found, "found")
	counter(m.values, &n.counts.asked, "asked")
	counter(m.evicting, &n.counts.evicted)
}

// holding is how much is at hand of a read model.
type holding struct{ entries, bytes int }

func (s *shelf[V]) holds() holding { return holding{len(s.kept), s.bytes} }

// holds gives it by read model.
func (n *near) holds() map[string]holding {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return map[string]holding{
		projections.Stocks.Name: n.stocks.holds(), projections.Prices.Name: n.prices.holds(),
		projections.Products.Name: n.products.holds(), projections.Sources.Name: n.sources.holds(),
	}
}

package redis_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"andes/adapters/redis"
	"andes/projections"
	"andes/test/redistest"
)

// measured is what a client tells of what it keeps at hand, by name and label.
func measured(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, each := range family.GetMetric() {
			name := family.GetName()
			for _, label := range each.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = each.GetGauge().GetValue() + each.GetCounter().GetValue()
		}
	}
	return values
}

func TestWhatIsAtHandIsMeasured(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	config.NearBytes = 4000 // some entries
	client, registry := redistest.Open(t, config), prometheus.NewRegistry()
	if err := client.Measure(registry); err != nil {
		t.Fatal(err)
	}
	s := &shop{t, config, redis.NewReader(client), newModel(t, redistest.Open(t, config), redis.ReadModelConfig{})}
	s.open("A")
	got := measured(t, registry)
	if got["andes_near_entries stock"] != 1 || got["andes_near_entries source"] != 1 || got["andes_near_entries price"] != 0 || got["andes_near_limit_bytes"] != 4000 {
		t.Errorf("with a SKU and a watermark: %v", got)
	}
	if got["andes_near_bytes stock"] <= 0 || got["andes_near_values_total asked"] < 2 || got["andes_near_evicted_total"] != 0 {
		t.Errorf("with a SKU and a watermark: %v", got)
	}
	found := got["andes_near_values_total found"]
	if _, err := s.reader.Stock(t.Context(), []string{"A"}); err != nil {
		t.Fatal(err)
	}
	if got = measured(t, registry); got["andes_near_values_total found"] != found+1 {
		t.Errorf("a value that is at hand: %v", got)
	}
	const many = 40
	var entries []projections.Entry
	var skus []string
	for n := range many {
		skus = append(skus, fmt.Sprintf("SKU-%02d", n))
		entries = append(entries, stockEntry(skus[n], 1, 1))
	}
	apply(t, s.model, entries...)
	full := redistest.Eventually(patience, func() bool { // what is invalidated while it is read is not kept
		if _, err := s.reader.Stock(t.Context(), skus); err != nil {
			return false
		}
		got = measured(t, registry)
		return got["andes_near_evicted_total"] > 0
	})
	if total := got["andes_near_bytes stock"] + got["andes_near_bytes source"]; !full || total > 4000 || got["andes_near_entries stock"] >= many {
		t.Errorf("more than fits: %v", got)
	}
}

func TestWhatIsAtHandIsMeasuredBeforeRedisIsThere(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	config.Addrs, config.Background = []string{"127.0.0.1:1"}, true
	client, err := redis.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	registry := prometheus.NewRegistry()
	if err := client.Measure(registry); err != nil {
		t.Fatal(err)
	}
	if got := measured(t, registry); got["andes_near_entries stock"] != 0 || got["andes_near_limit_bytes"] <= 0 {
		t.Errorf("%v", got)
	}
}

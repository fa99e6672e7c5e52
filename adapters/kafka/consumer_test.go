package kafka

import (
	"context"
	"strings"
	"testing"
	"time"

	"andes/eventstore"
)

func TestConsumeReportsEveryFaultOfItsConfiguration(t *testing.T) {
	handle := func(context.Context, eventstore.Record) error { return nil }
	err := Consume(t.Context(), ConsumeConfig{},
		Consumer{Name: "saga", Topics: []string{"a"}, Handle: handle},
		Consumer{Name: "saga", Topics: []string{"b"}, Handle: handle},
		Consumer{Name: "empty"},
		Consumer{Name: "tiers", Topics: []string{"c"}, Handle: handle, Policy: Policy{Tiers: []time.Duration{time.Minute, time.Minute}}},
		Consumer{Name: "for", Topics: []string{"c"}, Handle: handle, Policy: Policy{RetryFor: time.Hour}},
	)
	if err == nil {
		t.Fatal("a faulty configuration runs")
	}
	for _, word := range []string{"no brokers", "no registry", `"saga" is given twice`, `"empty"`, `"tiers": the tier 1m0s is given twice`, `"for": there is no tier`} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("no word of %s in:\n%v", word, err)
		}
	}
}

func TestRelayAndFeedAndLanesRefuseAnEmptyConfiguration(t *testing.T) {
	if _, err := NewRelay(RelayConfig{}); err == nil {
		t.Error("a relay without brokers, registry and log")
	}
	if err := (StateFeed{}).Run(t.Context(), nil); err == nil {
		t.Error("a state feed without brokers, group and topics")
	}
	if _, err := NewLanes(LaneConfig{}); err == nil {
		t.Error("lanes without brokers and group")
	}
	if err := (Cluster{Brokers: []string{"x:1"}, SASL: &SASL{}}).validate(); err == nil {
		t.Error("a password in clear text")
	}
}

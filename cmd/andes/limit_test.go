package main

import (
	"strings"
	"testing"
)

func TestALimitMeansTheSameEverywhere(t *testing.T) {
	for _, command := range []string{"dlq list", "dlq export oms", "dlq replay oms --all", "dlq discard oms --all --reason=r", "events cat", "events grep x", "audit"} {
		for value, fine := range map[string]bool{"-1": false, "x": false, "1.5": false, "0": true, "7": true} {
			var line cli
			_, err := newParser(&line).Parse(append(strings.Fields(command), "--limit="+value))
			if (err == nil) != fine {
				t.Errorf("%s --limit=%s: %v", command, value, err)
			}
		}
	}
	if limit(0).reached(1_000_000) || !limit(3).reached(3) || limit(3).reached(2) || limit(0).next(900, 500) != 500 || limit(600).next(500, 500) != 100 {
		t.Error("a limit of 0 is none")
	}
}

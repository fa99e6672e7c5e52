package rebuild_test

import (
	"fmt"
	"strings"
	"testing"

	"andes/commands/product"
	"andes/eventstore"
	"andes/rebuild"
)

// Field case PROJ-04: values of 100 KB between small ones, from every source.
func TestLargeValuesBetweenSmallOnesAreRebuilt(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(60)
	attributes := map[string]string{}
	for i := range 100 {
		attributes[fmt.Sprint("attribute-", i)] = strings.Repeat("x", 1000)
	}
	var large []eventstore.Command
	for i := 0; i < 60; i += 5 {
		large = append(large, product.Report{SKU: sku(i), Name: "Heavy", Segment: "home", Attributes: attributes, SourceVersion: 2, At: at})
	}
	w.execute(large...)
	w.publish(w.set.Categories()...)
	for _, source := range []string{rebuild.FromTopics, rebuild.FromStates, rebuild.FromEvents} {
		if run := w.rebuild(rebuild.Request{Source: source}); run.Mended > 0 {
			t.Errorf("from %s: %d keys had to be mended", source, run.Mended)
		}
		w.expectSame()
	}
}

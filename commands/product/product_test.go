package product_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andes/commands/product"
	"andes/commands/sku"
	"andes/eventstore"
	"andes/test/memtest"
)

func TestProductsThatBreakTheLimitsAreRefused(t *testing.T) {
	many := map[string]string{}
	for i := range 101 {
		many[fmt.Sprint(i)] = "x"
	}
	for name, c := range map[string]struct {
		report product.Report
		code   eventstore.Code
	}{
		"no SKU":                  {product.Report{SourceVersion: 1}, sku.CodeInvalid},
		"a long name":             {product.Report{SKU: "A", Name: strings.Repeat("n", 501), SourceVersion: 1}, product.CodeInvalid},
		"many attributes":         {product.Report{SKU: "A", Attributes: many, SourceVersion: 1}, product.CodeInvalid},
		"a long attribute":        {product.Report{SKU: "A", Attributes: map[string]string{"a": strings.Repeat("v", 2001)}, SourceVersion: 1}, product.CodeInvalid},
		"a long attribute's name": {product.Report{SKU: "A", Attributes: map[string]string{strings.Repeat("k", 2001): "v"}, SourceVersion: 1}, product.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			memtest.Open(t).Refused(t, c.report, c.code)
		})
	}
}

func TestADescriptionReplacesTheOneBefore(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, product.Report{SKU: "A", Name: "old", Segment: "toys", Attributes: map[string]string{"colour": "red"}, SourceVersion: 1})
	s.Do(t, product.Report{SKU: "A", Name: "new", SourceVersion: 2})
	got, version := memtest.State(t, s, product.Aggregate, "A")
	if got.Name != "new" || got.Segment != "" || got.Attributes != nil || version != 2 {
		t.Errorf("%+v at %d", got, version)
	}
}

func TestInWhateverOrderDescriptionsComeTheNewestStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := make([]product.Report, rapid.IntRange(1, 6).Draw(t, "versions"))
		for i := range history {
			history[i] = product.Report{
				SKU: "A", Name: fmt.Sprint("name ", i), SourceVersion: int64(i + 1), Removed: rapid.Bool().Draw(t, "removed"),
			}
		}
		newest := history[len(history)-1]
		told := append(rapid.SliceOf(rapid.SampledFrom(history)).Draw(t, "repeated"), newest)
		s := memtest.Open(t)
		for _, r := range rapid.Permutation(told).Draw(t, "order") {
			s.Do(t, r)
		}
		got, _ := memtest.State(t, s, product.Aggregate, "A")
		if got.Removed != newest.Removed || !got.Removed && got.Name != newest.Name || got.SourceVersion != newest.SourceVersion {
			t.Fatalf("state %+v, the newest is %+v", got, newest)
		}
	})
}

package product_test

import (
	"testing"
	"time"

	"andes/commands/product"
	"andes/test/memtest"
)

func TestAProductGoesBackWhenTwoComparisonsFindThat(t *testing.T) {
	s := memtest.Open(t)
	compared := func(minutes int, r product.Report) product.State {
		t.Helper()
		r.SKU, r.At = "A", memtest.Start
		if minutes > 0 {
			r.Compared = memtest.Start.Add(time.Duration(minutes) * time.Minute)
			s.Now = r.Compared.Add(time.Minute)
		}
		s.Do(t, r)
		state, _ := memtest.State(t, s, product.Aggregate, "A")
		return state
	}
	compared(0, product.Report{Name: "late", SourceVersion: 70})
	if got := compared(10, product.Report{Name: "early", SourceVersion: 7}); got.Name != "late" || got.Doubt.At.IsZero() {
		t.Errorf("after one comparison: %+v", got)
	}
	if got := compared(0, product.Report{Name: "early", SourceVersion: 7}); got.Name != "late" {
		t.Errorf("after a late answer: %+v", got)
	}
	if got := compared(20, product.Report{Name: "early", SourceVersion: 7}); got.Name != "early" || got.SourceVersion != 7 || !got.Doubt.At.IsZero() {
		t.Errorf("after two comparisons: %+v", got)
	}
	compared(30, product.Report{SourceVersion: 6, Removed: true})
	if got := compared(0, product.Report{SourceVersion: 8, Removed: true}); !got.Removed || !got.Doubt.At.IsZero() {
		t.Errorf("after a removal: %+v", got)
	}
	compared(40, product.Report{Name: "back", SourceVersion: 5})
	if got := compared(50, product.Report{Name: "back", SourceVersion: 5}); got.Removed || got.Name != "back" || got.SourceVersion != 5 {
		t.Errorf("after two that found it again: %+v", got)
	}
	s.CheckFolds(t)
}

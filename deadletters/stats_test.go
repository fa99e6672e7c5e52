package deadletters

import (
	"slices"
	"testing"
)

func TestEqualErrorsOfSeveralOrdersCountAsOne(t *testing.T) {
	first := &Letter{Class: "permanent", EventType: "order.registration_requested", Error: "register order a2e5c452-e403-586a-abf8-25c73aaf6188: status 422"}
	second := &Letter{Class: "permanent", EventType: "order.registration_requested", Error: "register order 25224559-c141-5b26-97dc-22ac9e3b93ba: status 422"}
	other := &Letter{Class: "permanent", EventType: "order.registration_requested", Error: "register order 25224559-c141-5b26-97dc-22ac9e3b93ba: status 400"}
	if errorOf(first) != errorOf(second) || errorOf(first) == errorOf(other) {
		t.Errorf("%+v, %+v, %+v", errorOf(first), errorOf(second), errorOf(other))
	}
}

func TestWhatOnlyWaitsForAnotherLetterIsToldLast(t *testing.T) {
	counts := []ErrorCount{{Class: Behind, Count: 9}, {Class: "permanent", Count: 1}, {Class: "transient", Count: 2}}
	slices.SortStableFunc(counts, behindLast)
	if counts[0].Class == Behind || counts[2].Class != Behind {
		t.Errorf("%+v", counts)
	}
}

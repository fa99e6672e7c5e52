package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"andes/quota"
)

func TestTiersThatAreNotNamedStayAsTheyAre(t *testing.T) {
	const counting = "bronze=20/2,silver=100/10,gold=500/50"
	for named, want := range map[string]string{
		"gold=700/70":                    "bronze=20/2,silver=100/10,gold=700/70",
		"bronze=1/1, silver=2/2":         "gold=500/50,bronze=1/1,silver=2/2",
		"copper=1/1":                     counting + ",copper=1/1", // which is refused where it is set
		"gold=1/1,gold=2/2":              "bronze=20/2,silver=100/10,gold=1/1,gold=2/2",
		"bronze=3/3,silver=3/3,gold=3/3": "bronze=3/3,silver=3/3,gold=3/3",
	} {
		rows, err := items(named)
		if got := withTiers(counting, rows); err != nil || got != want {
			t.Errorf("%q: %q, want %q, %v", named, got, want, err)
		}
	}
}

func TestAnOperatorSetsLimitsInThePlaceOfThoseThatCount(t *testing.T) {
	standing := quota.Standing{Tiers: "bronze=20/2,silver=100/10,gold=500/50"}
	var sent struct{ Tiers, Was, Reason string }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
				t.Error(err)
			}
		}
		if err := json.NewEncoder(w).Encode(standing); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	s := &settings{OpsURL: server.URL, OpsToken: "t"}
	if err := (quotasSetCmd{Tiers: "gold=700/70", Reason: "a promotion"}).Run(t.Context(), s); err != nil || sent.Was != standing.Tiers ||
		sent.Tiers != "bronze=20/2,silver=100/10,gold=700/70" || sent.Reason != "a promotion" {
		t.Errorf("%+v, %v", sent, err)
	}
	if err := (quotasResetCmd{Reason: "it is over"}).Run(t.Context(), s); err != nil || sent.Was != standing.Tiers || sent.Tiers != "" {
		t.Errorf("%+v, %v", sent, err)
	}
	if err := (quotasSetCmd{Tiers: "gold=700/70,", Reason: "r"}).Run(t.Context(), s); err == nil {
		t.Error("a list with an empty item is taken")
	}
	standing, sent.Reason = quota.Standing{Unread: "the database does not answer"}, ""
	if err := (quotasSetCmd{Tiers: "gold=700/70", Reason: "r"}).Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "does not answer") || sent.Reason != "" {
		t.Errorf("%+v, %v", sent, err)
	}
}

func TestLimitsAreToldWithWhereTheyComeFrom(t *testing.T) {
	counting := "bronze=20/2,silver=100/10,gold=500/50"
	for want, standing := range map[string]quota.Standing{
		"limits      " + counting:                                 {Tiers: counting, Configured: counting, Here: counting},
		"changed     by a\ufffdda":                                {Tiers: counting, Configured: counting, Here: counting, ChangedBy: "a\x1bda"},
		"here        bronze=10/1":                                 {Tiers: counting, Configured: counting, Here: "bronze=10/1"},
		"WARNING     what is set can't be read now: the database": {Configured: counting, Here: counting, Unread: "the database does not answer"},
	} {
		var out bytes.Buffer
		if err := (quotasAccess{}).print(&out, standing); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %q, %v", want, out.String(), err)
		}
	}
}

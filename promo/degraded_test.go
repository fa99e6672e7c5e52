package promo

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"andes/eventstore"
)

func TestDegradationsAreReadAsTheyArePrinted(t *testing.T) {
	for text, want := range map[string]Degraded{
		"none":                       {},
		" none ":                     {},
		"cap=5":                      {Cap: 5},
		"quotas=1":                   {Quotas: 1},
		"stale=10m, cap=1000000":     {Stale: Span(MaxStale), Cap: MaxCap},
		"stale=30s,cap=5,quotas=50%": {Stale: Span(30 * time.Second), Cap: 5, Quotas: 50},
		"quotas=99%,stale=1500ms":    {Stale: Span(1500 * time.Millisecond), Quotas: MaxQuotas},
	} {
		got, err := ParseDegraded(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := ParseDegraded(got.String()); err != nil || again != want {
			t.Errorf("%q: %+v, %v", got, again, err)
		}
	}
}

// Whatever is named is on. What would switch something that nobody named, or something else than its words say, is refused.
func TestDegradationsThatWouldSwitchWhatNobodyMeantAreRefused(t *testing.T) {
	for text, pointers := range map[string][]string{
		"":                               {"/degraded"},
		" ":                              {"/degraded"},
		"slow":                           {"/degraded"},
		"=5":                             {"/degraded"},
		"Cap=5":                          {"/degraded"},
		"cap=5,":                         {"/degraded"},
		"cap=5,,quotas=50%":              {"/degraded"},
		"none,cap=5":                     {"/degraded"},
		"cap=5,none":                     {"/degraded"},
		"none=1":                         {"/degraded"},
		"cap":                            {"/degraded/cap"},
		"cap=":                           {"/degraded/cap"},
		"cap=0":                          {"/degraded/cap"},
		"cap=-1":                         {"/degraded/cap"},
		"cap=1000001":                    {"/degraded/cap"},
		"cap=99999999999999999999":       {"/degraded/cap"},
		"cap=5.5":                        {"/degraded/cap"},
		"cap=5;quotas=50":                {"/degraded/cap"},
		"cap=5,cap=5":                    {"/degraded/cap"},
		"cap=5,quotas=50%,cap=9":         {"/degraded/cap"},
		"stale=0s":                       {"/degraded/stale"},
		"stale=-1s":                      {"/degraded/stale"},
		"stale=30":                       {"/degraded/stale"},
		"stale=10m1s":                    {"/degraded/stale"},
		"stale=99999999h":                {"/degraded/stale"},
		"quotas=0%":                      {"/degraded/quotas"},
		"quotas=100%":                    {"/degraded/quotas"},
		"quotas=half":                    {"/degraded/quotas"},
		"quotas=50%%":                    {"/degraded/quotas"},
		"cap=0,speed=1,quotas=0,stale=x": {"/degraded/cap", "/degraded", "/degraded/quotas", "/degraded/stale"},
	} {
		_, err := ParseDegraded(text)
		refusal, is := errors.AsType[*eventstore.Refusal](err)
		if !is || refusal.Code != CodeInvalid {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var at []string
		for _, problem := range refusal.Problems {
			at = append(at, problem.Pointer)
			if problem.Code != CodeInvalid || problem.Detail == "" || strings.Contains(problem.Detail, "strconv") {
				t.Errorf("%q: %+v", text, problem)
			}
		}
		if !slices.Equal(at, pointers) {
			t.Errorf("%q: %+v", text, refusal.Problems)
		}
	}
}

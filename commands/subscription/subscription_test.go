package subscription_test

import (
	"slices"
	"strings"
	"testing"

	"andes/commands/subscription"
	"andes/test/memtest"
)

func create(url string, types ...string) subscription.Create {
	return subscription.Create{ID: "s-1", Partner: "acme", URL: url, Types: types, Secret: "whsec_x"}
}

func TestSubscriptionsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		command subscription.Create
		pointer string
	}{
		"no URL":                   {create("", "*"), "/url"},
		"plain http":               {create("http://partner.example/hook", "*"), "/url"},
		"another scheme":           {create("file:///etc/passwd", "*"), "/url"},
		"a path only":              {create("/hook", "*"), "/url"},
		"no host":                  {create("https:///hook", "*"), "/url"},
		"a user in the URL":        {create("https://user:pw@partner.example/hook", "*"), "/url"},
		"a fragment":               {create("https://partner.example/hook#x", "*"), "/url"},
		"a URL beyond all measure": {create("https://partner.example/"+strings.Repeat("x", 2000), "*"), "/url"},
		"no types":                 {create("https://partner.example/hook"), "/types"},
		"an unknown type":          {create("https://partner.example/hook", "order.placed", "order.eaten"), "/types"},
	} {
		t.Run(name, func(t *testing.T) {
			refusal := memtest.Open(t).Refused(t, c.command, subscription.CodeInvalid)
			if len(refusal.Problems) != 1 || refusal.Problems[0].Pointer != c.pointer {
				t.Errorf("problems %+v", refusal.Problems)
			}
		})
	}
}

func TestASubscriptionWantsWhatItNames(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, create("https://partner.example/hook", "order.placed", "order.cancelled", "order.placed"))
	got, _ := memtest.State(t, s, subscription.Aggregate, "s-1")
	if !slices.Equal(got.Types, []string{"order.cancelled", "order.placed"}) {
		t.Errorf("types %v", got.Types)
	}
	if !got.Wants("order.placed") || got.Wants("order.confirmed") {
		t.Error("it wants the wrong events")
	}
	got.Types = []string{subscription.AllTypes}
	if !got.Wants("order.confirmed") {
		t.Error("a subscription to everything wants everything")
	}
}

func TestARemovedSubscriptionWantsNothingAndHasNoSecret(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, create("https://partner.example/hook", "*"))
	s.Refused(t, subscription.Remove{ID: "s-1", Partner: "other"}, subscription.CodeUnknown)
	s.Refused(t, subscription.Remove{ID: "s-2", Partner: "acme"}, subscription.CodeUnknown)
	s.Do(t, subscription.Remove{ID: "s-1", Partner: "acme", Reason: "410"})
	s.Do(t, subscription.Remove{ID: "s-1", Partner: "acme", Reason: "again"})
	got, version := memtest.State(t, s, subscription.Aggregate, "s-1")
	if got.Wants("order.placed") || got.Secret != "" || version != 2 {
		t.Errorf("%+v at %d", got, version)
	}
}

func TestHTTPIsForDevelopmentOnly(t *testing.T) {
	command := create("http://localhost:9000/hook", "*")
	command.AllowInsecure = true
	memtest.Open(t).Do(t, command)
}

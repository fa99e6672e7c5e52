package partner_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"andes/commands/money"
	"andes/commands/partner"
	"andes/test/memtest"
)

func usd(amount string) money.Money {
	m, err := money.Parse(amount, "USD")
	if err != nil {
		panic(err)
	}
	return m
}

func TestWhatAChannelSeesOfTheStock(t *testing.T) {
	for name, c := range map[string]struct{ net, buffer, limit, want int64 }{
		"all of it":                   {10, 0, 0, 10},
		"less the buffer":             {10, 3, 0, 7},
		"up to the cap":               {10, 0, 4, 4},
		"the buffer counts before":    {10, 3, 8, 7},
		"a buffer larger than stock":  {2, 3, 0, 0},
		"nothing of an oversold SKU":  {-5, 0, 0, 0},
		"nothing of it with a cap":    {-5, 2, 9, 0},
		"the largest allowed buffer":  {-1 << 51, 1 << 50, 0, 0},
		"the largest possible figure": {math.MaxInt64, 0, 0, math.MaxInt64},
	} {
		if got := (partner.Policy{SafetyBuffer: c.buffer, VisibleCap: c.limit}).Available(c.net); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Field case MONEY-05.
func TestTheBestDiscountCountsAndTheyDoNotAddUp(t *testing.T) {
	percent := func(p string) partner.Discount { return partner.Discount{Percent: p} }
	off := func(amount string) partner.Discount { return partner.Discount{Amount: usd(amount)} }
	for name, c := range map[string]struct {
		discounts []partner.Discount
		want      string
	}{
		"none":                             {nil, "19.90"},
		"a percentage":                     {[]partner.Discount{percent("10")}, "17.91"},
		"a percentage with decimals":       {[]partner.Discount{percent("33.333")}, "13.27"},
		"an amount":                        {[]partner.Discount{off("5.00")}, "14.90"},
		"the percentage is better":         {[]partner.Discount{off("1.00"), percent("10")}, "17.91"},
		"the amount is better":             {[]partner.Discount{percent("10"), off("5.00")}, "14.90"},
		"everything off is no price":       {[]partner.Discount{percent("100")}, "19.90"},
		"more off than the price is none":  {[]partner.Discount{off("20.00")}, "19.90"},
		"the next best one counts then":    {[]partner.Discount{off("20.00"), percent("10"), percent("100")}, "17.91"},
		"an amount in another currency":    {[]partner.Discount{{Amount: money.Money{Minor: 100, Currency: "EUR"}}}, "19.90"},
		"for this SKU":                     {[]partner.Discount{{SKU: "A", Percent: "50"}}, "9.95"},
		"for another SKU":                  {[]partner.Discount{{SKU: "B", Percent: "50"}}, "19.90"},
		"for this segment":                 {[]partner.Discount{{Segment: "toys", Percent: "50"}}, "9.95"},
		"for another segment":              {[]partner.Discount{{Segment: "garden", Percent: "50"}}, "19.90"},
		"for the SKU in another segment":   {[]partner.Discount{{SKU: "A", Segment: "garden", Percent: "50"}}, "19.90"},
		"a percentage that is none at all": {[]partner.Discount{percent("x")}, "19.90"},
	} {
		policy := partner.Policy{Discounts: c.discounts}
		if got := policy.Price(usd("19.90"), "A", "toys", memtest.Start); got != usd(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A window is half-open and about instants: the zone in which it was written changes nothing, nor does
// the zone of the machine.
// Field case TIME-01.
func TestAWindowIsTheSameInEveryZone(t *testing.T) {
	santiago := time.FixedZone("-03", -3*60*60)
	kolkata := time.FixedZone("+05:30", 5*60*60+30*60)
	sydney := time.FixedZone("+11", 11*60*60)
	from := time.Date(2026, 11, 27, 0, 0, 0, 0, santiago)
	until := time.Date(2026, 11, 28, 0, 0, 0, 0, santiago)
	for _, zone := range []*time.Location{time.UTC, santiago, kolkata, sydney} {
		policy := partner.Policy{Discounts: []partner.Discount{{Percent: "50", From: from.In(zone), Until: until.In(zone)}}}
		for at, want := range map[string]string{
			"2026-11-27T02:59:59Z":           "10.00",
			"2026-11-27T02:59:59.999999999Z": "10.00",
			"2026-11-27T03:00:00Z":           "5.00",
			"2026-11-28T02:59:59.999999999Z": "5.00",
			"2026-11-28T03:00:00Z":           "10.00",
			"2026-11-28T00:00:00-03:00":      "10.00",
			"2026-11-28T13:59:59+11:00":      "5.00",
		} {
			now, err := time.Parse(time.RFC3339, at)
			if err != nil {
				t.Fatal(err)
			}
			if got := policy.Price(usd("10.00"), "A", "", now.In(zone)); got != usd(want) {
				t.Errorf("window in %s at %s: %s, want %s", zone, at, got, want)
			}
		}
	}
}

func TestAWindowMayBeOpenAtEitherEnd(t *testing.T) {
	at := memtest.Start
	for name, c := range map[string]struct {
		from, until time.Time
		want        string
	}{
		"begun long ago":      {time.Time{}, at.Add(1), "5.00"},
		"ended":               {time.Time{}, at, "10.00"},
		"without end":         {at, time.Time{}, "5.00"},
		"not begun":           {at.Add(1), time.Time{}, "10.00"},
		"turned upside down":  {at.Add(1), at.Add(-1), "10.00"},
		"of no length at all": {at, at, "10.00"},
	} {
		policy := partner.Policy{Discounts: []partner.Discount{{Percent: "50", From: c.from, Until: c.until}}}
		if got := policy.Price(usd("10.00"), "A", "", at); got != usd(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Field case MONEY-07.
func TestAPriceIsAlwaysAboveZeroAndNeverAboveTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := money.Money{Minor: rapid.Int64Range(1, 1_000_000).Draw(t, "list"), Currency: "USD"}
		var policy partner.Policy
		for range rapid.IntRange(0, 4).Draw(t, "discounts") {
			if rapid.Bool().Draw(t, "percent") {
				policy.Discounts = append(policy.Discounts, partner.Discount{Percent: rapid.SampledFrom([]string{"0", "0.5", "33.333", "99.999999", "100"}).Draw(t, "percentage")})
			} else {
				policy.Discounts = append(policy.Discounts, partner.Discount{Amount: money.Money{Minor: rapid.Int64Range(0, 2_000_000).Draw(t, "off"), Currency: "USD"}})
			}
		}
		if got := policy.Price(list, "A", "", memtest.Start); got.Minor < 1 || got.Minor > list.Minor || got.Currency != "USD" {
			t.Fatalf("%s from %s", got, list)
		}
	})
}

func valid() partner.State {
	return partner.State{ID: "acme", Name: "Acme", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "USD"}}
}

func TestEveryFaultOfAConfigurationIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		spoil    func(*partner.State)
		pointers []string
	}{
		"no id":                      {func(s *partner.State) { s.ID = "" }, []string{"/id"}},
		"a long id":                  {func(s *partner.State) { s.ID = strings.Repeat("a", 65) }, []string{"/id"}},
		"a long name":                {func(s *partner.State) { s.Name = strings.Repeat("a", 201) }, []string{"/name"}},
		"an unknown tier":            {func(s *partner.State) { s.Tier = "Gold" }, []string{"/tier"}},
		"no price list":              {func(s *partner.State) { s.Policy.PriceList = "" }, []string{"/policy/priceList"}},
		"a list with a bar":          {func(s *partner.State) { s.Policy.PriceList = "a|b" }, []string{"/policy/priceList"}},
		"an unknown currency":        {func(s *partner.State) { s.Policy.Currency = "usd" }, []string{"/policy/currency"}},
		"a negative buffer":          {func(s *partner.State) { s.Policy.SafetyBuffer = -1 }, []string{"/policy/safetyBuffer"}},
		"a buffer beyond all":        {func(s *partner.State) { s.Policy.SafetyBuffer = math.MaxInt64 }, []string{"/policy/safetyBuffer"}},
		"a negative cap":             {func(s *partner.State) { s.Policy.VisibleCap = -1 }, []string{"/policy/visibleCap"}},
		"neither percent nor amount": {discounted(partner.Discount{SKU: "A"}), []string{"/policy/discounts"}},
		"percent and amount":         {discounted(partner.Discount{Percent: "1", Amount: usd("1.00")}), []string{"/policy/discounts"}},
		"a percentage too large":     {discounted(partner.Discount{Percent: "101"}), []string{"/policy/discounts"}},
		"a negative amount":          {discounted(partner.Discount{Amount: usd("-1.00")}), []string{"/policy/discounts"}},
		"too many discounts":         {discounted(slices.Repeat([]partner.Discount{{Percent: "1"}}, 1001)...), []string{"/policy/discounts"}},
		"all at once": {func(s *partner.State) { *s = partner.State{Policy: partner.Policy{SafetyBuffer: -1}} },
			[]string{"/id", "/tier", "/policy/priceList", "/policy/currency", "/policy/safetyBuffer"}},
	} {
		t.Run(name, func(t *testing.T) {
			configured := valid()
			c.spoil(&configured)
			refusal := memtest.Open(t).Refused(t, partner.Configure{Partner: configured}, partner.CodeInvalid)
			var pointers []string
			for _, problem := range refusal.Problems {
				pointers = append(pointers, problem.Pointer)
			}
			if !slices.Equal(pointers, c.pointers) {
				t.Errorf("pointers %v, want %v", pointers, c.pointers)
			}
		})
	}
}

func discounted(discounts ...partner.Discount) func(*partner.State) {
	return func(s *partner.State) { s.Policy.Discounts = discounts }
}

func TestAPartnerIsReadBackAsItWasConfigured(t *testing.T) {
	s := memtest.Open(t)
	want := valid()
	want.Policy.Discounts = []partner.Discount{{Segment: "toys", Percent: "12.5", From: memtest.Start}, {SKU: "A", Amount: usd("1.00")}}
	s.Do(t, partner.Configure{Partner: valid()})
	s.Do(t, partner.Configure{Partner: want})
	got, _ := memtest.State(t, s, partner.Aggregate, "acme")
	if len(got.Policy.Discounts) != 2 || got.Policy.Discounts[0] != want.Policy.Discounts[0] || got.Policy.Discounts[1] != want.Policy.Discounts[1] {
		t.Errorf("discounts %+v", got.Policy.Discounts)
	}
	if !got.Policy.BySegment() || valid().Policy.BySegment() {
		t.Error("whether the segment matters is wrong")
	}
	s.CheckFolds(t)
}

func TestAPartnersIDSurvivesInAPath(t *testing.T) {
	for id, want := range map[string]bool{
		"acme": true, "a": true, "A-1_b.c": true, "-": true, strings.Repeat("a", 64): true,
		"": false, ".": false, "..": false, ".hidden": false, strings.Repeat("a", 65): false, "a/b": false, "a b": false, "ä": false, "a\n": false,
	} {
		if got := partner.ValidID(id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}

package price_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andes/commands/price"
	"andes/commands/sku"
	"andes/eventstore"
	"andes/test/memtest"
)

func report(amount string, version int64) price.Report {
	return price.Report{List: "retail", SKU: "A", Amount: amount, Currency: "USD", SourceVersion: version, At: memtest.Start}
}

func removal(version int64) price.Report {
	return price.Report{List: "retail", SKU: "A", SourceVersion: version, At: memtest.Start, Removed: true}
}

func current(t memtest.T, s *memtest.Store) price.State {
	state, _ := memtest.State(t, s, price.Aggregate, price.Key("retail", "A"))
	return state
}

func TestOnlyANewerVersionChangesAPrice(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, report("19.90", 7))
	for _, old := range []eventstore.Command{report("1.00", 7), report("1.00", 6), report("1.00", -1), removal(7), removal(3)} {
		s.Do(t, old)
	}
	if got := current(t, s); got.Price.Amount() != "19.90" || got.Removed {
		t.Errorf("price %+v", got)
	}
	s.Do(t, report("20.00", 8))
	if got := s.Events(t, price.Aggregate.Stream("retail|A")); len(got) != 2 {
		t.Errorf("events %v", got)
	}
}

func TestARemovedPriceComesBackOnlyWithANewerVersion(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, report("19.90", 1))
	s.Do(t, removal(3))
	s.Do(t, report("18.00", 2))
	if !current(t, s).Removed {
		t.Error("an older price revived it")
	}
	s.Do(t, removal(5))
	s.Do(t, report("18.00", 4))
	if !current(t, s).Removed {
		t.Error("a price older than the second removal revived it")
	}
	s.Do(t, report("17.00", 6))
	if got := current(t, s); got.Removed || got.Price.Amount() != "17.00" {
		t.Errorf("price %+v", got)
	}
}

// Field case MONEY-07.
func TestPricesThatAreNoneAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		report price.Report
		code   eventstore.Code
	}{
		"zero":                    {report("0", 1), price.CodeNotPositive},
		"zero with decimals":      {report("0.00", 1), price.CodeNotPositive},
		"negative":                {report("-5", 1), price.CodeNotPositive},
		"empty":                   {report("", 1), price.CodeInvalid},
		"too precise":             {report("1.999", 1), price.CodeInvalid},
		"a float":                 {report("1e3", 1), price.CodeInvalid},
		"not a number":            {report("NaN", 1), price.CodeInvalid},
		"beyond all measure":      {report(strings.Repeat("9", 30), 1), price.CodeInvalid},
		"decimals of a peso":      {price.Report{List: "retail", SKU: "A", Amount: "1990.50", Currency: "CLP", SourceVersion: 1}, price.CodeInvalid},
		"an unknown currency":     {price.Report{List: "retail", SKU: "A", Amount: "1", Currency: "XXX", SourceVersion: 1}, price.CodeInvalid},
		"a list without a name":   {price.Report{SKU: "A", Amount: "1", Currency: "USD", SourceVersion: 1}, price.CodeInvalid},
		"a list with a bar":       {price.Report{List: "a|b", SKU: "A", Amount: "1", Currency: "USD", SourceVersion: 1}, price.CodeInvalid},
		"a SKU with a space":      {price.Report{List: "retail", SKU: "A ", Amount: "1", Currency: "USD", SourceVersion: 1}, sku.CodeInvalid},
		"the removal of no SKU":   {price.Report{List: "retail", Removed: true, SourceVersion: 1}, sku.CodeInvalid},
		"a list of 65 characters": {price.Report{List: strings.Repeat("a", 65), SKU: "A", Amount: "1", Currency: "USD", SourceVersion: 1}, price.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			memtest.Open(t).Refused(t, c.report, c.code)
		})
	}
}

func TestPricesKeepTheExponentOfTheirCurrency(t *testing.T) {
	for currency, amount := range map[string]string{"CLP": "1990", "JPY": "1234", "KWD": "1.234", "USD": "19.90"} {
		s := memtest.Open(t)
		s.Do(t, price.Report{List: "retail", SKU: "A", Amount: amount, Currency: currency, SourceVersion: 1})
		if got := current(t, s).Price; got.Amount() != amount || got.Currency != currency {
			t.Errorf("%s %s became %s", amount, currency, got)
		}
	}
}

func TestAKeyIsTakenApartAgain(t *testing.T) {
	for _, sku := range []string{"A", "a|b", "|", "x/y"} {
		if list, got := price.ParseKey(price.Key("retail", sku)); list != "retail" || got != sku {
			t.Errorf("%q became %q and %q", sku, list, got)
		}
	}
}

// A feed may be read twice and out of order.
func TestInWhateverOrderPricesComeTheNewestStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := make([]price.Report, rapid.IntRange(1, 6).Draw(t, "versions"))
		for i := range history {
			history[i] = report([]string{"1.00", "2.00", "3.00"}[i%3], int64(i+1))
			if rapid.Bool().Draw(t, "removed") {
				history[i] = removal(int64(i + 1))
			}
		}
		newest := history[len(history)-1]
		told := append(rapid.SliceOf(rapid.SampledFrom(history)).Draw(t, "repeated"), newest)
		s := memtest.Open(t)
		for _, r := range rapid.Permutation(told).Draw(t, "order") {
			s.Do(t, r)
		}
		got := current(t, s)
		if got.Removed != newest.Removed || !got.Removed && got.Price.Amount() != newest.Amount || got.SourceVersion != newest.SourceVersion {
			t.Fatalf("state %+v, the newest is %+v", got, newest)
		}
		s.CheckFolds(t)
	})
}

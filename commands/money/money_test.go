package money

import (
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestParseKeepsTheCurrencysExponent(t *testing.T) {
	cases := map[string]struct {
		amount, currency, want string
		fault                  error
	}{
		"two decimals":              {"19.90", "USD", "19.90", nil},
		"fewer decimals are padded": {"19.9", "USD", "19.90", nil},
		"no decimals":               {"1990", "CLP", "1990", nil},
		"three decimals":            {"1.234", "KWD", "1.234", nil},
		"below one":                 {"0.05", "GBP", "0.05", nil},
		"negative":                  {"-0.05", "GBP", "-0.05", nil},
		"over-precise":              {"1.999", "USD", "", ErrPrecision},
		"decimals of a yen":         {"1.0", "JPY", "", ErrPrecision},
		"lower-case currency":       {"1", "usd", "", ErrCurrency},
		"exponent":                  {"1e3", "USD", "", ErrAmount},
		"empty":                     {"", "USD", "", ErrAmount},
		"point only":                {".", "USD", "", ErrAmount},
		"trailing point":            {"1.", "USD", "", ErrAmount},
		"plus":                      {"+1", "USD", "", ErrAmount},
		"space":                     {" 1", "USD", "", ErrAmount},
		"other digits":              {"１", "USD", "", ErrAmount},
		"huge":                      {"99999999999999999999", "USD", "", ErrOverflow},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.amount, c.currency)
			if !errors.Is(err, c.fault) {
				t.Fatalf("error %v, want %v", err, c.fault)
			}
			if err == nil && got.Amount() != c.want {
				t.Fatalf("amount %s, want %s", got.Amount(), c.want)
			}
		})
	}
}

func TestPercentagesRoundHalfEven(t *testing.T) {
	cases := []struct{ amount, currency, percent, want string }{
		{"19.90", "USD", "33.333", "13.27"},
		{"0.05", "USD", "50", "0.02"}, // 2.5 -> 2
		{"0.15", "USD", "50", "0.08"}, // 7.5 -> 8
		{"1990", "CLP", "10", "1791"},
		{"1.234", "KWD", "50", "0.617"},
		{"10.00", "USD", "0", "10.00"},
		{"10.00", "USD", "100", "0.00"},
	}
	for _, c := range cases {
		price, err := Parse(c.amount, c.currency)
		if err != nil {
			t.Fatal(err)
		}
		got, err := price.LessPercent(c.percent)
		if err != nil || got.Amount() != c.want {
			t.Errorf("%s less %s%%: %s (%v), want %s", c.amount, c.percent, got.Amount(), err, c.want)
		}
	}
	for _, bad := range []string{"", "-1", "101", "NaN", "Infinity", "1.0000001", "x"} {
		if err := CheckPercent(bad); !errors.Is(err, ErrPercent) {
			t.Errorf("percentage %q: %v", bad, err)
		}
	}
}

func TestMoneySurvivesJSON(t *testing.T) {
	currencies := make([]string, 0, len(exponents))
	for code := range exponents {
		currencies = append(currencies, code)
	}
	rapid.Check(t, func(t *rapid.T) {
		in := Money{
			Minor:    rapid.Int64Range(-999_999_999_999_999, 999_999_999_999_999).Draw(t, "minor"),
			Currency: rapid.SampledFrom(currencies).Draw(t, "currency"),
		}
		data, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var out Money
		if err := json.Unmarshal(data, &out); err != nil || out != in {
			t.Fatalf("%v became %v (%v) by %s", in, out, err, data)
		}
	})
}

func TestArithmeticRefusesOverflowAndMixedCurrencies(t *testing.T) {
	big := Money{Minor: 1 << 62, Currency: "USD"}
	if _, err := big.Times(2); !errors.Is(err, ErrOverflow) {
		t.Error("a product overflowed silently")
	}
	if _, err := big.Plus(big); !errors.Is(err, ErrOverflow) {
		t.Error("a sum overflowed silently")
	}
	if _, err := big.Plus(Money{Minor: 1, Currency: "EUR"}); !errors.Is(err, ErrMixed) {
		t.Error("currencies were mixed")
	}
}

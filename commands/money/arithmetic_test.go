package money_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andes/commands/money"
)

// An order whose total could be written but not read would never be decided again.
func TestWhatArithmeticGivesCanBeReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) money.Money {
			return money.Money{
				Minor:    rapid.Int64Range(-999_999_999_999_999_999, 999_999_999_999_999_999).Draw(t, label),
				Currency: rapid.SampledFrom([]string{"USD", "CLP", "KWD", "CLF"}).Draw(t, "currency of "+label),
			}
		}
		a, b, quantity := draw("a"), draw("b"), rapid.Int64().Draw(t, "quantity")
		product, err := a.Times(quantity)
		exact := new(big.Int).Mul(big.NewInt(a.Minor), big.NewInt(quantity))
		check(t, product, err, exact)
		sum, err := a.Plus(b)
		if a.Currency != b.Currency {
			if !errors.Is(err, money.ErrMixed) {
				t.Fatalf("%s + %s = %s", a, b, sum)
			}
			return
		}
		check(t, sum, err, new(big.Int).Add(big.NewInt(a.Minor), big.NewInt(b.Minor)))
	})
}

func check(t *rapid.T, got money.Money, err error, exact *big.Int) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, money.ErrOverflow) || new(big.Int).Abs(exact).Cmp(big.NewInt(999_999_999_999_999_999)) <= 0 {
			t.Fatalf("%s: %v", exact, err)
		}
		return
	}
	if exact.Cmp(big.NewInt(got.Minor)) != 0 {
		t.Fatalf("%s instead of %s", got, exact)
	}
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var back money.Money
	if err := json.Unmarshal(data, &back); err != nil || back != got {
		t.Fatalf("%s was read as %v (%v)", data, back, err)
	}
}

func TestSmallAmountsAddUpExactly(t *testing.T) {
	cent, err := money.Parse("0.01", "USD")
	if err != nil {
		t.Fatal(err)
	}
	var total money.Money
	for range 1000 {
		if total, err = total.Plus(cent); err != nil {
			t.Fatal(err)
		}
	}
	if total.Amount() != "10.00" {
		t.Errorf("total %s", total)
	}
}

func TestAPercentageOfAnySizeIsReadOrRefusedAtOnce(t *testing.T) {
	for _, text := range []string{"1e2", "1E-6", "0.000001", "100", "1e100000", "1e-100000", "9" + strings.Repeat("0", 10_000), "0." + strings.Repeat("0", 10_000) + "1"} {
		price := money.Money{Minor: 999_999_999_999_999_999, Currency: "USD"}
		reduced, err := price.LessPercent(text)
		if err == nil && (reduced.Minor < 0 || reduced.Minor > price.Minor) {
			t.Errorf("%.20s: %s", text, reduced)
		}
	}
}

// Package money holds amounts as whole numbers of a currency's smallest unit. There are no floats and
// no silent rounding: an amount with more decimals than its currency has is refused. The one place that
// rounds is a percentage discount, half-even to the currency's exponent.
package money

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Money is an amount in a currency. The zero value is no amount in no currency.
type Money struct {
	Minor    int64  // in the currency's smallest unit
	Currency string // ISO 4217
}

// Faults of amounts.
var (
	ErrCurrency  = errors.New("unknown ISO 4217 currency")
	ErrAmount    = errors.New("an amount is a plain decimal such as 19.90")
	ErrPrecision = errors.New("the amount has more decimals than its currency")
	ErrOverflow  = errors.New("the amount is too large")
	ErrMixed     = errors.New("amounts of different currencies")
)

// maxDigits bounds an amount's text; int64 holds 18 digits for certain. maxMinor bounds what arithmetic
// may give, so that every amount that can be written can be read.
const (
	maxDigits = 18
	maxMinor  = 999_999_999_999_999_999
)

// Parse reads a decimal such as "19.90" or "-3".
func Parse(amount, currency string) (Money, error) {
	exponent, known := exponents[currency]
	if !known {
		return Money{}, ErrCurrency
	}
	digits, negative := strings.CutPrefix(amount, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	if whole == "" || !onlyDigits(whole) || !onlyDigits(fraction) || point && fraction == "" {
		return Money{}, ErrAmount
	}
	if len(fraction) > exponent {
		return Money{}, ErrPrecision
	}
	if len(whole)+exponent > maxDigits {
		return Money{}, ErrOverflow
	}
	minor, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", exponent-len(fraction)), 10, 64)
	if err != nil {
		return Money{}, ErrAmount
	}
	if negative {
		minor = -minor
	}
	return Money{Minor: minor, Currency: currency}, nil
}

func onlyDigits(text string) bool {
	return strings.Trim(text, "0123456789") == ""
}

// Exponent gives the currency's number of decimals.
func Exponent(currency string) (int, bool) {
	exponent, known := exponents[currency]
	return exponent, known
}

// Amount gives the decimal text with all of the currency's decimals.
func (m Money) Amount() string { return string(m.AppendAmount(nil)) }

// AppendAmount appends Amount.
func (m Money) AppendAmount(b []byte) []byte {
	exponent := exponents[m.Currency]
	if exponent == 0 {
		return strconv.AppendInt(b, m.Minor, 10)
	}
	var room [24]byte
	digits := strconv.AppendInt(room[:0], m.Minor, 10)
	if digits[0] == '-' {
		b, digits = append(b, '-'), digits[1:]
	}
	whole := max(0, len(digits)-exponent)
	b = append(b, digits[:whole]...)
	if whole == 0 {
		b = append(b, '0')
	}
	b = append(b, '.')
	for range exponent - len(digits) {
		b = append(b, '0')
	}
	return append(b, digits[whole:]...)
}

func (m Money) String() string { return m.Amount() + " " + m.Currency }

// Times multiplies by a quantity.
func (m Money) Times(quantity int64) (Money, error) {
	negative := (m.Minor < 0) != (quantity < 0)
	high, low := bits.Mul64(magnitude(m.Minor), magnitude(quantity))
	if high != 0 || low > maxMinor {
		return Money{}, ErrOverflow
	}
	product := int64(low)
	if negative {
		product = -product
	}
	return Money{Minor: product, Currency: m.Currency}, nil
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return uint64(-n)
	}
	return uint64(n)
}

// Plus adds an amount of the same currency; adding to the zero Money gives the other one.
func (m Money) Plus(other Money) (Money, error) {
	if m == (Money{}) {
		return other, nil
	}
	if m.Currency != other.Currency {
		return Money{}, ErrMixed
	}
	sum := m.Minor + other.Minor
	if magnitude(m.Minor) > maxMinor || magnitude(other.Minor) > maxMinor || magnitude(sum) > maxMinor {
		return Money{}, ErrOverflow
	}
	return Money{Minor: sum, Currency: m.Currency}, nil
}

// wire is Money in JSON.
type wire struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

// MarshalJSON writes {"amount":"19.90","currency":"USD"}.
func (m Money) MarshalJSON() ([]byte, error) {
	if m == (Money{}) {
		return []byte("null"), nil
	}
	return json.Marshal(wire{Amount: m.Amount(), Currency: m.Currency})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Money) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*m = Money{}
		return nil
	}
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("money: %w", err)
	}
	parsed, err := Parse(w.Amount, w.Currency)
	if err != nil {
		return fmt.Errorf("money %q %q: %w", w.Amount, w.Currency, err)
	}
	*m = parsed
	return nil
}

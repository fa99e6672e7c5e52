package money

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/apd/v3"
)

// ErrPercent refuses a percentage.
var ErrPercent = errors.New("a percentage is a decimal from 0 to 100 with at most 6 decimals")

// maxPercentDecimals bounds a percentage's fraction.
const maxPercentDecimals = 6

// arithmetic is exact for every product of an amount and a percentage (18 + 9 digits).
var arithmetic = apd.Context{Precision: 60, MaxExponent: apd.MaxExponent, MinExponent: apd.MinExponent, Rounding: apd.RoundHalfEven, Traps: apd.DefaultTraps}

// CheckPercent tells what is wrong with the text of a percentage.
func CheckPercent(text string) error {
	_, err := parsePercent(text)
	return err
}

func parsePercent(text string) (*apd.Decimal, error) {
	percent, _, err := apd.NewFromString(text)
	if err != nil || percent.Form != apd.Finite || percent.Negative || percent.Exponent < -maxPercentDecimals {
		return nil, ErrPercent
	}
	if percent.Cmp(apd.New(100, 0)) > 0 {
		return nil, ErrPercent
	}
	return percent, nil
}

// LessPercent takes a percentage such as "33.333" off, rounded half-even to the currency's smallest unit.
func (m Money) LessPercent(text string) (Money, error) {
	percent, err := parsePercent(text)
	if err != nil {
		return Money{}, err
	}
	rest := new(apd.Decimal)
	if _, err := arithmetic.Sub(rest, apd.New(100, 0), percent); err != nil {
		return Money{}, fmt.Errorf("discount: %w", err)
	}
	exact := new(apd.Decimal)
	if _, err := arithmetic.Mul(exact, apd.New(m.Minor, -2), rest); err != nil {
		return Money{}, fmt.Errorf("discount: %w", err)
	}
	if _, err := arithmetic.RoundToIntegralValue(exact, exact); err != nil {
		return Money{}, fmt.Errorf("discount: %w", err)
	}
	minor, err := exact.Int64()
	if err != nil {
		return Money{}, ErrOverflow
	}
	return Money{Minor: minor, Currency: m.Currency}, nil
}

// Package money adds up the amounts that pass through the lab, exactly. It is
// the checker's own arithmetic and shares nothing with the product's, so that
// one mistake cannot hide the other.
package money

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Amount is in ten-thousandths of a currency unit.
type Amount int64

const (
	decimals = 4
	unit     = 10_000
)

var errAmount = errors.New("not a decimal amount with at most 4 decimals")

// Parse reads a plain decimal: an optional minus, digits, at most 4 decimals.
func Parse(text string) (Amount, error) {
	digits, negative := strings.CutPrefix(text, "-")
	whole, fraction, hasPoint := strings.Cut(digits, ".")
	if whole == "" || (hasPoint && fraction == "") || len(fraction) > decimals || !allDigits(whole) || !allDigits(fraction) {
		return 0, fmt.Errorf("%w: %q", errAmount, text)
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", decimals-len(fraction)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q", errAmount, text)
	}
	if negative {
		n = -n
	}
	return Amount(n), nil
}

func allDigits(s string) bool {
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return true
}

// Decimals is how many decimals a text shows.
func Decimals(text string) int {
	_, fraction, _ := strings.Cut(text, ".")
	return len(fraction)
}

// Times multiplies by a quantity; a product too large is the largest amount,
// which no comparison mistakes for a right one.
func (a Amount) Times(quantity int64) Amount {
	if a == 0 || quantity == 0 {
		return 0
	}
	product := int64(a) * quantity
	if product/quantity != int64(a) {
		return math.MaxInt64
	}
	return Amount(product)
}

// String writes at least 2 decimals and no needless zero beyond.
func (a Amount) String() string {
	sign := ""
	if a < 0 {
		sign, a = "-", -a
	}
	text := fmt.Sprintf("%s%d.%04d", sign, a/unit, a%unit)
	if strings.HasSuffix(text, "00") {
		return text[:len(text)-2]
	}
	return strings.TrimSuffix(text, "0")
}

package order

import "strings"

// Bounds of a card number, in digits: ISO/IEC 7812.
const (
	minCardDigits = 12
	maxCardDigits = 19
)

// isCardNumber tells whether a text is a card number, however its digits are grouped. A token is none, and a card
// number must not get into the log, where nothing is ever deleted. The check digit is that of ISO/IEC 7812-1, annex B.
func isCardNumber(text string) bool {
	digits := strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '-', '.', '_', '/', '\u00a0', '\u2010', '\u2011', '\u2013':
			return -1
		}
		return r
	}, text)
	if len(digits) < minCardDigits || len(digits) > maxCardDigits {
		return false
	}
	sum := 0
	for i := range len(digits) {
		digit := int(digits[len(digits)-1-i]) - '0'
		if digit < 0 || digit > 9 {
			return false
		}
		if i%2 == 1 {
			digit *= 2
		}
		sum += digit/10 + digit%10
	}
	return sum%10 == 0
}

// Package sku holds the one rule of what a SKU is, applied at every boundary: partners' requests,
// feeds of legacy systems, Kafka keys and Redis keys all agree because a text that breaks the rule is
// refused, never repaired. Trimming in one place and not in another would make two products of one.
//
// A SKU is 1 to 64 characters (at most 256 bytes) of UTF-8 in Unicode normal form C, without control
// and format characters (so no zero-width ones), without white space at its ends, and neither "." nor
// "..". Case counts: 85123A and 85123a are two products. No folding, which would depend on a locale.
package sku

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"andes/eventstore"
)

// Limits of a SKU.
const (
	MaxCharacters = 64
	MaxBytes      = 256
)

// CodeInvalid refuses a text that is no SKU.
const CodeInvalid eventstore.Code = "SKU_INVALID"

// Check gives "" for a SKU, or else what is wrong with the text.
func Check(text string) string {
	switch {
	case text == "":
		return "a SKU must not be empty"
	case len(text) > MaxBytes || utf8.RuneCountInString(text) > MaxCharacters:
		return "a SKU has at most 64 characters (256 bytes)"
	case !utf8.ValidString(text):
		return "a SKU is UTF-8 text"
	case text == "." || text == "..":
		return `a SKU is neither "." nor ".."`
	case strings.TrimSpace(text) != text:
		return "a SKU has no white space at its ends"
	case strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar
	}):
		return "a SKU has no control, zero-width or replacement characters"
	case !norm.NFC.IsNormalString(text):
		return "a SKU is in Unicode normal form C"
	}
	return ""
}

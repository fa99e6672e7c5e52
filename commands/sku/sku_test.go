package sku_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"andes/commands/sku"
)

func TestWhatIsASKU(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		valid bool
	}{
		"a plain one":                      {"85123A", true},
		"lower case is another SKU":        {"85123a", true},
		"a slash":                          {"CLE-056621/6", true},
		"a plus":                           {"BAH-SB+7", true},
		"a space inside":                   {"A B", true},
		"a percent sign":                   {"50%", true},
		"an escape, literally":             {"a%2Fb", true},
		"slashes in front":                 {"//x", true},
		"a bar":                            {"a|b", true},
		"braces":                           {"{a}", true},
		"a letter with an accent, NFC":     {"\u00f1", true},
		"the same letter, NFD":             {"n\u0303", false},
		"a German sharp s":                 {"Straße-1", true},
		"a dotless i":                      {"ı", true},
		"a hash":                           {"#1", true},
		"a question mark":                  {"?q", true},
		"three dots":                       {"...", true},
		"one dot":                          {".", false},
		"two dots":                         {"..", false},
		"nothing":                          {"", false},
		"a space":                          {" ", false},
		"a space behind":                   {"SKU123 ", false},
		"a space in front":                 {" SKU123", false},
		"a hard space in front":            {"\u00a0SKU123", false},
		"a zero-width space":               {"SKU123\u200b", false},
		"a joiner inside":                  {"SKU\u200d123", false},
		"a soft hyphen":                    {"SKU\u00ad123", false},
		"a byte order mark":                {"\ufeffSKU", false},
		"a tab":                            {"SKU\t1", false},
		"a NUL":                            {"SKU\x001", false},
		"a replacement character":          {"SKU\ufffd", false},
		"no UTF-8":                         {"SKU\xff", false},
		"64 characters":                    {strings.Repeat("a", 64), true},
		"65 characters":                    {strings.Repeat("a", 65), false},
		"64 characters of four bytes":      {strings.Repeat("\U0001F600", 64), true},
		"65 characters of four bytes":      {strings.Repeat("\U0001F600", 65), false},
		"10000 characters":                 {strings.Repeat("a", 10000), false},
		"control characters of the C1 set": {"a\u0085b", false},
	} {
		if fault := sku.Check(c.text); (fault == "") != c.valid {
			t.Errorf("%s (%q): %q", name, c.text, fault)
		}
	}
}

func TestAValidSKUStaysWhatItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		if sku.Check(text) == "" && (strings.TrimSpace(text) != text || len(text) > sku.MaxBytes || text == "") {
			t.Fatalf("%q is no SKU", text)
		}
	})
}

package money_test

import (
	"testing"

	"andes/test/lab/money"
)

func TestAmountsReadAndWrite(t *testing.T) {
	for in, want := range map[string]string{
		"2.55": "2.55", "0": "0.00", "-11062.06": "-11062.06", "19990": "19990.00", "0.001": "0.001", "1.1": "1.10",
	} {
		a, err := money.Parse(in)
		if err != nil || a.String() != want {
			t.Errorf("%s: %s %v, want %s", in, a, err, want)
		}
	}
	for _, bad := range []string{"", "-", ".5", "5.", "1e3", "+1", "1,50", "1.23456", "99999999999999999999", " 1"} {
		if a, err := money.Parse(bad); err == nil {
			t.Errorf("%q was read as %s", bad, a)
		}
	}
}

func TestTimesNeverWrapsAround(t *testing.T) {
	a, err := money.Parse("2.55")
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Times(80995).String(); got != "206537.25" {
		t.Errorf("2.55 x 80995 = %s", got)
	}
	if got := a.Times(1 << 62); got <= 0 {
		t.Errorf("overflow became %s", got)
	}
}

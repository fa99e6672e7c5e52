package tryton

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// decimal is an exact number as Tryton writes it.
type decimal string

type wireDecimal struct {
	Class   string `json:"__class__"`
	Decimal string `json:"decimal"`
}

// MarshalJSON implements json.Marshaler.
func (d decimal) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireDecimal{"Decimal", string(d)})
}

// UnmarshalJSON implements json.Unmarshaler. null is no number, and stays empty.
func (d *decimal) UnmarshalJSON(text []byte) error {
	var wire *wireDecimal
	if err := json.Unmarshal(text, &wire); err != nil {
		return err
	}
	if wire == nil {
		*d = ""
		return nil
	}
	if wire.Class != "Decimal" {
		return fmt.Errorf("a %.40q is no Decimal", wire.Class)
	}
	*d = decimal(wire.Decimal)
	return nil
}

// stamp is a moment in Tryton's own time, which has no zone: it is taken for UTC. The zero value is null.
type stamp struct{ time.Time }

type wireStamp struct {
	Class       string `json:"__class__"`
	Year        int    `json:"year"`
	Month       int    `json:"month"`
	Day         int    `json:"day"`
	Hour        int    `json:"hour"`
	Minute      int    `json:"minute"`
	Second      int    `json:"second"`
	Microsecond int    `json:"microsecond"`
}

// MarshalJSON implements json.Marshaler.
func (s stamp) MarshalJSON() ([]byte, error) {
	if s.IsZero() {
		return []byte("null"), nil
	}
	at := s.UTC()
	return json.Marshal(wireStamp{
		"datetime", at.Year(), int(at.Month()), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond() / 1000,
	})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *stamp) UnmarshalJSON(text []byte) error {
	var wire *wireStamp
	if err := json.Unmarshal(text, &wire); err != nil {
		return err
	}
	if wire == nil {
		*s = stamp{}
		return nil
	}
	if wire.Class != "datetime" {
		return fmt.Errorf("a %.40q is no datetime", wire.Class)
	}
	s.Time = time.Date(wire.Year, time.Month(wire.Month), wire.Day, wire.Hour, wire.Minute, wire.Second, wire.Microsecond*1000, time.UTC)
	return nil
}

// day is a date without a time.
type day struct {
	Class string `json:"__class__"`
	Year  int    `json:"year"`
	Month int    `json:"month"`
	Day   int    `json:"day"`
}

// lastDay is later than any date that a record has.
var lastDay = day{"date", 9999, 12, 31}

// maxUnits bounds a quantity, which Tryton keeps in a float: all whole numbers up to it are exact.
const maxUnits = 1 << 50

// units reads a quantity. Units are whole: a fraction is no number of them.
func units(quantity *float64) (int64, error) {
	switch {
	case quantity == nil:
		return 0, fmt.Errorf("the quantity is missing")
	case math.IsNaN(*quantity) || math.Abs(*quantity) > maxUnits:
		return 0, fmt.Errorf("a quantity of %g is out of range", *quantity)
	case *quantity != math.Trunc(*quantity):
		return 0, fmt.Errorf("a quantity of %g is not whole", *quantity)
	}
	return int64(*quantity), nil
}

// domain is a condition on records, in Tryton's Polish notation.
type domain []any

func term(field, operator string, value any) domain { return domain{field, operator, value} }

func either(of ...any) domain { return append(domain{"OR"}, of...) }

package stock

import (
	"time"

	"andes/commands/source"
	"andes/eventstore"
)

// Doubted says that the WMS replaced a level by something that can't be used, or went back behind it.
type Doubted struct {
	SourceVersion int64           `json:"sourceVersion"` // of what can't be used, or of the older record; 0: it had none
	Code          eventstore.Code `json:"code"`          // why
	At            time.Time       `json:"at"`            // since when the known level may be wrong
	Back          time.Time       `json:"back,omitzero"` // set: when a comparison found the SKU at an older version, with something else
}

var doubted = eventstore.Define("stock.doubted", func(s *State, e Doubted) {
	s.Doubt = Doubted(source.Doubt(s.Doubt).Then(source.Doubt(e)))
}, eventstore.Doc("The WMS replaced a level by a record that can't be used, or has another one at an older version; the last level is kept, but not taken for recent."))

// Doubt records that what the WMS now says of a SKU can't be used.
type Doubt struct {
	SKU           string
	SourceVersion int64
	Code          eventstore.Code
	At            time.Time // zero: it does not say
}

// Needs implements eventstore.Command.
func (c Doubt) Needs() []eventstore.Stream { return []eventstore.Stream{Aggregate.Stream(c.SKU)} }

// Decide implements eventstore.Command.
func (c Doubt) Decide(u *eventstore.Unit) (any, error) {
	known, _ := Aggregate.Load(u, c.SKU)
	said := source.Doubt{SourceVersion: c.SourceVersion, Code: c.Code, At: c.At}
	if doubt, cast := said.On(known.SourceVersion, known.KnownAt(), source.Doubt(known.Doubt), u.Now()); cast {
		Aggregate.Append(u, c.SKU, Doubted(doubt))
	}
	return nil, nil
}

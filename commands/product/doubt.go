package product

import (
	"time"

	"andes/commands/source"
	"andes/eventstore"
)

// Doubted says that the ERP has something else of a product at an older version than the known one.
type Doubted struct {
	SourceVersion int64           `json:"sourceVersion"` // of the older record
	Code          eventstore.Code `json:"code"`          // why
	At            time.Time       `json:"at"`            // since when the known description may be wrong
	Back          time.Time       `json:"back,omitzero"` // when a comparison found that
}

var doubted = eventstore.Define("product.doubted", func(s *State, e Doubted) {
	s.Doubt = Doubted(source.Doubt(s.Doubt).Then(source.Doubt(e)))
}, eventstore.Doc("The ERP describes a product in another way at an older version; the last description is kept until another comparison finds that again."))

package price

import (
	"time"

	"andes/commands/source"
	"andes/eventstore"
)

// Doubted says that the ERP replaced a price by something that can't be used.
type Doubted struct {
	SourceVersion int64           `json:"sourceVersion"` // of what can't be used; 0: it had none
	Code          eventstore.Code `json:"code"`          // why
	At            time.Time       `json:"at"`            // since when the known price may be wrong
}

var doubted = eventstore.Define("price.doubted", func(s *State, e Doubted) {
	if !s.Doubt.At.IsZero() && s.Doubt.At.Before(e.At) {
		e.At = s.Doubt.At
	}
	s.Doubt = e
}, eventstore.Doc("The ERP replaced a price by a record that can't be used; the last price is kept, but not taken for recent."))

// Doubt records that what the ERP now says of a price can't be used.
type Doubt struct {
	List, SKU     string
	SourceVersion int64
	Code          eventstore.Code
	At            time.Time // zero: it does not say
}

// Needs implements eventstore.Command.
func (c Doubt) Needs() []eventstore.Stream {
	return []eventstore.Stream{Aggregate.Stream(Key(c.List, c.SKU))}
}

// Decide implements eventstore.Command. A record older than what is known casts no doubt on it.
func (c Doubt) Decide(u *eventstore.Unit) (any, error) {
	key := Key(c.List, c.SKU)
	known, _ := Aggregate.Load(u, key)
	at := c.At
	if at.IsZero() {
		at = u.Now()
	}
	newer := c.SourceVersion > max(known.SourceVersion, known.Doubt.SourceVersion)
	if c.SourceVersion < 1 {
		newer = known.Doubt.At.IsZero() && at.After(known.ChangedAt)
	}
	if known.SourceVersion == 0 || known.Removed || !newer {
		return nil, nil
	}
	Aggregate.Append(u, key, Doubted{SourceVersion: c.SourceVersion, Code: c.Code, At: source.Stamp(at, u.Now())})
	return nil, nil
}

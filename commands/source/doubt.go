package source

import (
	"time"

	"andes/eventstore"
)

// Doubt is since when a known value may be wrong: its source replaced it by something that can't be used, or has
// something else at an older version. The zero value is none.
type Doubt struct {
	SourceVersion int64 // of what can't be used; 0: it had none
	Code          eventstore.Code
	At            time.Time
	Back          time.Time // set: a comparison found the older version, and this is when
}

// Then is the doubt after a further one: the value may be wrong since the first of them.
func (d Doubt) Then(next Doubt) Doubt {
	if !d.At.IsZero() && d.At.Before(next.At) {
		next.At = d.At
	}
	return next
}

// On tells whether a record that can't be used casts doubt on a value of that version, known since then, and as what. A record
// that is older than the value or than an earlier doubt casts none; neither does one on what was never known. Of one without a
// version the time decides, and it adds nothing to a doubt that there is.
func (d Doubt) On(version int64, knownAt time.Time, earlier Doubt, now time.Time) (Doubt, bool) {
	if d.At.IsZero() { // it does not say when
		d.At = now
	}
	newer := d.SourceVersion > max(version, earlier.SourceVersion)
	if d.SourceVersion < 1 {
		newer = earlier.At.IsZero() && d.At.After(knownAt)
	}
	d.At = Stamp(d.At, now)
	return d, version != 0 && newer
}

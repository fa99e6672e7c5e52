package source

import (
	"fmt"
	"time"

	"andes/eventstore"
)

// CodeWentBack doubts a value of which its source says something else at an older version.
const CodeWentBack eventstore.Code = "SOURCE_WENT_BACK"

// maxVersion leaves room above every version. A record at the highest number there is could never be replaced.
const maxVersion = 1 << 62

// CheckVersion tells what is wrong with a version that a legacy system gives; "": nothing.
func CheckVersion(version int64) string {
	switch {
	case version < 1:
		return fmt.Sprintf("version %d is not above zero", version)
	case version > maxVersion:
		return fmt.Sprintf("version %d leaves no room for later ones", version)
	}
	return ""
}

// Known is what is known of a record of which its source tells again.
type Known struct {
	Version int64
	At      time.Time // since when
	Absent  bool      // it was taken for gone
	Doubt   Doubt
}

// Word is what a record of a source is to what is known.
type Word int

// What a record may be.
const (
	Old     Word = iota // it changes nothing
	News                // it replaces what is known
	Suspect             // it casts doubt: its version is older, and still its source has it
	Back                // it replaces what is known although its version is older: its source went back
)

// Word judges a record by its version. round is when the comparison began that found it, zero if none did; same
// tells that it says what is known.
//
// A version that is not newer is as a rule an answer that is late. But a source that was restored from a backup, or
// that corrected a version, goes on below what is known and would not be heard again. A comparison that finds that
// is not enough: its page may have been on its way when a newer record came. So it only suspects, and one that began
// after that believes it. Whatever else replaced the value in between ended the suspicion, so what this one read was
// asked for when the known version was known already.
func (k Known) Word(version int64, round time.Time, same bool) Word {
	suspected := !k.Doubt.Back.IsZero()
	switch {
	case version > k.Version:
		return News
	case round.IsZero():
		return Old
	case k.Absent, version == k.Version && (!same || suspected):
		return News
	case version < k.Version && suspected && round.After(k.Doubt.Back):
		return Back
	case version < k.Version && !suspected && !same && k.At.Before(round):
		return Suspect
	}
	return Old
}

// Suspicion is the doubt that a record casts whose version is older.
func Suspicion(version int64, now time.Time) Doubt {
	return Doubt{SourceVersion: version, Code: CodeWentBack, At: now, Back: now}
}

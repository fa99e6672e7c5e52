package changes

import (
	"slices"
	"time"
)

// passed is how far the log was looked at, at a time.
type passed struct {
	at       time.Time
	position int64
}

// markEvery is how exactly it is remembered when the log was how long; what is asked for lies at most that much earlier.
const markEvery = 100 * time.Millisecond

// mark remembers how far the log was looked at.
func (f *Feed) mark(now passed) {
	last := passed{}
	if len(f.marks) > 0 {
		last = f.marks[len(f.marks)-1]
	}
	if now.position > last.position && now.at.Sub(last.at) >= markEvery {
		f.marks = append(f.marks, now)
	}
	for len(f.marks) > 1 && now.at.Sub(f.marks[1].at) >= f.config.Settled+f.config.MostKept {
		f.marks = f.marks[1:]
	}
}

// settled gives what every answer of a read that is given from now on has, if that was seen.
func (f *Feed) settled(now time.Time) (position int64, seen bool) {
	back := f.config.Settled
	if f.config.Kept != nil {
		back += min(f.config.Kept(), f.config.MostKept)
	}
	for _, mark := range slices.Backward(f.marks) {
		if now.Sub(mark.at) >= back {
			return mark.position, true
		}
	}
	return 0, false
}

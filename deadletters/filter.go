package deadletters

import (
	"slices"
	"strings"
	"time"

	"andes/eventstore"
)

// Filter selects letters; the zero value selects all.
type Filter struct {
	Topic   string    `json:"topic,omitempty"`   // of the origin
	Class   string    `json:"class,omitempty"`   // one of Classes
	Partner string    `json:"partner,omitempty"` // whose order it is about, or who caused it
	Key     string    `json:"key,omitempty"`
	Type    string    `json:"type,omitempty"`    // of the event
	Error   string    `json:"error,omitempty"`   // part of the error's text
	Headers []Header  `json:"headers,omitempty"` // all of them
	Since   time.Time `json:"since,omitzero"`    // parked then or later
	Until   time.Time `json:"until,omitzero"`    // parked before
	Letters []Ref     `json:"letters,omitempty"` // these only
}

// MaxLetters bounds the letters that a filter names one by one.
const MaxLetters = 500

// Empty tells that the filter selects everything.
func (f *Filter) Empty() bool {
	return f.Topic == "" && f.Class == "" && f.Partner == "" && f.Key == "" && f.Type == "" && f.Error == "" &&
		len(f.Headers) == 0 && f.Since.IsZero() && f.Until.IsZero() && len(f.Letters) == 0
}

// check refuses a filter that can select nothing, because of a slip. A topic may be named without the prefix
// that all have.
func (f *Filter) check(consumer Consumer) error {
	if i := slices.IndexFunc(consumer.Topics, func(topic string) bool { return strings.HasSuffix(topic, "."+f.Topic) }); f.Topic != "" && i >= 0 {
		f.Topic = consumer.Topics[i]
	}
	switch {
	case f.Class != "" && !slices.Contains(Classes, f.Class):
		return eventstore.Refuse(CodeFilterInvalid, "there is no error class %q; the classes are %s", f.Class, strings.Join(Classes, ", "))
	case f.Topic != "" && !slices.Contains(consumer.Topics, f.Topic):
		return eventstore.Refuse(CodeTopicUnknown, "consumer %s reads no topic %q; it reads %s", consumer.Name, f.Topic, strings.Join(consumer.Topics, ", "))
	case !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until):
		return eventstore.Refuse(CodeFilterInvalid, "the time from %s until %s is empty", f.Since.Format(time.RFC3339), f.Until.Format(time.RFC3339))
	case len(f.Letters) > MaxLetters:
		return eventstore.Refuse(CodeFilterInvalid, "%d letters are named, at most %d can be", len(f.Letters), MaxLetters)
	}
	for _, ref := range f.Letters {
		if ref.Consumer != consumer.Name {
			return eventstore.Refuse(CodeFilterInvalid, "letter %s is not in the DLQ of %s", ref, consumer.Name)
		}
	}
	return nil
}

// matches tells whether the letter is selected by what can be seen of it. The partner is not: that takes
// a look at the database.
func (f *Filter) matches(l *Letter) bool {
	return (f.Topic == "" || l.Origin.Topic == f.Topic) &&
		(f.Class == "" || l.Class == f.Class) &&
		(f.Key == "" || string(l.Key) == f.Key) &&
		(f.Type == "" || l.EventType == f.Type) &&
		(f.Error == "" || strings.Contains(l.Error, f.Error)) &&
		(f.Since.IsZero() || !l.ParkedAt.Before(f.Since)) &&
		(f.Until.IsZero() || l.ParkedAt.Before(f.Until)) &&
		f.matchesHeaders(l) &&
		(len(f.Letters) == 0 || slices.Contains(f.Letters, l.Ref))
}

func (f *Filter) matchesHeaders(l *Letter) bool {
	for _, wanted := range f.Headers {
		if !slices.Contains(l.Headers, wanted) {
			return false
		}
	}
	return true
}

package promo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"andes/eventstore"
)

// Degraded says which degradations are on, the least first. Zero values are off.
type Degraded struct {
	Stale  Span  `json:"stale,omitempty" doc:"1: an answer that old is given while there is no newer one"`
	Cap    int64 `json:"cap,omitempty" doc:"2: most units that any channel is shown"`
	Quotas int   `json:"quotas,omitempty" doc:"3: percent of their quotas that the lower tiers have left"`
}

// Bounds of degradations.
const (
	MaxStale  = 10 * time.Minute
	MaxCap    = 1_000_000
	MaxQuotas = 99
)

// none is how all degradations are switched off in words.
const none = "none"

// String names the degradations that are on.
func (d Degraded) String() string {
	var on []string
	if d.Stale > 0 {
		on = append(on, fmt.Sprintf("stale=%s", spoken(time.Duration(d.Stale))))
	}
	if d.Cap > 0 {
		on = append(on, fmt.Sprintf("cap=%d", d.Cap))
	}
	if d.Quotas > 0 {
		on = append(on, fmt.Sprintf("quotas=%d%%", d.Quotas))
	}
	if len(on) == 0 {
		return none
	}
	return strings.Join(on, ",")
}

// ParseDegraded reads degradations as String writes them. Whatever is named is switched on: a value that is off, or a name
// that is there twice, is a slip by which something would be switched that nobody meant, and is refused.
func ParseDegraded(text string) (Degraded, error) {
	var d Degraded
	if strings.TrimSpace(text) == none {
		return d, nil
	}
	var problems []eventstore.Problem
	complain := func(pointer, format string, args ...any) {
		problems = append(problems, invalid("/degraded"+pointer, format, args...))
	}
	named := map[string]bool{}
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		name, value, _ := strings.Cut(item, "=")
		allowed, known := ranges[name]
		switch {
		case item == "":
			complain("", "a name is empty: stale=30s, cap=5, quotas=50%%, comma-separated; or %s", none)
		case !known:
			complain("", "%q is none of stale=30s, cap=5, quotas=50%%; %s, by itself, switches all of them off", item, none)
		case named[name]:
			complain("/"+name, "is there twice")
		case !d.set(name, value):
			complain("/"+name, "%s, not %q; what is not named is off", allowed, value)
		}
		named[name] = true
	}
	return d, refusal(problems)
}

// ranges of the degradations, in words.
var ranges = map[string]string{
	"stale":  "an age up to " + spoken(MaxStale) + ", as 30s",
	"cap":    fmt.Sprintf("a whole number of units, 1 to %d", MaxCap),
	"quotas": fmt.Sprintf("whole percents, 1 to %d", MaxQuotas),
}

// set reads the value of a degradation, and tells whether it is one that switches it on.
func (d *Degraded) set(name, value string) bool {
	switch name {
	case "stale":
		stale, err := time.ParseDuration(value)
		d.Stale = Span(stale)
		return err == nil && 0 < stale && stale <= MaxStale
	case "cap":
		units, err := strconv.ParseInt(value, 10, 64)
		d.Cap = units
		return err == nil && 0 < units && units <= MaxCap
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(value, "%"))
	d.Quotas = percent
	return err == nil && 0 < percent && percent <= MaxQuotas
}

// problems tells all that is wrong with degradations beside a microcache.
func (d Degraded) problems(microcache Span) []eventstore.Problem {
	var problems []eventstore.Problem
	complain := func(wrong bool, pointer, format string, args ...any) {
		if wrong {
			problems = append(problems, invalid("/degraded/"+pointer, format, args...))
		}
	}
	stale := time.Duration(d.Stale)
	complain(stale < 0 || stale > MaxStale, "stale", "%s, not %s", ranges["stale"], spoken(stale))
	complain(stale > 0 && microcache <= 0, "stale", "there are no older answers without a microcache")
	complain(stale > 0 && d.Stale <= microcache, "stale", "older answers are older than the microcache, %s", microcache)
	complain(d.Cap < 0 || d.Cap > MaxCap, "cap", "%s, not %d", ranges["cap"], d.Cap)
	complain(d.Quotas < 0 || d.Quotas > MaxQuotas, "quotas", "%s, not %d", ranges["quotas"], d.Quotas)
	return problems
}

func invalid(pointer, format string, args ...any) eventstore.Problem {
	return eventstore.Problem{Pointer: pointer, Code: CodeInvalid, Detail: fmt.Sprintf(format, args...)}
}

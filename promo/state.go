package promo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"andes/eventstore"
)

// Codes of refusals.
const (
	CodeInvalid   eventstore.Code = "PROMO_INVALID" // what is asked for makes no sense
	CodeUnknown   eventstore.Code = "PROMO_SKU_UNKNOWN"
	CodeStale     eventstore.Code = "PROMO_STALE"     // a product's stock or price is too old
	CodeCold      eventstore.Code = "PROMO_COLD"      // the read model lacks products, or can't be looked at
	CodeOn        eventstore.Code = "PROMO_ON"        // another one is waiting or on
	CodeOff       eventstore.Code = "PROMO_OFF"       // none is
	CodeNoReport  eventstore.Code = "PROMO_NO_REPORT" // there was no such promo
	CodeContended eventstore.Code = "PROMO_CONTENDED" // others changed it meanwhile, again and again
)

// Bounds of a promo.
const (
	MaxSKUs       = 5000
	MinLength     = time.Minute
	MaxLength     = 24 * time.Hour
	MaxAhead      = 30 * 24 * time.Hour
	MaxMicrocache = 30 * time.Second
)

// DefaultMicrocache is how long an answer is kept.
const DefaultMicrocache = 2 * time.Second

// Span is a duration that is written as text, as 2s.
type Span time.Duration

// MarshalText implements encoding.TextMarshaler.
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(text []byte) error {
	duration, err := time.ParseDuration(string(text))
	*s = Span(duration)
	return err
}

func (s Span) String() string { return time.Duration(s).String() }

// State is a promo. It is never changed: a new one takes its place.
type State struct {
	ID         string    `json:"id,omitempty"`
	SKUs       []string  `json:"skus,omitempty"`
	From       time.Time `json:"from,omitzero"`
	Until      time.Time `json:"until,omitzero"`
	Microcache Span      `json:"microcache,omitempty" example:"2s"`
	Degraded   Degraded  `json:"degraded,omitzero"`
	Actor      string    `json:"actor,omitempty" doc:"Who switched it on"`
	Reason     string    `json:"reason,omitempty"`
	EndedBy    string    `json:"endedBy,omitempty" doc:"Who switched it off; none: it ended by itself"`
}

// Phase is where a promo stands.
type Phase string

// The phases.
const (
	Off     Phase = "off"
	Waiting Phase = "waiting" // for From
	On      Phase = "on"
	Over    Phase = "over"
)

// At tells where the promo stands.
func (s State) At(now time.Time) Phase {
	switch {
	case s.ID == "" || !s.From.Before(s.Until): // none, or one that was called off before it began
		return Off
	case now.Before(s.From):
		return Waiting
	case now.Before(s.Until):
		return On
	}
	return Over
}

// Effect is the state as it counts at the moment: nothing of it does while it is not on.
func (s State) Effect(now time.Time) State {
	if s.At(now) != On {
		return State{}
	}
	return s
}

// problems tells all that is wrong with it.
func (s State) problems(now time.Time) []eventstore.Problem {
	var problems []eventstore.Problem
	complain := func(wrong bool, pointer, format string, args ...any) {
		if wrong {
			problems = append(problems, invalid(pointer, format, args...))
		}
	}
	complain(len(s.SKUs) == 0 || len(s.SKUs) > MaxSKUs, "/skus", "a promo is about 1 to %d SKUs, not %d", MaxSKUs, len(s.SKUs))
	complain(slices.Contains(s.SKUs, ""), "/skus", "a SKU is empty")
	length := s.Until.Sub(s.From)
	complain(length < MinLength || length > MaxLength, "/for", "a promo takes %s to %s, not %s", spoken(MinLength), spoken(MaxLength), spoken(length))
	complain(s.From.Sub(now) > MaxAhead, "/from", "a promo begins at most %d days from now", MaxAhead/(24*time.Hour))
	cache := time.Duration(s.Microcache)
	complain(cache < 0 || cache > MaxMicrocache, "/microcache", "answers are kept for 0s to %s, not %s", spoken(MaxMicrocache), spoken(cache))
	return append(problems, s.Degraded.problems(s.Microcache)...)
}

// spoken writes a duration as people do: 24h, not 24h0m0s.
func spoken(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func refusal(problems []eventstore.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &eventstore.Refusal{Code: CodeInvalid, Detail: "the promo makes no sense: see errors", Problems: problems}
}

// Text is the state as it is kept.
func (s State) Text() string {
	text, err := json.Marshal(s)
	if err != nil { // a struct of texts, numbers and times of this age
		panic(err)
	}
	return string(text)
}

// Parse is the inverse of Text; nothing is no promo.
func Parse(text string) (State, error) {
	var s State
	if text == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return State{}, fmt.Errorf("promo: the state can't be read: %w", err)
	}
	return s, nil
}

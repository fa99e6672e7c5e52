package eventstore

import (
	"context"
	"errors"
)

// Class says what a consumer does with a message that failed.
type Class int

// The classes of failures.
const (
	Transient   Class = iota // may pass: try again, a bounded number of times
	Permanent                // the same input fails for ever: to the DLQ at once
	Shutdown                 // we are stopping: nothing is wrong with the message
	Unavailable              // not now: what every message needs is away; none of them is blamed or tried out
)

func (c Class) String() string {
	return [...]string{"transient", "permanent", "shutdown", "unavailable"}[c]
}

// permanentError marks a fault of the input.
type permanentError struct{ error }

func (p permanentError) Unwrap() error { return p.error }

// MarkPermanent says that trying again can't help.
func MarkPermanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// unavailableError marks a fault of what all messages need.
type unavailableError struct{ error }

func (u unavailableError) Unwrap() error { return u.error }

// MarkUnavailable says that the message was not really tried, because what every message of the consumer
// needs is away: a breaker is open, say. It costs no attempt, whatever the outage takes.
func MarkUnavailable(err error) error {
	if err == nil {
		return nil
	}
	return unavailableError{err}
}

// Classify sorts an error once, by type. A business refusal is permanent. An event store that is away or
// overloaded is so for every message.
func Classify(err error) Class {
	if errors.Is(err, context.Canceled) {
		return Shutdown
	}
	if _, marked := errors.AsType[permanentError](err); marked {
		return Permanent
	}
	if _, refused := errors.AsType[*Refusal](err); refused {
		return Permanent
	}
	if _, marked := errors.AsType[unavailableError](err); marked || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOverloaded) {
		return Unavailable
	}
	return Transient
}

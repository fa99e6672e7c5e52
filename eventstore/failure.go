package eventstore

import (
	"context"
	"errors"
)

// Class says what a consumer does with a message that failed.
type Class int

// The classes of failures.
const (
	Transient Class = iota // may pass: try again
	Permanent              // the same input fails for ever: to the DLQ at once
	Shutdown               // we are stopping: nothing is wrong with the message
)

func (c Class) String() string {
	return [...]string{"transient", "permanent", "shutdown"}[c]
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

// Classify sorts an error once, by type. A business refusal is permanent.
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
	return Transient
}

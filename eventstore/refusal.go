package eventstore

import (
	"errors"
	"fmt"
)

// Code names a refusal for programs. It is part of the public contract and never changes.
type Code string

// Refusals that the unit of work itself gives.
const (
	CodeRequestInProgress    Code = "REQUEST_IN_PROGRESS"
	CodeIdempotencyKeyReused Code = "IDEMPOTENCY_KEY_REUSED"
	CodeEventTooLarge        Code = "EVENT_TOO_LARGE"
	CodeTextNotStorable      Code = "TEXT_NOT_STORABLE"
)

// Problem is one fault of one input field.
type Problem struct {
	Pointer string `json:"pointer"` // RFC 6901
	Code    Code   `json:"code"`
	Detail  string `json:"detail"`
}

// Refusal is a command's business "no": final for these inputs, kept as the answer of an idempotency
// key, and safe to show to the caller.
type Refusal struct {
	Code     Code
	Detail   string
	Problems []Problem
	Extra    map[string]any // further members of the problem document
}

func (r *Refusal) Error() string {
	if r.Detail == "" {
		return string(r.Code)
	}
	return fmt.Sprintf("%s: %s", r.Code, r.Detail)
}

// Refuse makes a Refusal.
func Refuse(code Code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// CodeOf gives the code of the refusal in err, or "".
func CodeOf(err error) Code {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal.Code
	}
	return ""
}

// Faults that are not the caller's and leave nothing behind, except ErrOutcomeUnknown.
var (
	// ErrOverloaded: the queue of the executor is full; nothing was done.
	ErrOverloaded = errors.New("the write side is overloaded")
	// ErrUnavailable: the store could not be reached; nothing was done.
	ErrUnavailable = errors.New("the event store is unavailable")
	// ErrOutcomeUnknown: the connection was lost while committing. The same request, sent again with
	// its idempotency key, finds out.
	ErrOutcomeUnknown = errors.New("the outcome of the commit is unknown")
	// ErrChanged: what the command was prepared from has changed meanwhile; prepare it again.
	ErrChanged = errors.New("the command was prepared from an older state")
)

package eventstore

import (
	"context"
	"errors"
)

// progressError carries what a failed attempt has done already.
type progressError struct {
	error
	progress string
}

func (p progressError) Unwrap() error { return p.error }

// WithProgress has the text kept with the message that failed and given back at its next attempt, which
// can then do only what is left. The text is the handler's own; it holds no personal data and no secret.
func WithProgress(err error, progress string) error {
	if err == nil || progress == "" {
		return err
	}
	return progressError{err, progress}
}

// ProgressOf gives the progress that a failure carries, or "".
func ProgressOf(err error) string {
	if carrier, found := errors.AsType[progressError](err); found {
		return carrier.progress
	}
	return ""
}

type progressKey struct{}

// ContextWithProgress gives a handler the progress of the attempt before.
func ContextWithProgress(ctx context.Context, progress string) context.Context {
	return context.WithValue(ctx, progressKey{}, progress)
}

// Progress is what the attempt before left with WithProgress; "" at the first one.
func Progress(ctx context.Context) string {
	progress, _ := ctx.Value(progressKey{}).(string)
	return progress
}

//go:build !linux

package load

import "time"

// Exactly waits.
func Exactly(d time.Duration) { <-time.After(d) }

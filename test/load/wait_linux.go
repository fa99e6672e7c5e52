package load

import (
	"syscall"
	"time"
)

// Exactly waits as exactly as the kernel can, some 60 µs late. The timers of the runtime of an idle process are up to a
// millisecond late, as it waits for them in epoll: at 20 reads a second that would be most of what is measured.
func Exactly(d time.Duration) {
	for end := time.Now().Add(d); d > 0; d = time.Until(end) {
		span := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&span, nil) // after a signal the rest is slept
	}
}

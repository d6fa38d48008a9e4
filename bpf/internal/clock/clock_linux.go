package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is the time on CLOCK_MONOTONIC, by which the kernel stamps what is seen.
func Monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0 // the clock is there on every Linux
	}
	return time.Duration(t.Nano())
}

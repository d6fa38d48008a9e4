//go:build !linux

package clock

import "time"

var start = time.Now()

// Monotonic is a time that only ever grows.
func Monotonic() time.Duration { return time.Since(start) }

package bpf

import (
	"time"

	"github.com/opreplay/opreplay/bpf/internal/clock"
)

// Monotonic is the time on CLOCK_MONOTONIC, by which the kernel stamps what is seen. Where there is no such clock
// it is a time that only ever grows.
func Monotonic() time.Duration { return clock.Monotonic() }

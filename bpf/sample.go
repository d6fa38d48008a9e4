package bpf

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Sample is one look at one thread while it ran.
type Sample struct {
	Time     time.Duration // on CLOCK_MONOTONIC
	PID, TID int
	CPU      int
	// GoID is the goroutine that the thread ran, or whose work the scheduler did on it; 0 none, or not known.
	GoID uint64
	// User is the program's stack: the address that ran, then return addresses, by frame pointers.
	User []uint64
	// Top is the two words at the program's stack pointer: see symbols.Process.Stack.
	Top [2]uint64
	// Kernel is the kernel's stack likewise, empty when the thread ran its own code.
	Kernel []uint64
}

// sampleHead is the length of the fixed part of struct sample in kernel/sampler.bpf.c.
const sampleHead = 56

// parseSample reads a record of the ring buffer.
func parseSample(b []byte) (*Sample, error) {
	le := binary.LittleEndian
	if len(b) < sampleHead {
		return nil, fmt.Errorf("a sample of %d bytes", len(b))
	}
	user, kernel := int(le.Uint32(b[20:])), int(le.Uint32(b[24:]))
	if len(b) < sampleHead+user+kernel {
		return nil, fmt.Errorf("a sample of %d bytes claims stacks of %d and %d", len(b), user, kernel)
	}
	return &Sample{
		Time:   time.Duration(le.Uint64(b)),
		PID:    int(le.Uint32(b[8:])),
		TID:    int(le.Uint32(b[12:])),
		CPU:    int(le.Uint32(b[16:])),
		GoID:   le.Uint64(b[32:]),
		Top:    [2]uint64{le.Uint64(b[40:]), le.Uint64(b[48:])},
		User:   words(b[sampleHead:][:user]),
		Kernel: words(b[sampleHead+user:][:kernel]),
	}, nil
}

func words(b []byte) []uint64 {
	out := make([]uint64, len(b)/8)
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return out
}

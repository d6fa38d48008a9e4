package bpf

import (
	"fmt"
	"time"
)

// Stage is what happened in a process's life.
type Stage uint32

// The stages, as in kernel/processes.bpf.c.
const (
	Forked   Stage = iota + 1 // a child of a process that is followed begins, and is followed too
	Executed                  // it runs another program from now on
	Ended                     // it is gone, and no longer followed
)

func (s Stage) String() string {
	switch s {
	case Forked:
		return "forked"
	case Executed:
		return "executed"
	case Ended:
		return "ended"
	}
	return fmt.Sprintf("Stage(%d)", uint32(s))
}

// Life is one thing in the life of a process that is followed.
type Life struct {
	Time   time.Duration // on CLOCK_MONOTONIC
	What   Stage
	PID    int
	Parent int // of Forked
}

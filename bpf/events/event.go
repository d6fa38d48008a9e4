package events

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"
)

// Kind is what happened.
type Kind uint32

// The kinds, as in kernel/events.bpf.c.
const (
	Refused  Kind = iota + 1 // a connection was refused: Address, Port
	Fork                     // a process was started
	NoSpace                  // a system call found no space left in a file system: FD
	ReadLoop                 // one stack reads over and over: FD, Persist
)

// String is the kind as a trace's table has it.
func (k Kind) String() string {
	switch k {
	case Refused:
		return "refused"
	case Fork:
		return "fork"
	case NoSpace:
		return "enospc"
	case ReadLoop:
		return "read_loop"
	}
	return fmt.Sprintf("Kind(%d)", uint32(k))
}

// Linux's numbers of errors (asm-generic/errno.h).
const (
	enospc       = 28
	econnrefused = 111
)

// Errno is the number of the error that the kind stands for on Linux, 0 for none.
func (k Kind) Errno() int {
	switch k {
	case Refused:
		return econnrefused
	case NoSpace:
		return enospc
	}
	return 0
}

// Event is what happened in a second at one place: equal in all but time and thread.
type Event struct {
	Kind     Kind
	Time     time.Duration // of the last, on CLOCK_MONOTONIC
	PID, TID int           // the thread is that of the first
	Address  netip.Addr    // of Refused
	Port     int           // of Refused
	FD       int           // of NoSpace, where a file was written, and ReadLoop; else -1
	Count    int64         // how often; of ReadLoop: reads in the last whole second
	// Persist is of ReadLoop for how long there have been as many reads in each second.
	Persist time.Duration
	// Stack is the addresses of the program's stack, leaf first, and Top the words for symbols.Process.Stack. Of
	// Refused it is who began to connect.
	Stack []uint64
	Top   [2]uint64
}

// Layout of struct happening in kernel/events.bpf.c.
const (
	kindAt      = 8
	pidAt       = 12
	tidAt       = 16
	fdAt        = 20
	addressAt   = 24
	portAt      = 40
	familyAt    = 42
	countAt     = 44
	persistAt   = 48
	stackLenAt  = 52
	topAt       = 56
	happeningAt = 80 // where the stack begins

	familyIPv6 = 10 // AF_INET6
)

func parse(b []byte) (*Event, error) {
	le := binary.LittleEndian
	if len(b) < happeningAt || len(b) < happeningAt+int(le.Uint32(b[stackLenAt:])) {
		return nil, fmt.Errorf("an event of %d bytes", len(b))
	}
	e := &Event{
		Kind: Kind(le.Uint32(b[kindAt:])), Time: time.Duration(le.Uint64(b)), PID: int(le.Uint32(b[pidAt:])), TID: int(le.Uint32(b[tidAt:])),
		FD: int(int32(le.Uint32(b[fdAt:]))), Count: 1, Top: [2]uint64{le.Uint64(b[topAt:]), le.Uint64(b[topAt+8:])},
	}
	switch e.Kind {
	case Refused:
		e.Port = int(le.Uint16(b[portAt:]))
		if e.Address = netip.AddrFrom4([4]byte(b[addressAt:])); le.Uint16(b[familyAt:]) == familyIPv6 {
			e.Address = netip.AddrFrom16([16]byte(b[addressAt:])).Unmap()
		}
	case ReadLoop:
		e.Count, e.Persist = int64(le.Uint32(b[countAt:])), time.Duration(le.Uint32(b[persistAt:]))*time.Second
	}
	for stack := b[happeningAt:][:le.Uint32(b[stackLenAt:])]; len(stack) >= 8; stack = stack[8:] {
		e.Stack = append(e.Stack, le.Uint64(stack))
	}
	return e, nil
}

// Loop is a stack that reads over and over.
type Loop struct {
	Time    time.Duration // of its last hot second's end, on CLOCK_MONOTONIC
	PID     int
	Rate    float64       // reads in that second
	Persist time.Duration // for how long it has been hot
}

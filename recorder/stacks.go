package recorder

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// namer names the code at addresses: of processes and of the kernel.
type namer interface {
	user(pid int, pcs []uint64, top [2]uint64) []traces.Frame
	kernelFrames(pcs []uint64) []traces.Frame
}

// stacks gives each distinct stack a number and one row. Numbers count from 1.
type stacks struct {
	names namer
	known map[[32]byte]int64 // by content
	emit  func(traces.Record)
}

func (s *stacks) user(at time.Duration, wall int64, pid int, pcs []uint64, top [2]uint64) int64 {
	return s.id(at, wall, s.names.user(pid, pcs, top), false)
}

func (s *stacks) kernel(at time.Duration, wall int64, pcs []uint64) int64 {
	return s.id(at, wall, s.names.kernelFrames(pcs), true)
}

// id is the number of a stack, 0 of an empty one.
func (s *stacks) id(at time.Duration, wall int64, frames []traces.Frame, kernel bool) int64 {
	if len(frames) == 0 {
		return 0
	}
	key := contentOf(frames, kernel)
	if id := s.known[key]; id != 0 {
		return id
	}
	id := int64(len(s.known)) + 1
	s.known[key] = id
	s.emit(&traces.Stack{Head: traces.Head{TS: int64(at) + wall}, StackID: id, Kernel: kernel, Frames: frames})
	return id
}

func contentOf(frames []traces.Frame, kernel bool) (key [32]byte) {
	var b []byte
	if kernel {
		b = append(b, 'k')
	}
	for _, f := range frames {
		b = append(b, f.Function...)
		b = append(b, 0)
		b = append(b, f.File...)
		b = append(b, 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(f.Line))
		if f.Inlined {
			b = append(b, 'i')
		}
		b = append(b, 0)
	}
	return sha256.Sum256(b)
}

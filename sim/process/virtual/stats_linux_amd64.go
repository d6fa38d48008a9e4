package virtual

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"syscall"
	"time"
)

const maxReasons = 100

func (s *Supervisor) startStats() {
	s.stats.by, s.stats.seen = map[int32]uint64{}, map[string]bool{}
	if s.opt.TrapHash {
		s.stats.hash = sha256.New()
		s.stats.buf = make([]byte, 0, 32*128)
	}
	if s.opt.TrapLog != nil {
		s.stats.log = bufio.NewWriterSize(s.opt.TrapLog, 64<<10)
	}
}

// count notes a trap when it arrives; record notes its outcome, when its thread runs on.
func (s *Supervisor) count(nr int32) {
	s.stats.traps++
	s.stats.by[nr]++
}

func (s *Supervisor) record(t *thread, val int64, errno syscall.Errno, cont bool) {
	s.recordAt(s.now(), t, val, errno, cont)
}

func (s *Supervisor) recordAt(at int64, t *thread, val int64, errno syscall.Errno, cont bool) {
	if s.stats.hash == nil && s.stats.log == nil {
		return
	}
	e := int64(errno)
	if cont {
		val, e = 0, -1
	}
	now := at - s.start
	if s.stats.hash != nil {
		b := s.stats.buf
		b = binary.LittleEndian.AppendUint64(b, uint64(t.idx)<<32|uint64(uint32(t.req.data.nr)))
		b = binary.LittleEndian.AppendUint64(b, uint64(val))
		b = binary.LittleEndian.AppendUint64(b, uint64(e))
		b = binary.LittleEndian.AppendUint64(b, uint64(now))
		if s.stats.buf = b; len(b) == cap(b) {
			s.flushHash()
		}
	}
	if s.stats.log != nil {
		d := &t.req.data
		fmt.Fprintf(s.stats.log, "%d %s t%d %s(%x, %x, %x) = %d e%d\n", now, t.p.root.spec.Name, t.idx, s.syscallName(d.nr), d.args[0], d.args[1], d.args[2], val, e)
	}
}

func (s *Supervisor) flushHash() {
	s.stats.hash.Write(s.stats.buf)
	s.stats.buf = s.stats.buf[:0]
}

// lose marks the run as not deterministic, with a reason in words.
func (s *Supervisor) lose(reason string) {
	if s.stats.seen[reason] || len(s.stats.reasons) >= maxReasons {
		return
	}
	s.stats.seen[reason] = true
	s.stats.reasons = append(s.stats.reasons, fmt.Sprintf("%v: %s", time.Duration(s.now()-s.start), reason))
}

// note records something that is the same in all runs on this machine but may not be on another.
func (s *Supervisor) note(text string) {
	if s.stats.seen[text] || len(s.stats.notes) >= maxReasons {
		return
	}
	s.stats.seen[text] = true
	s.stats.notes = append(s.stats.notes, text)
}

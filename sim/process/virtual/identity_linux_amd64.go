package virtual

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// What a process can see of itself and of the machine is part of what decides its run, so it is the same everywhere:
// it is process 1 of its machine, as in a container, and runs as a user without privileges.
const (
	visibleUID    = 65532 // "nonroot" of many container images
	kernelRelease = "5.15.0"
	memoryTotal   = 8 << 30
)

// visiblePid is what getpid says. A child's number is the operating system's: its parent has it from fork.
func (p *proc) visiblePid() int {
	if p == p.root.main {
		return 1
	}
	return p.pid
}

// visibleTid is what gettid says.
func (t *thread) visibleTid() int {
	if t.p == t.p.root.main {
		return t.vid
	}
	return t.tid
}

func (s *Supervisor) sysIdentity(t *thread, a *[6]uint64) {
	v := int64(visibleUID)
	switch t.req.data.nr {
	case unix.SYS_GETPID:
		v = int64(t.p.visiblePid())
	case unix.SYS_GETTID:
		v = int64(t.visibleTid())
	case unix.SYS_GETPPID:
		if v = 0; t.p.parent != nil {
			v = int64(t.p.parent.visiblePid())
		}
	case unix.SYS_GETGROUPS:
		v = 1
		if int32(a[0]) > 0 {
			s.okOr(t, 1, t.poke32(a[1], visibleUID))
			return
		}
	}
	if t.p != t.p.root.main && (t.req.data.nr == unix.SYS_GETPID || t.req.data.nr == unix.SYS_GETTID) {
		s.pass(t) // the operating system's numbers are not to be in the hash
		return
	}
	s.ok(t, v)
}

func (s *Supervisor) sysZero(t *thread, _ *[6]uint64) { s.ok(t, 0) }

func (s *Supervisor) sysGetrandom(t *thread, a *[6]uint64) {
	b := make([]byte, min(a[1], 1<<20))
	_, _ = t.p.rng.Read(b) // it never fails
	s.okOr(t, int64(len(b)), t.poke(a[0], b))
}

func (s *Supervisor) sysGetcpu(t *thread, a *[6]uint64) {
	for _, addr := range a[:2] {
		if addr != 0 {
			if err := t.poke32(addr, 0); err != nil {
				s.failErr(t, err)
				return
			}
		}
	}
	s.ok(t, 0)
}

func (s *Supervisor) sysAffinity(t *thread, a *[6]uint64) {
	const size = 8
	if a[1] < size {
		s.fail(t, unix.EINVAL)
		return
	}
	s.okOr(t, size, t.poke64(a[2], 1<<s.opt.CPUs-1))
}

func (s *Supervisor) sysUname(t *thread, a *[6]uint64) {
	var b [6 * 65]byte
	for i, v := range []string{"Linux", t.p.root.spec.Hostname, kernelRelease, "#1 SMP", "x86_64", "(none)"} {
		copy(b[65*i:65*i+64], v)
	}
	s.okOr(t, 0, t.poke(a[0], b[:]))
}

func (s *Supervisor) sysSysinfo(t *thread, a *[6]uint64) {
	var b [112]byte
	le := binary.LittleEndian
	le.PutUint64(b[0:], uint64((s.now()-s.monoZero)/1e9))
	le.PutUint64(b[32:], memoryTotal)
	le.PutUint64(b[40:], memoryTotal/2)
	le.PutUint16(b[80:], 1)  // processes
	le.PutUint32(b[104:], 1) // unit of memory: one byte
	s.okOr(t, 0, t.poke(a[0], b[:]))
}

// sysRusage reports virtual time as CPU time: real CPU time differs from run to run.
func (s *Supervisor) sysRusage(t *thread, a *[6]uint64) {
	var b [144]byte
	le := binary.LittleEndian
	ns := uint64(s.now() - s.start)
	le.PutUint64(b[0:], ns/1e9)
	le.PutUint64(b[8:], ns%1e9/1000)
	le.PutUint64(b[32:], 64<<10) // maximum resident set, KiB
	s.okOr(t, 0, t.poke(a[1], b[:]))
}

func (s *Supervisor) sysTimes(t *thread, a *[6]uint64) {
	ticks := (s.now() - s.start) / 1e7
	var err error
	if a[0] != 0 {
		var b [32]byte
		binary.LittleEndian.PutUint64(b[:], uint64(ticks))
		err = t.poke(a[0], b[:])
	}
	s.okOr(t, (s.now()-s.monoZero)/1e7, err)
}

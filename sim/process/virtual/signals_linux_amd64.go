package virtual

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel keeps a signal for a thread that waits in a trap until the trap is answered. So a signal is sent first,
// and then the wait of the thread that the kernel has chosen is ended, as the kernel would have.

// disposition is what a thread does with each signal, as bit masks (bit n-1 for signal n).
type disposition struct{ blocked, ignored, caught, pending uint64 }

func (t *thread) disposition() (d disposition) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", t.p.pid, t.tid))
	if err != nil {
		return d
	}
	for line := range bytes.Lines(b) {
		name, value, _ := bytes.Cut(line, []byte(":\t"))
		v, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
		if err != nil {
			continue
		}
		switch string(name) {
		case "SigBlk":
			d.blocked = v
		case "SigIgn":
			d.ignored = v
		case "SigCgt":
			d.caught = v
		case "SigPnd", "ShdPnd":
			d.pending |= v
		}
	}
	return d
}

// harmless are signals whose default is to be ignored.
func harmless(sig int) bool {
	switch unix.Signal(sig) {
	case unix.SIGCHLD, unix.SIGURG, unix.SIGWINCH, unix.SIGCONT:
		return true
	default:
		return false
	}
}

// signal sends sig to process p, or to its thread tid if that is not 0, and does what follows. info, if not nil, is
// the siginfo to send it with.
func (s *Supervisor) signal(p *proc, tid, sig int, info *siginfo) error {
	var err error
	switch {
	case info != nil && tid != 0:
		_, _, e := syscall.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(p.pid), uintptr(tid), uintptr(sig), uintptr(unsafe.Pointer(info)), 0, 0)
		err = nilIf(e)
	case info != nil:
		_, _, e := syscall.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(p.pid), uintptr(sig), uintptr(unsafe.Pointer(info)))
		err = nilIf(e)
	case tid != 0:
		err = unix.Tgkill(p.pid, tid, unix.Signal(sig))
	default:
		err = unix.Kill(p.pid, unix.Signal(sig))
	}
	if err == nil && sig != 0 {
		s.interrupt(p, tid, sig)
	}
	return err
}

func nilIf(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

// interrupt does what a signal that was just sent to p (or its thread tid) does to waits.
func (s *Supervisor) interrupt(p *proc, tid, sig int) {
	if p.dead {
		return
	}
	bit := uint64(1) << (sig - 1)
	var target *thread
	var d disposition
	for i, t := range p.threads {
		if tid != 0 && t.tid != tid {
			continue
		}
		td := t.disposition()
		if i == 0 || target == nil && d == (disposition{}) {
			d = td
		}
		if t.state == stateParked && t.park == parkSignal && t.sigWait&bit != 0 {
			s.retry(t) // it waits for just this
			return
		}
		if td.blocked&bit == 0 {
			target, d = t, td
			break
		}
	}
	if sig == int(unix.SIGKILL) {
		s.processEnded(p)
		return
	}
	if target == nil || d.ignored&bit != 0 {
		return
	}
	if d.caught&bit == 0 {
		if !harmless(sig) && sig != int(unix.SIGSTOP) && sig != int(unix.SIGTSTP) && sig != int(unix.SIGTTIN) && sig != int(unix.SIGTTOU) {
			s.endedBySignal(p)
		}
		return
	}
	s.breakWait(target)
}

// endedBySignal waits for the end of a process that a signal kills. One that runs (its own raise) is seen to end by
// the loop; a first process of a PID namespace may survive.
func (s *Supervisor) endedBySignal(p *proc) {
	if s.cur != nil && s.cur.p == p {
		return
	}
	if p.pidfd >= 0 && pollFor(p.pidfd, 1000) {
		s.processEnded(p)
	}
}

// breakWait ends the wait of a thread that has a signal to handle.
func (s *Supervisor) breakWait(t *thread) {
	if t.state != stateParked {
		return
	}
	errno := unix.EINTR
	switch t.park {
	case parkVfork, parkNone:
		return
	case parkFutex:
		if t.deadline == 0 {
			errno = errRestart
		}
	case parkSleep:
		s.pokeRemaining(t)
	case parkIO, parkChild:
		errno = errRestart
		if t.written > 0 {
			n := t.written
			t.written = 0
			s.wake(t, int64(n), 0)
			return
		}
	case parkSignal:
		s.retry(t) // the kernel makes it return
		return
	case parkEpoll, parkPoll:
	}
	s.wake(t, 0, errno)
}

// sysKill signals processes of this world only: a process must not reach its host's.
func (s *Supervisor) sysKill(t *thread, a *[6]uint64) {
	pid, sig := int(int32(a[0])), int(int32(a[1]))
	var targets []*proc
	for _, p := range t.p.root.family {
		if p.dead && !isZombie(p.pid) {
			continue
		}
		switch {
		case pid > 0 && (p.pid == pid || pid == p.visiblePid()):
			targets = append(targets, p)
		case pid == -1 && p != t.p && p != p.root.main:
			targets = append(targets, p)
		case pid == 0 || pid < -1:
			group := -pid
			if pid == 0 {
				group, _ = unix.Getpgid(t.p.pid)
			}
			if g, err := unix.Getpgid(p.pid); err == nil && (g == group || group == 1 && g == p.root.main.pid) {
				targets = append(targets, p)
			}
		}
	}
	s.killAll(t, targets, 0, sig)
}

// killAll answers the trap of t, which sends sig to targets. A signal to t's own process comes last: it acts when
// the answer is given.
func (s *Supervisor) killAll(t *thread, targets []*proc, tid, sig int) {
	if len(targets) == 0 {
		s.fail(t, unix.ESRCH)
		return
	}
	var last error
	self := false
	for _, p := range targets {
		if p == t.p {
			self = true
			continue
		}
		if err := s.signal(p, tid, sig, nil); err != nil {
			last = err
		}
	}
	if !self {
		if t.p.dead {
			return
		}
		s.okOr(t, 0, last)
		return
	}
	err := s.signal(t.p, tid, sig, nil)
	if t.p.dead {
		return
	}
	s.okOr(t, 0, err)
}

// sysTkill is tkill(tid, sig) and tgkill(pid, tid, sig). Threads are known by the number that gettid says and by the
// operating system's, which the C library has from clone.
func (s *Supervisor) sysTkill(t *thread, a *[6]uint64) {
	tid, sig := int(int32(a[0])), int(int32(a[1]))
	if t.req.data.nr == unix.SYS_TGKILL {
		tid, sig = int(int32(a[1])), int(int32(a[2]))
	}
	var target *thread
	for _, p := range t.p.root.family {
		for _, x := range p.threads {
			if x.tid == tid || x.visibleTid() == tid && target == nil {
				target = x
			}
		}
	}
	if target == nil {
		s.fail(t, unix.ESRCH)
		return
	}
	s.killAll(t, []*proc{target.p}, target.tid, sig)
}

func (s *Supervisor) sysPidfdSendSignal(t *thread, a *[6]uint64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", t.p.pid, int32(a[0])))
	if err != nil {
		s.pass(t)
		return
	}
	for _, p := range t.p.root.family {
		if bytes.Contains(b, fmt.Appendf(nil, "\nPid:\t%d\n", p.pid)) {
			s.killAll(t, []*proc{p}, 0, int(int32(a[1])))
			return
		}
	}
	s.fail(t, unix.ESRCH)
}

// sysSigWait is rt_sigtimedwait, rt_sigsuspend and pause: the kernel does them once a signal is there to end them.
func (s *Supervisor) sysSigWait(t *thread, a *[6]uint64) {
	d := t.disposition()
	wanted := ^d.blocked // pause
	if t.req.data.nr != unix.SYS_PAUSE {
		v, err := t.peek64(a[0])
		if err != nil {
			s.failErr(t, err)
			return
		}
		if wanted = v; t.req.data.nr == unix.SYS_RT_SIGSUSPEND {
			wanted = ^v
		}
	}
	if d.pending&wanted != 0 || d.pending&^d.blocked != 0 {
		s.pass(t)
		return
	}
	var deadline int64
	if t.req.data.nr == unix.SYS_RT_SIGTIMEDWAIT && a[2] != 0 {
		ns, err := t.peekTime(a[2])
		if err != nil || ns == 0 {
			s.pass(t)
			return
		}
		deadline = satAdd(s.now(), ns)
	}
	t.sigWait = wanted
	s.parkThread(t, parkSignal, deadline)
}

// sysSignalfd lets a signalfd be made; the kernel would show an epoll set of ours the supervisor's signals.
func (s *Supervisor) sysSignalfd(t *thread, _ *[6]uint64) {
	s.lose(t.p.name() + " reads signals from a descriptor (signalfd), which is not supervised")
	s.pass(t)
}

// siginfo is the kernel's siginfo_t, as far as a timer fills it.
type siginfo struct {
	signo, errno, code int32
	_                  int32
	timer, overrun     int32
	value              uint64
	_                  [128 - 32]byte
}

// timerSignal sends a timer's signal. Its siginfo matters: the C library's helper thread looks at it.
func (s *Supervisor) timerSignal(tm *timer) {
	if !tm.posix {
		_ = s.signal(tm.p, 0, tm.signal, nil)
		return
	}
	const siTimer = -2
	info := siginfo{signo: int32(tm.signal), code: siTimer, timer: tm.id, overrun: tm.overrun, value: tm.value}
	_ = s.signal(tm.p, tm.tid, tm.signal, &info)
}

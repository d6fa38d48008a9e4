package virtual

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's structures of include/uapi/linux/seccomp.h.

type seccompData struct {
	nr   int32
	arch uint32
	ip   uint64
	args [6]uint64
}

type notification struct {
	id    uint64
	tid   uint32
	flags uint32
	data  seccompData
}

type notifyAnswer struct {
	id    uint64
	val   int64
	errno int32 // negative
	flags uint32
}

type notifyAddFd struct {
	id         uint64
	flags      uint32
	srcFd      uint32
	newFd      uint32
	newFdFlags uint32
}

const (
	ioctlRecv     = 0xc0502100
	ioctlSend     = 0xc0182101
	ioctlAddFd    = 0x40182103
	ioctlSetFlags = 0x40082104

	flagContinue = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	addFdSend    = 2 // SECCOMP_ADDFD_FLAG_SEND: the new number is the call's result

	// errRestart is what the kernel itself returns from an interrupted call that is to be made again if the
	// signal's handler was installed with SA_RESTART, and to fail with EINTR otherwise.
	errRestart = syscall.Errno(512)
)

func ioctl(fd int, request uintptr, p unsafe.Pointer) syscall.Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p))
	return e
}

// syncWakeUp asks the kernel (Linux 6.6) to switch straight from the trapped thread to the supervisor and back.
func syncWakeUp(listener int) {
	_, _, _ = syscall.RawSyscall(unix.SYS_IOCTL, uintptr(listener), ioctlSetFlags, 1) // older kernels refuse
}

// receive takes a notification that poll has announced. False means that it went away: its thread was killed.
func receive(listener int, n *notification) (bool, error) {
	*n = notification{}
	switch e := ioctl(listener, ioctlRecv, unsafe.Pointer(n)); e {
	case 0:
		return true, nil
	case unix.ENOENT, unix.EINTR:
		return false, nil
	default:
		return false, e
	}
}

// reply answers the thread's outstanding trap. The thread runs on from here.
func (s *Supervisor) reply(t *thread, val int64, errno syscall.Errno, cont bool) {
	s.record(t, val, errno, cont)
	s.send(t, val, errno, cont)
}

func (s *Supervisor) send(t *thread, val int64, errno syscall.Errno, cont bool) {
	a := &s.answerBuf
	*a = notifyAnswer{id: t.req.id, val: val, errno: -int32(errno)}
	if cont {
		a.val, a.errno, a.flags = 0, 0, flagContinue
	} else if errno != 0 {
		a.val = 0
	}
	if e := s.sendRaw(t.p.root, a); e != 0 && e != unix.ENOENT { // ENOENT: the thread was killed meanwhile
		s.lose("the kernel refused the answer to a system call: " + e.Error())
	}
}

func (s *Supervisor) sendRaw(root *Process, a *notifyAnswer) syscall.Errno {
	for {
		if e := ioctl(root.listener, ioctlSend, unsafe.Pointer(a)); e != unix.EINTR {
			return e
		}
	}
}

// ok, fail and pass answer a trap of the thread that has the token: with a value, with an errno, or by letting the
// kernel do the call.
func (s *Supervisor) ok(t *thread, val int64)         { s.reply(t, val, 0, false) }
func (s *Supervisor) fail(t *thread, e syscall.Errno) { s.reply(t, 0, e, false) }
func (s *Supervisor) pass(t *thread)                  { s.reply(t, 0, 0, true) }
func (s *Supervisor) failErr(t *thread, err error)    { s.fail(t, errnoOf(err, unix.EIO)) }
func (s *Supervisor) okOr(t *thread, v int64, e error) {
	if e != nil {
		s.failErr(t, e)
		return
	}
	s.ok(t, v)
}

// install gives the thread's process a copy of our descriptor fd; its number is the trap's result.
func (s *Supervisor) install(t *thread, fd int, cloexec bool) (int32, syscall.Errno) {
	now := s.now() // before the thread runs on and reads the clock
	n, e := s.addFd(t, fd, cloexec, addFdSend)
	if e == 0 {
		s.recordAt(now, t, int64(n), 0, false)
	}
	return n, e
}

// addFd puts a copy of our descriptor fd into the process of t, at the lowest free number.
func (s *Supervisor) addFd(t *thread, fd int, cloexec bool, flags uint32) (int32, syscall.Errno) {
	a := notifyAddFd{id: t.req.id, flags: flags, srcFd: uint32(fd)}
	if cloexec {
		a.newFdFlags = unix.O_CLOEXEC
	}
	// A signal (Go's own preemption uses one) during this call would make the kernel restart it after the answer
	// was given; it would fail, and the process get a wrong number.
	defer blockSignals()()
	r, _, e := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(t.p.root.listener), ioctlAddFd, uintptr(unsafe.Pointer(&a)))
	return int32(r), e
}

// blockSignals blocks all signals on this thread, and keeps the goroutine on it, until the returned function is
// called.
func blockSignals() (restore func()) {
	runtime.LockOSThread()
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, &old)
	return func() {
		if err == nil {
			_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		}
		runtime.UnlockOSThread()
	}
}

// errnoOf returns the errno in err, or otherwise.
func errnoOf(err error, otherwise syscall.Errno) syscall.Errno {
	if e, ok := errors.AsType[syscall.Errno](err); ok && e != 0 {
		return e
	}
	return otherwise
}

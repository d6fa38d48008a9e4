package virtual

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const maxEpollEvents = 256

// An epoll set is made by us and given to the process, so that we own the same set: its events can be taken out
// here, and the process be told when it has the token.

func (s *Supervisor) sysEpollCreate(t *thread, a *[6]uint64) {
	cloexec := t.req.data.nr == unix.SYS_EPOLL_CREATE1 && a[0]&unix.EPOLL_CLOEXEC != 0
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		s.failErr(t, err)
		return
	}
	n, e := s.install(t, fd, cloexec)
	if e != 0 {
		unix.Close(fd)
		s.fail(t, e)
		return
	}
	t.p.files.put(n, &object{kind: objEpoll, fd: fd})
}

func (s *Supervisor) sysEpollWait(t *thread, a *[6]uint64) {
	set := t.p.files.get(a[0])
	if set == nil || set.kind != objEpoll {
		// Not made under our eyes (passed over a socket, say), or an error.
		s.blockOn(t, int(int32(a[0])), unix.POLLIN)
		return
	}
	if int32(a[2]) <= 0 {
		s.fail(t, unix.EINVAL)
		return
	}
	deadline, zero, err := s.epollDeadline(t, a)
	if err != nil {
		s.failErr(t, err)
		return
	}
	n := s.epollReady(t)
	if n == 0 && zero && s.idling(t) {
		return
	}
	if n != 0 || zero {
		s.ok(t, int64(n))
		return
	}
	s.parkThread(t, parkEpoll, deadline)
}

func (s *Supervisor) epollDeadline(t *thread, a *[6]uint64) (deadline int64, zero bool, err error) {
	if t.req.data.nr == unix.SYS_EPOLL_PWAIT2 {
		if a[3] == 0 {
			return 0, false, nil
		}
		ns, err := t.peekTime(a[3])
		return satAdd(s.now(), ns), ns == 0, err
	}
	ms := int64(int32(a[3]))
	if ms < 0 {
		return 0, false, nil
	}
	deadline = s.now() + ms*1e6
	if ms > 1 && t.req.data.nr == unix.SYS_EPOLL_PWAIT {
		// Go's runtime makes this call, and cuts its time-out to whole milliseconds: it would wake too early, find
		// nothing to do and wait for 1 ms more. A kernel may be late, and here it always is, by the part that was
		// cut at most: the timer runs at the same time as after two waits, for half of the traps.
		deadline += 1e6 - 1
	}
	return deadline, ms == 0, nil
}

// epollReady takes ready events out of the set that t waits for and copies them to where it wants them.
func (s *Supervisor) epollReady(t *thread) int {
	a := &t.req.data.args
	set := t.p.files.get(a[0])
	if set == nil || set.kind != objEpoll {
		return 0
	}
	var evs [maxEpollEvents]unix.EpollEvent
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_WAIT, uintptr(set.fd), uintptr(unsafe.Pointer(&evs[0])),
		uintptr(min(int(int32(a[2])), maxEpollEvents)), 0, 0, 0)
	if e != 0 || n == 0 {
		return 0
	}
	const size = unsafe.Sizeof(evs[0]) // 12: the kernel's structure is packed on amd64
	if t.poke(a[1], unsafe.Slice((*byte)(unsafe.Pointer(&evs[0])), size*n)) != nil {
		return -int(unix.EFAULT)
	}
	return int(n)
}

package virtual

import (
	"encoding/binary"
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pollSet is what a thread in poll or select waits for: copies of its descriptors, held while it is parked.
type pollSet struct {
	fds    []unix.PollFd // ours; -1 where it has none
	report func(fds []unix.PollFd) (int, syscall.Errno)
	reset  func() // what a time-out leaves in its memory
}

func (p *pollSet) close() {
	if p == nil {
		return
	}
	for _, f := range p.fds {
		if f.Fd >= 0 {
			unix.Close(int(f.Fd))
		}
	}
	p.fds = nil
}

func (p *pollSet) clear(*thread) {
	if p != nil && p.reset != nil {
		p.reset()
	}
}

// ready polls and, if anything is ready, tells the thread's memory.
func (p *pollSet) ready(*thread) (int, syscall.Errno) {
	if len(p.fds) == 0 {
		return 0, 0
	}
	n, err := pollRaw(p.fds, 0)
	if err != nil || n == 0 {
		return 0, 0
	}
	return p.report(p.fds)
}

// waitPoll finishes a poll or select: at once if something is ready or no time is given, else parked.
func (s *Supervisor) waitPoll(t *thread, p *pollSet, deadline int64, zero bool) {
	n, e := p.ready(t)
	if n != 0 || e != 0 || zero {
		if n == 0 && e == 0 {
			p.clear(t)
			if s.idling(t) {
				p.close()
				return
			}
		}
		p.close()
		s.reply(t, int64(n), e, false)
		return
	}
	t.polled = p
	s.parkThread(t, parkPoll, deadline)
}

func (s *Supervisor) sysPoll(t *thread, a *[6]uint64) {
	n := int(a[1])
	if n < 0 || n > 4096 {
		s.fail(t, unix.EINVAL)
		return
	}
	deadline, zero, err := s.pollDeadline(t, a)
	theirs := make([]unix.PollFd, n)
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(theirs))), 8*n)
	if err == nil {
		err = t.peek(a[0], raw)
	}
	if err != nil {
		s.failErr(t, err)
		return
	}
	set := &pollSet{fds: make([]unix.PollFd, n)}
	invalid := 0
	for i, f := range theirs {
		set.fds[i] = unix.PollFd{Fd: -1, Events: f.Events}
		theirs[i].Revents = 0
		if f.Fd < 0 {
			continue
		}
		fd, err := t.p.copyFd(int(f.Fd))
		if errors.Is(err, unix.EPERM) {
			set.close()
			s.uncopied(t)
			return
		}
		if err != nil {
			invalid++
			theirs[i].Revents = unix.POLLNVAL
			continue
		}
		set.fds[i].Fd = int32(fd)
	}
	addr := a[0]
	set.report = func(ours []unix.PollFd) (int, syscall.Errno) {
		n := invalid
		for i := range ours {
			if ours[i].Fd >= 0 {
				if theirs[i].Revents = ours[i].Revents; ours[i].Revents != 0 {
					n++
				}
			}
		}
		return n, pokeErrno(t, addr, raw)
	}
	set.reset = func() { _ = t.poke(addr, raw) }
	if invalid > 0 {
		_, _ = pollRaw(set.fds, 0)
		n, e := set.report(set.fds)
		set.close()
		s.reply(t, int64(n), e, false)
		return
	}
	s.waitPoll(t, set, deadline, zero)
}

func pokeErrno(t *thread, addr uint64, b []byte) syscall.Errno {
	if err := t.poke(addr, b); err != nil {
		return errnoOf(err, unix.EFAULT)
	}
	return 0
}

func (s *Supervisor) pollDeadline(t *thread, a *[6]uint64) (deadline int64, zero bool, err error) {
	if t.req.data.nr == unix.SYS_POLL {
		ms := int64(int32(a[2]))
		if ms < 0 {
			return 0, false, nil
		}
		return s.now() + ms*1e6, ms == 0, nil
	}
	if a[2] == 0 {
		return 0, false, nil
	}
	ns, err := t.peekTime(a[2])
	return satAdd(s.now(), ns), ns == 0, err
}

// sysSelect turns the three bit sets of select and pselect6 into a pollSet.
func (s *Supervisor) sysSelect(t *thread, a *[6]uint64) {
	n := int(int32(a[0]))
	if n < 0 || n > 1024 {
		s.fail(t, unix.EINVAL)
		return
	}
	deadline, zero, err := s.selectDeadline(t, a)
	size := (n + 63) / 64 * 8
	var in [3][]byte
	for i := range in {
		in[i] = make([]byte, size)
		if a[1+i] != 0 && err == nil {
			err = t.peek(a[1+i], in[i])
		}
	}
	if err != nil {
		s.failErr(t, err)
		return
	}
	set := &pollSet{}
	theirs, e := selectFds(t, n, in, set)
	if e != 0 {
		set.close()
		if e == unix.EPERM {
			s.uncopied(t)
			return
		}
		s.fail(t, e)
		return
	}
	addrs := [3]uint64{a[1], a[2], a[3]}
	set.report = func(ours []unix.PollFd) (int, syscall.Errno) { return selectReport(t, addrs, size, in, theirs, ours) }
	set.reset = func() {
		for _, addr := range addrs {
			if addr != 0 {
				_ = t.poke(addr, make([]byte, size))
			}
		}
	}
	s.waitPoll(t, set, deadline, zero)
}

// selectEvents are what poll reports for each of select's sets: readable, writable, exceptional.
var selectEvents = [3]int16{
	unix.POLLIN | unix.POLLHUP | unix.POLLERR,
	unix.POLLOUT | unix.POLLERR,
	unix.POLLPRI,
}

func bit(set []byte, i int) bool { return binary.LittleEndian.Uint64(set[i/64*8:])>>(i%64)&1 != 0 }
func setBit(set []byte, i int) {
	w := set[i/64*8:]
	binary.LittleEndian.PutUint64(w, binary.LittleEndian.Uint64(w)|1<<(i%64))
}

func selectFds(t *thread, n int, in [3][]byte, set *pollSet) ([]int, syscall.Errno) {
	var theirs []int
	for fd := range n {
		var want int16
		for k := range in {
			if bit(in[k], fd) {
				want |= selectEvents[k] &^ (unix.POLLHUP | unix.POLLERR)
			}
		}
		if want == 0 {
			continue
		}
		ours, err := t.p.copyFd(fd)
		if err != nil {
			return nil, errnoOf(err, unix.EBADF)
		}
		set.fds = append(set.fds, unix.PollFd{Fd: int32(ours), Events: want})
		theirs = append(theirs, fd)
	}
	return theirs, 0
}

func selectReport(t *thread, addrs [3]uint64, size int, in [3][]byte, theirs []int, ours []unix.PollFd) (int, syscall.Errno) {
	count := 0
	for k, addr := range addrs {
		out := make([]byte, size)
		for i, f := range ours {
			if bit(in[k], theirs[i]) && f.Revents&selectEvents[k] != 0 {
				setBit(out, theirs[i])
				count++
			}
		}
		if addr != 0 {
			if e := pokeErrno(t, addr, out); e != 0 {
				return 0, e
			}
		}
	}
	return count, 0
}

func (s *Supervisor) selectDeadline(t *thread, a *[6]uint64) (deadline int64, zero bool, err error) {
	if a[4] == 0 {
		return 0, false, nil
	}
	var ns int64
	if t.req.data.nr == unix.SYS_SELECT { // struct timeval
		var v [2]int64
		if err := t.peek(a[4], (*[16]byte)(unsafe.Pointer(&v))[:]); err != nil {
			return 0, false, err
		}
		ns, err = timespecNanos(v[0], v[1]*1000)
	} else {
		ns, err = t.peekTime(a[4])
	}
	return satAdd(s.now(), ns), ns == 0, err
}

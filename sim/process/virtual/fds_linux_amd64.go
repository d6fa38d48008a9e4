package virtual

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

type objectKind uint8

const (
	objEpoll objectKind = iota
	objSocket
	objTimer
	objOutput // standard output or error
)

// object is an open file of a process that the supervisor must know. Several descriptors, of several processes,
// may refer to it.
type object struct {
	kind   objectKind
	refs   int
	fd     int // our own descriptor of it, or -1
	sock   *socket
	timer  *timer
	output int // 1 or 2
}

// fdTable is the part of a process's descriptors that the supervisor must know.
type fdTable struct {
	s    *Supervisor
	refs int
	fds  map[int32]*object
}

func newFdTable(s *Supervisor) *fdTable { return &fdTable{s: s, refs: 1, fds: map[int32]*object{}} }

func (f *fdTable) get(fd uint64) *object { return f.fds[int32(fd)] }

func (f *fdTable) put(fd int32, o *object) {
	f.drop(fd)
	o.refs++
	f.fds[fd] = o
}

// drop forgets a descriptor; with the last one of an object, our own copy goes too. It must go before the process
// closes its descriptor: an epoll set reports a file until all descriptors of it are closed.
func (f *fdTable) drop(fd int32) {
	o := f.fds[fd]
	if o == nil {
		return
	}
	delete(f.fds, fd)
	if o.refs--; o.refs > 0 {
		return
	}
	if o.fd >= 0 {
		unix.Close(o.fd)
		o.fd = -1
	}
	if o.sock != nil {
		f.s.socketClosed(o.sock)
	}
	if o.timer != nil {
		f.s.removeTimer(o.timer)
	}
}

// clone is what fork does.
func (f *fdTable) clone() *fdTable {
	c := newFdTable(f.s)
	for fd, o := range f.fds {
		o.refs++
		c.fds[fd] = o
	}
	return c
}

func (f *fdTable) release() {
	if f.refs--; f.refs > 0 {
		return
	}
	for _, fd := range f.sorted() {
		f.drop(fd)
	}
}

// sorted lists the known descriptors in order: dropping one may be seen by the world.
func (f *fdTable) sorted() []int32 { return slices.Sorted(maps.Keys(f.fds)) }

// afterExec forgets the descriptors that exec has closed.
func (f *fdTable) afterExec(pid int) {
	for _, fd := range f.sorted() {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); errors.Is(err, os.ErrNotExist) {
			f.drop(fd)
		}
	}
}

// lowestFree is the number that the process's next descriptor gets, at least from.
func (p *proc) lowestFree(from int) int {
	dir, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
	if err != nil {
		return -1
	}
	used := make(map[int]bool, len(dir))
	for _, e := range dir {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			used[n] = true
		}
	}
	for used[from] {
		from++
	}
	return from
}

// copyFd gets our own copy of a descriptor of the process.
func (p *proc) copyFd(fd int) (int, error) {
	n, _, e := syscall.RawSyscall(unix.SYS_PIDFD_GETFD, uintptr(p.pidfd), uintptr(fd), 0)
	if e != 0 {
		return -1, e
	}
	return int(n), nil
}

func (s *Supervisor) sysClose(t *thread, a *[6]uint64) {
	t.p.files.drop(int32(a[0]))
	s.pass(t)
}

func (s *Supervisor) sysCloseRange(t *thread, a *[6]uint64) {
	const cloexec = 4 // CLOSE_RANGE_CLOEXEC
	if a[2]&cloexec == 0 {
		for _, fd := range t.p.files.sorted() {
			if uint64(fd) >= a[0] && uint64(fd) <= uint64(uint32(a[1])) {
				t.p.files.drop(fd)
			}
		}
	}
	s.pass(t)
}

func (s *Supervisor) sysDup(t *thread, a *[6]uint64) {
	if o := t.p.files.get(a[0]); o != nil {
		if n := t.p.lowestFree(0); n >= 0 {
			t.p.files.put(int32(n), o)
		}
	}
	s.pass(t)
}

func (s *Supervisor) sysFcntl(t *thread, a *[6]uint64) { // F_DUPFD, F_DUPFD_CLOEXEC
	if o := t.p.files.get(a[0]); o != nil {
		if n := t.p.lowestFree(int(int32(a[2]))); n >= 0 {
			t.p.files.put(int32(n), o)
		}
	}
	s.pass(t)
}

func (s *Supervisor) sysDup2(t *thread, a *[6]uint64) {
	from, to := int32(a[0]), int32(a[1])
	if from == to || to < 0 {
		s.pass(t)
		return
	}
	if o := t.p.files.fds[from]; o != nil {
		t.p.files.put(to, o)
	} else if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", t.p.pid, from)); err == nil {
		t.p.files.drop(to)
	}
	s.pass(t)
}

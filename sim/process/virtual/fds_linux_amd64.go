package virtual

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

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

// blockOn lets the kernel do a call that reads or writes fd, but not before it can be done without blocking.
func (s *Supervisor) blockOn(t *thread, fd int, want int16) {
	ours, err := t.p.copyFd(fd)
	if err != nil {
		if err == unix.EPERM {
			s.uncopied(t)
			return
		}
		s.pass(t)
		return
	}
	if pollOne(ours, want) || nonBlocking(ours) {
		unix.Close(ours)
		s.pass(t)
		return
	}
	t.ioFd, t.ioWant = ours, want
	s.parkThread(t, parkIO, 0)
}

// uncopied lets a call happen that may block, where we may not look at its descriptor.
func (s *Supervisor) uncopied(t *thread) {
	s.lose("pidfd_getfd is refused here (a container's default profile does): calls that block cannot be seen")
	s.pass(t)
}

func nonBlocking(fd int) bool {
	flags, _, e := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_GETFL, 0)
	return e != 0 || flags&unix.O_NONBLOCK != 0
}

func (s *Supervisor) sysRead(t *thread, a *[6]uint64) { s.blockOn(t, int(int32(a[0])), unix.POLLIN) }

func (s *Supervisor) sysRecv(t *thread, a *[6]uint64) {
	flags := a[3]
	if t.req.data.nr == unix.SYS_RECVMSG {
		flags = a[2]
	}
	if flags&unix.MSG_DONTWAIT != 0 {
		s.pass(t)
		return
	}
	s.blockOn(t, int(int32(a[0])), unix.POLLIN)
}

const maxGather = 4 << 20

func (s *Supervisor) sysWrite(t *thread, a *[6]uint64) {
	s.write(t, int(int32(a[0])), int(a[2]), func(limit int) ([]byte, error) {
		b := make([]byte, min(int(a[2]), limit))
		return b, t.peek(a[1], b)
	})
}

func (s *Supervisor) sysWritev(t *thread, a *[6]uint64) {
	s.write(t, int(int32(a[0])), math31, func(limit int) ([]byte, error) { return t.iovecs(a[1], int(int32(a[2])), limit) })
}

const math31 = 1<<31 - 1

func (s *Supervisor) sysSend(t *thread, a *[6]uint64) {
	o := t.p.files.get(a[0])
	if t.req.data.nr == unix.SYS_SENDTO {
		if o != nil && o.kind == objSocket && o.sock.udp && a[4] != 0 {
			s.fail(t, unix.ENETUNREACH)
			return
		}
		if a[3]&unix.MSG_DONTWAIT != 0 {
			s.pass(t)
			return
		}
		s.write(t, int(int32(a[0])), int(a[2]), func(limit int) ([]byte, error) {
			b := make([]byte, min(int(a[2]), limit))
			return b, t.peek(a[1], b)
		})
		return
	}
	if a[2]&unix.MSG_DONTWAIT != 0 {
		s.pass(t)
		return
	}
	var hdr unix.Msghdr
	if t.peek(a[1], (*[unix.SizeofMsghdr]byte)(unsafe.Pointer(&hdr))[:]) != nil || hdr.Controllen != 0 || hdr.Namelen != 0 {
		s.blockOn(t, int(int32(a[0])), unix.POLLOUT)
		return
	}
	vec, n := uint64(uintptr(unsafe.Pointer(hdr.Iov))), int(hdr.Iovlen)
	s.write(t, int(int32(a[0])), math31, func(limit int) ([]byte, error) { return t.iovecs(vec, n, limit) })
}

// write does a write of up to n bytes. What goes to standard output or error is taken by us. A blocking write that
// could be too much for a pipe or socket is done by us, piece by piece.
func (s *Supervisor) write(t *thread, fd, n int, data func(limit int) ([]byte, error)) {
	if o := t.p.files.fds[int32(fd)]; o != nil && o.kind == objOutput {
		b, err := data(maxGather)
		if err == nil {
			t.p.root.output(o.output, b, s.Now())
		}
		s.okOr(t, int64(len(b)), err)
		return
	}
	const pipeBuf = 4096 // a pipe that can be written has room for this much
	ours, err := t.p.copyFd(fd)
	if err != nil {
		s.pass(t)
		return
	}
	if nonBlocking(ours) || !streamLike(ours) || n <= pipeBuf && t.written == 0 && pollOne(ours, unix.POLLOUT) {
		unix.Close(ours)
		s.pass(t)
		return
	}
	s.writePieces(t, ours, data)
}

// streamLike says whether fd is a pipe or socket; writes to anything else don't wait for a reader.
func streamLike(fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	return st.Mode&unix.S_IFMT == unix.S_IFIFO || st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

func (s *Supervisor) writePieces(t *thread, ours int, data func(limit int) ([]byte, error)) {
	b, err := data(maxGather)
	if err != nil || len(b) <= t.written {
		unix.Close(ours)
		s.okOr(t, int64(t.written), err)
		t.written = 0
		return
	}
	for t.written < len(b) {
		n, err := writeNow(ours, b[t.written:])
		if n > 0 {
			t.written += n
			continue
		}
		if err == unix.EAGAIN {
			t.ioFd, t.ioWant = ours, unix.POLLOUT
			s.parkThread(t, parkIO, 0)
			return
		}
		unix.Close(ours)
		if t.written == 0 { // EPIPE, say: the process gets the error, and the signal, from the kernel
			s.pass(t)
			return
		}
		break
	}
	if t.written == len(b) {
		unix.Close(ours)
	}
	s.ok(t, int64(t.written))
	t.written = 0
}

// writeNow writes without blocking to a file that is in blocking mode. The mode belongs to the open file and so to
// the process too, which stands still meanwhile.
func writeNow(fd int, b []byte) (int, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return 0, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_NONBLOCK); err != nil {
		return 0, err
	}
	n, err := unix.Write(fd, b)
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	return n, err
}

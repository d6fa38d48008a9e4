package virtual

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// blockOn lets the kernel do a call that reads or writes fd, but not before it can be done without blocking.
func (s *Supervisor) blockOn(t *thread, fd int, want int16) {
	ours, err := t.p.copyFd(fd)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
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
		if errors.Is(err, unix.EAGAIN) {
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

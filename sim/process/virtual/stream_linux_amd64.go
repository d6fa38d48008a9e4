package virtual

import (
	"io"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Stream is the world's end of a connection of a process.
type Stream struct {
	s       *Supervisor
	id      int32
	p       *Process
	sock    *socket
	fd      int
	network string
	remote  netip.AddrPort // the other party as the process sees it
	local   netip.AddrPort // the process's own address
	inbound bool

	eof, closed, wantOut bool
	look                 uint64 // at which it was last seen to be ready
}

func (s *Supervisor) newStream(p *Process, k *socket, network string, remote, local netip.AddrPort) *Stream {
	s.nextConn++
	st := &Stream{s: s, id: s.nextConn, p: p, sock: k, fd: k.world, network: network, remote: remote, local: local}
	k.stream = st
	k.local, k.remote = local, remote
	s.streams[st.id] = st
	st.arm(unix.EPOLL_CTL_ADD)
	return st
}

func (st *Stream) arm(op int) {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: st.id}
	if st.eof {
		ev.Events = 0
	}
	if st.wantOut {
		ev.Events |= unix.EPOLLOUT
	}
	_ = unix.EpollCtl(st.s.readyFd, op, st.fd, &ev)
}

// forget takes a stream out of the list of those that can be ready.
func (s *Supervisor) forget(st *Stream) {
	if s.streams[st.id] == st {
		delete(s.streams, st.id)
		_ = unix.EpollCtl(s.readyFd, unix.EPOLL_CTL_DEL, st.fd, nil)
	}
}

// Ready reports whether the stream was among [Supervisor.Ready] when RunUntilIdle returned; it costs no system call.
// What it says of a stream that was made since then means nothing.
func (st *Stream) Ready() bool { return st.look == st.s.looks || st.s.readyFull }

// ID numbers the connections of a world in the order in which they were made, from 1.
func (st *Stream) ID() int { return int(st.id) }

// Process is whose connection it is.
func (st *Stream) Process() *Process { return st.p }

// Network is "tcp" or "udp".
func (st *Stream) Network() string { return st.network }

// Inbound says that the world dialled.
func (st *Stream) Inbound() bool { return st.inbound }

// Local is the process's address.
func (st *Stream) Local() netip.AddrPort { return st.local }

// Remote is the other party's address as the process sees it.
func (st *Stream) Remote() netip.AddrPort { return st.remote }

// Read reads what the process has written. It never waits: when there is nothing it returns 0, nil. At the end of
// what the process will write it returns io.EOF.
func (st *Stream) Read(p []byte) (int, error) {
	if st.closed {
		return 0, io.ErrClosedPipe
	}
	if st.eof || len(p) == 0 {
		return 0, eofIf(st.eof)
	}
	n, err := unix.Read(st.fd, p)
	st.s.touched = true // there is room for a writer
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err != nil || n == 0: // ECONNRESET: closed with data unread
		st.eof = true
		st.arm(unix.EPOLL_CTL_MOD)
		return 0, io.EOF
	}
	return n, nil
}

func eofIf(eof bool) error {
	if eof {
		return io.EOF
	}
	return nil
}

// Write writes to the process. It never waits: it may write less than all, without an error; then the stream is
// among [Supervisor.Ready] when more fits. io.ErrClosedPipe means that the process has closed the connection.
func (st *Stream) Write(p []byte) (int, error) {
	if st.closed {
		return 0, io.ErrClosedPipe
	}
	st.s.touched = true
	done := 0
	var err error
	for done < len(p) && err == nil {
		var n int
		n, err = unix.SendmsgN(st.fd, p[done:], nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		if n > 0 {
			done += n
		}
	}
	if full := err == unix.EAGAIN || err == unix.ENOBUFS; full != st.wantOut && (err == nil || full) {
		st.wantOut = full
		st.arm(unix.EPOLL_CTL_MOD)
	}
	if err == nil || err == unix.EAGAIN || err == unix.ENOBUFS {
		return done, nil
	}
	return done, io.ErrClosedPipe
}

// CloseWrite tells the process that nothing more comes.
func (st *Stream) CloseWrite() error {
	if st.closed {
		return io.ErrClosedPipe
	}
	st.s.touched = true
	return unix.Shutdown(st.fd, unix.SHUT_WR)
}

// Close ends the connection. What the process has not yet read can still be read.
func (st *Stream) Close() error {
	if st.closed {
		return nil
	}
	st.closed, st.s.touched = true, true
	st.s.forget(st)
	return unix.Close(st.fd)
}

// Ready lists, by ID, the streams that have something to read (the end of what the process writes included) or
// that can take more after a Write that could not write all.
func (s *Supervisor) Ready() []*Stream {
	if s.readyNum < 0 {
		s.lookOutside()
	}
	n := s.readyNum
	s.readyNum = -1
	var out []*Stream
	for _, ev := range s.readyEvs[:n] {
		st := s.streams[ev.Fd]
		if st == nil || st.eof && ev.Events&unix.EPOLLOUT == 0 {
			continue
		}
		i := len(out)
		for i > 0 && out[i-1].id > st.id {
			i--
		}
		out = append(out, nil)
		copy(out[i+1:], out[i:])
		out[i] = st
	}
	return out
}

// lookOutside asks which streams are ready, and reads output pipes if something has reached them.
func (s *Supervisor) lookOutside() {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_WAIT, uintptr(s.readyFd), uintptr(unsafe.Pointer(&s.readyEvs[0])), uintptr(len(s.readyEvs)), 0, 0, 0)
	if s.readyNum = int(n); e != 0 {
		s.readyNum = 0
	}
	s.looks++
	s.readyFull = s.readyNum == len(s.readyEvs)
	outputs := false
	for _, ev := range s.readyEvs[:s.readyNum] {
		if ev.Fd < 0 {
			outputs = true
		} else if st := s.streams[ev.Fd]; st != nil {
			st.look = s.looks
		}
	}
	if outputs {
		s.drainOutputs()
	}
}

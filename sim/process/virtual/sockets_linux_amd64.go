package virtual

import (
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// A TCP or UDP socket of a process is one end of a socketpair from the moment it is made; we have the other end.
// Nothing reaches a real network, delivery is immediate, and all the usual calls work on it.
type socket struct {
	p      *proc
	family int // AF_INET or AF_INET6
	udp    bool
	// world is our end; it belongs to a Stream once the socket is connected. theirs is a copy of the process's
	// end, kept only while it may become a listening one: held longer, the end of the connection would not show.
	world, theirs int
	local, remote netip.AddrPort
	stream        *Stream
	listening     bool
	backlog       int
	pending       []pendingConn
}

// pendingConn is a connection that the world has made and the process has not yet accepted.
type pendingConn struct {
	fd     int // the process's end
	stream *Stream
}

const (
	// socketBuffer is a size that a socket may have everywhere without privileges, so that a process's writes
	// are cut at the same places on every machine.
	socketBuffer   = 200_000
	firstEphemeral = 32768
	maxBacklog     = 4096
)

func (s *Supervisor) sysSocket(t *thread, a *[6]uint64) {
	family, kind := int(a[0]), int(a[1])&0xf
	switch family {
	case unix.AF_INET, unix.AF_INET6:
		if kind != unix.SOCK_STREAM && kind != unix.SOCK_DGRAM {
			s.fail(t, unix.EPERM)
			return
		}
	case unix.AF_UNIX:
		s.pass(t)
		return
	default: // netlink would show the host's interfaces
		s.fail(t, unix.EAFNOSUPPORT)
		return
	}
	sock := &socket{p: t.p, family: family, udp: kind == unix.SOCK_DGRAM}
	if err := sock.open(kind, a[1]&unix.SOCK_NONBLOCK != 0); err != nil {
		s.failErr(t, err)
		return
	}
	n, e := s.install(t, sock.theirs, a[1]&unix.SOCK_CLOEXEC != 0)
	if e != 0 {
		s.socketClosed(sock)
		s.fail(t, e)
		return
	}
	t.p.files.put(n, &object{kind: objSocket, fd: -1, sock: sock})
}

// open makes the pair. The world's end never blocks.
func (k *socket) open(kind int, nonblock bool) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	k.world, k.theirs = pair[0], pair[1]
	for _, fd := range pair {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer)
	}
	if err := unix.SetNonblock(k.world, true); err != nil {
		return err
	}
	return unix.SetNonblock(k.theirs, nonblock)
}

// socketClosed frees what we hold of a socket whose last descriptor goes.
func (s *Supervisor) socketClosed(k *socket) {
	if k.theirs >= 0 {
		unix.Close(k.theirs)
		k.theirs = -1
	}
	if k.stream == nil && k.world >= 0 {
		unix.Close(k.world)
		k.world = -1
	}
	for _, c := range k.pending {
		unix.Close(c.fd) // the world sees the end of the connection
	}
	k.pending = nil
	if k.listening {
		k.listening = false
		root := k.p.root
		for i, x := range root.listeners {
			if x == k {
				root.listeners = append(root.listeners[:i], root.listeners[i+1:]...)
				break
			}
		}
		if s.opt.Network != nil {
			s.opt.Network.Unlisten(root, k.local)
		}
	}
}

// sockOf is the socket behind a descriptor, or nil: then the kernel answers.
func (t *thread) sockOf(fd uint64) *socket {
	if o := t.p.files.get(fd); o != nil && o.kind == objSocket {
		return o.sock
	}
	return nil
}

func (s *Supervisor) sysBind(t *thread, a *[6]uint64) {
	k := t.sockOf(a[0])
	if k == nil {
		if name, ok := t.unixName(a); ok {
			s.unixNames[name] = true
		}
		s.pass(t)
		return
	}
	ap, err := t.peekAddr(a[1], a[2])
	if err != nil {
		s.failErr(t, err)
		return
	}
	if k.local.IsValid() {
		s.fail(t, unix.EINVAL)
		return
	}
	root := t.p.root
	if ap.Port() == 0 {
		ap = netip.AddrPortFrom(ap.Addr(), root.ephemeral())
	} else if root.listener4(ap) != nil && !k.udp {
		s.fail(t, unix.EADDRINUSE)
		return
	}
	k.local = ap
	s.ok(t, 0)
}

// ephemeral is the next port that the system would have chosen. Each process (a pod of its own) counts alone.
func (p *Process) ephemeral() uint16 {
	port := firstEphemeral + p.nextPort%(65536-firstEphemeral)
	p.nextPort++
	return uint16(port)
}

// listener4 is the listening socket that a connection to ap reaches, or nil.
func (p *Process) listener4(ap netip.AddrPort) *socket {
	for _, k := range p.listeners {
		ip := k.local.Addr()
		if k.local.Port() == ap.Port() && (ip.IsUnspecified() || ap.Addr().IsUnspecified() || ip.Unmap() == ap.Addr().Unmap() || !ap.Addr().IsLoopback() && !ip.IsLoopback()) {
			return k
		}
	}
	return nil
}

func (s *Supervisor) sysListen(t *thread, a *[6]uint64) {
	k := t.sockOf(a[0])
	if k == nil {
		s.pass(t)
		return
	}
	if k.udp || k.stream != nil {
		s.fail(t, unix.EOPNOTSUPP)
		return
	}
	k.backlog = min(max(int(int32(a[1])), 1), maxBacklog)
	if k.listening {
		s.ok(t, 0)
		return
	}
	root := t.p.root
	if !k.local.IsValid() {
		any := netip.IPv4Unspecified()
		if k.family == unix.AF_INET6 {
			any = netip.IPv6Unspecified()
		}
		k.local = netip.AddrPortFrom(any, root.ephemeral())
	}
	if root.listener4(k.local) != nil {
		s.fail(t, unix.EADDRINUSE)
		return
	}
	k.listening = true
	root.listeners = append(root.listeners, k)
	if s.opt.Network != nil {
		s.opt.Network.Listen(root, k.local)
	}
	s.ok(t, 0)
}

// Dial makes a connection into a process that listens on addr; it becomes the process's when it accepts. The
// process sees it come from 'from'. An error wraps syscall.ECONNREFUSED.
func (s *Supervisor) Dial(p *Process, addr, from netip.AddrPort) (*Stream, error) {
	k := p.listener4(addr)
	if k == nil || p.gone || len(k.pending) >= k.backlog {
		return nil, fmt.Errorf("dial %s at %v: %w", p.spec.Name, addr, unix.ECONNREFUSED)
	}
	c := &socket{p: k.p, family: k.family}
	if err := c.open(unix.SOCK_STREAM, false); err != nil {
		return nil, err
	}
	st := s.newStream(p, c, "tcp", from, addr)
	st.inbound = true
	k.pending = append(k.pending, pendingConn{c.theirs, st})
	c.theirs = -1
	s.touched = true
	// A byte at the listening socket makes it readable, once for each connection.
	_, _ = unix.Write(k.world, []byte{0})
	for _, t := range s.order {
		if t.state == stateParked && t.park == parkIO && t.req.data.nr != unix.SYS_READ && t.sockOf(t.req.data.args[0]) == k {
			s.retry(t)
			break
		}
	}
	return st, nil
}

func (s *Supervisor) sysAccept(t *thread, a *[6]uint64) {
	k := t.sockOf(a[0])
	if k == nil {
		s.blockOn(t, int(int32(a[0])), unix.POLLIN)
		return
	}
	if !k.listening {
		s.fail(t, unix.EINVAL)
		return
	}
	if len(k.pending) == 0 {
		if nonBlocking(k.theirs) {
			s.fail(t, unix.EAGAIN)
			return
		}
		s.parkThread(t, parkIO, 0)
		return
	}
	c := k.pending[0]
	k.pending = k.pending[1:]
	var b [1]byte
	_, _, _ = unix.Recvfrom(k.theirs, b[:], unix.MSG_DONTWAIT)
	flags := uint64(0)
	if t.req.data.nr == unix.SYS_ACCEPT4 {
		flags = a[3]
	}
	if err := t.pokeAddr(k.family, c.stream.remote, a[1], a[2]); err != nil {
		unix.Close(c.fd)
		s.failErr(t, err)
		return
	}
	_ = unix.SetNonblock(c.fd, flags&unix.SOCK_NONBLOCK != 0)
	n, e := s.install(t, c.fd, flags&unix.SOCK_CLOEXEC != 0)
	unix.Close(c.fd)
	if e != 0 {
		s.fail(t, e)
		return
	}
	sock := c.stream.sock
	sock.p = t.p
	t.p.files.put(n, &object{kind: objSocket, fd: -1, sock: sock})
}

func (s *Supervisor) sysConnect(t *thread, a *[6]uint64) {
	k := t.sockOf(a[0])
	if k == nil {
		s.connectUnix(t, a)
		return
	}
	ap, err := t.peekAddr(a[1], a[2])
	if err != nil {
		s.failErr(t, err)
		return
	}
	switch {
	case k.listening || !k.udp && k.stream != nil:
		s.fail(t, unix.EISCONN)
		return
	case !ap.IsValid() || k.stream != nil: // a UDP socket is given another peer; the world does not follow
		s.fail(t, unix.ENETUNREACH)
		return
	case ap.Addr().IsUnspecified(): // means this machine
		ap = netip.AddrPortFrom(loopback(ap.Addr()), ap.Port())
	}
	network := "tcp"
	if k.udp {
		network = "udp"
	}
	root := t.p.root
	local := t.p.sourceFor(ap.Addr())
	if port := k.local.Port(); port != 0 {
		k.local = netip.AddrPortFrom(local, port)
	} else {
		k.local = netip.AddrPortFrom(local, root.ephemeral())
	}
	st := s.newStream(root, k, network, ap, k.local)
	if s.opt.Network == nil {
		err = unix.ECONNREFUSED
	} else {
		err = s.opt.Network.Connect(root, network, netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), st)
	}
	if err != nil {
		s.disconnect(k, st)
		s.fail(t, errnoOf(err, unix.ECONNREFUSED))
		return
	}
	k.remote = ap
	unix.Close(k.theirs)
	k.theirs = -1
	s.ok(t, 0)
}

// disconnect undoes newStream for a refused connection. The descriptors stay: the process closes its own.
func (s *Supervisor) disconnect(k *socket, st *Stream) {
	s.forget(st)
	st.closed = true
	k.stream, k.local = nil, netip.AddrPort{}
}

// connectUnix lets a connection to a Unix socket happen. One that no process of this world has bound leads out of it.
func (s *Supervisor) connectUnix(t *thread, a *[6]uint64) {
	if name, ok := t.unixName(a); ok && !s.unixNames[name] {
		if _, err := os.Lstat(name); err == nil || name[0] == 0 {
			s.lose(fmt.Sprintf("%s connects to the Unix socket %q outside of the world", t.p.name(), name))
		}
	}
	s.blockOn(t, int(int32(a[0])), unix.POLLOUT)
}

func (s *Supervisor) sysSockName(t *thread, a *[6]uint64) {
	k := t.sockOf(a[0])
	if k == nil {
		s.pass(t)
		return
	}
	ap := k.local
	if t.req.data.nr == unix.SYS_GETPEERNAME {
		if ap = k.remote; !ap.IsValid() {
			s.fail(t, unix.ENOTCONN)
			return
		}
	}
	s.okOr(t, 0, t.pokeAddr(k.family, ap, a[1], a[2]))
}

func (s *Supervisor) sysSetsockopt(t *thread, a *[6]uint64) {
	if t.sockOf(a[0]) == nil {
		s.pass(t)
		return
	}
	if a[1] == unix.SOL_SOCKET && (a[2] == unix.SO_RCVTIMEO || a[2] == unix.SO_SNDTIMEO) {
		s.note(t.p.name() + " sets a time-out on a blocking socket, which never passes here")
	}
	s.ok(t, 0) // what a TCP socket would take
}

// sysGetsockopt answers what would show that the socket is none of TCP.
func (s *Supervisor) sysGetsockopt(t *thread, a *[6]uint64) {
	k := t.sockOf(a[0])
	if k == nil {
		s.pass(t)
		return
	}
	var v uint32
	switch {
	case a[1] != unix.SOL_SOCKET: // TCP, IP, IPv6: options read as off
	case a[2] == unix.SO_DOMAIN:
		v = uint32(k.family)
	case a[2] == unix.SO_PROTOCOL:
		if v = unix.IPPROTO_TCP; k.udp {
			v = unix.IPPROTO_UDP
		}
	case a[2] == unix.SO_ACCEPTCONN:
		if k.listening {
			v = 1
		}
	default:
		s.pass(t)
		return
	}
	size, err := t.peek32(a[4])
	if err == nil && size >= 4 {
		if err = t.poke32(a[3], v); err == nil {
			err = t.poke32(a[4], 4)
		}
	}
	s.okOr(t, 0, err)
}

//go:build linux || darwin || freebsd

package livecluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// supported says why the package cannot run here, or nil.
func supported() error { return nil }

// guard is a process group that does not outlive us. Its leader is a shell that waits at the end of a
// pipe whose other end only we hold; when we close it, or die in whatever way, the shell kills the
// group and with it itself.
//
// Nothing slips through: a child that is just being started still holds a copy of our end until it
// executes its program (close-on-exec), and by then it has joined the group. A parent death signal
// would do the same only on Linux, and only as long as the thread that started the child lives.
type guard struct {
	shell *exec.Cmd
	pipe  io.Closer
}

func newGuard() (*guard, error) {
	shell := exec.Command("/bin/sh", "-c", "read -r line; kill -KILL 0")
	shell.Env = []string{}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := shell.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard of the servers: %w", err)
	}
	if err := shell.Start(); err != nil {
		return nil, fmt.Errorf("start the guard of the servers: %w", err)
	}
	return &guard{shell, pipe}, nil
}

// join makes CMD start as a member of the group. A terminal's ^C does not reach it there, so that it is
// ours to stop in order.
func (g *guard) join(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.shell.Process.Pid}
}

// close kills what is left of the group.
func (g *guard) close() {
	_ = g.pipe.Close()
	_ = g.shell.Wait() // killed by its own signal: the error says only that
}

// terminate asks a process to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// tryLock locks PATH, which is created if need be, for as long as the file is open, and at most for the
// life of this process. Without an error and without a file, another has it.
func tryLock(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// port is a TCP port of 127.0.0.1 that is ours as long as it is not released.
type port struct {
	number int
	fd     int
}

// reservePort binds a free port without listening on it, and lets others of the same user bind it too
// (SO_REUSEPORT). The kernel gives a bound port to nobody who asks for any free one, so a server that
// is told this port, and --permit-port-sharing, gets it for certain: there is no moment at which it is
// free for others to take. Connections go only to a socket that listens, never to ours.
func reservePort() (port, error) {
	syscall.ForkLock.RLock()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return port{}, fmt.Errorf("reserve a port: %w", err)
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var addr unix.Sockaddr
	if err == nil {
		addr, err = unix.Getsockname(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return port{}, fmt.Errorf("reserve a port on 127.0.0.1: %w", err)
	}
	return port{number: addr.(*unix.SockaddrInet4).Port, fd: fd}, nil
}

func (p port) release() { _ = unix.Close(p.fd) }

package virtual

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The supervising program starts itself again under these names; no user would choose them as argv[0].
const (
	shimName   = "opsim:shim"
	reaperName = "opsim:reaper"
)

// shimFd is where the shim finds its socket to the supervisor.
const shimFd = 3

func init() { Shim() }

// Shim turns this process into the supervisor's helper if it was started as one, and then does not return.
// Importing the package is enough (it runs as early as the language allows, before a large program's own
// initialisation); calling it first in main does no harm.
func Shim() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case shimName:
		shimMain()
	case reaperName:
		reaperMain()
	case probeName:
		probeMain()
	}
}

// shimMain installs the filter on this thread, hands its listener to the supervisor and becomes the guest.
// Arguments: lo and hi of the Go text, the executable, its argv. Between the filter and exec nothing but raw
// system calls may happen: the Go runtime's own would stop, with nobody yet there to let them go on.
func shimMain() {
	runtime.LockOSThread()
	if len(os.Args) < 4 {
		os.Exit(2)
	}
	lo, _ := strconv.ParseUint(os.Args[1], 10, 32)
	hi, _ := strconv.ParseUint(os.Args[2], 10, 32)
	path, err := syscall.BytePtrFromString(os.Args[3])
	argv, err2 := syscall.SlicePtrFromStrings(os.Args[4:])
	envv, err3 := syscall.SlicePtrFromStrings(os.Environ())
	if err != nil || err2 != nil || err3 != nil {
		shimFail(1, unix.EINVAL)
	}
	unix.CloseOnExec(shimFd)
	// The layout of memory is part of what a process can see. Refused in some containers: then addresses differ
	// between runs, which matters only to programs that show them.
	_, _, _ = syscall.RawSyscall(unix.SYS_PERSONALITY, 0x0040000 /* ADDR_NO_RANDOMIZE */, 0, 0)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		shimFail(2, errnoOf(err, unix.EINVAL))
	}
	// Like the first process of a container, the program inherits the orphans among its descendants.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	prog := assemble(traps(), goText{uint32(lo), uint32(hi)})
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	msg, slot := rightsMessage()

	fd, errno := installFilter(&fprog)
	if errno != 0 {
		shimFail(3, errno)
	}
	*slot = int32(fd)
	_, _, errno = syscall.RawSyscall(unix.SYS_SENDMSG, shimFd, uintptr(unsafe.Pointer(msg)), shimMagic<<32)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall6(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])),
			uintptr(unsafe.Pointer(&envv[0])), shimMagic, 0, 0)
	}
	shimFail(4, errno)
}

func installFilter(p *unix.SockFprog) (uintptr, unix.Errno) {
	const (
		setModeFilter = 1
		specAllow     = 1 << 2 // no slower code against speculation: this is no sandbox
		newListener   = 1 << 3
		waitKillable  = 1 << 5 // signals wait until a trap is answered
	)
	fd, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, setModeFilter, specAllow|newListener|waitKillable, uintptr(unsafe.Pointer(p)))
	return fd, errno
}

// rightsMessage is a message that passes one descriptor, whose number is to be written to the slot.
func rightsMessage() (*unix.Msghdr, *int32) {
	oob := unix.UnixRights(0)
	body := make([]byte, 8)
	iov := &unix.Iovec{Base: &body[0]}
	iov.SetLen(len(body))
	msg := &unix.Msghdr{Iov: iov, Control: &oob[0]}
	msg.SetIovlen(1)
	msg.SetControllen(len(oob))
	return msg, (*int32)(unsafe.Pointer(&oob[unix.CmsgLen(0)]))
}

// shimFail tells the supervisor which step failed and why, by a message without a descriptor.
func shimFail(step uint32, errno unix.Errno) {
	var body [8]byte
	binary.LittleEndian.PutUint32(body[:], step)
	binary.LittleEndian.PutUint32(body[4:], uint32(errno))
	iov := unix.Iovec{Base: &body[0]}
	iov.SetLen(len(body))
	msg := unix.Msghdr{Iov: &iov}
	msg.SetIovlen(1)
	_, _, _ = syscall.RawSyscall(unix.SYS_SENDMSG, shimFd, uintptr(unsafe.Pointer(&msg)), shimMagic<<32)
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

// shimError explains a message of shimFail.
func shimError(path string, step, errno uint32) error {
	err := unix.Errno(errno)
	switch step {
	case 2:
		return &Error{"start " + path, "the kernel refuses no_new_privs", err}
	case 3:
		return &Error{"start " + path, "the kernel or the container refuses a seccomp filter with a listener (Linux 5.19 or later is needed)", err}
	case 4:
		return fmt.Errorf("start %s: %w", path, err)
	}
	return &Error{"start " + path, "the helper process failed", err}
}

// receiveListener receives the listener of a filter from a shim, and waits until the shim has become the guest.
func receiveListener(sock int, path string) (int, error) {
	body, oob := make([]byte, 8), make([]byte, 64)
	listener := -1
	for {
		n, on, _, _, err := unix.Recvmsg(sock, body, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, err
		}
		if n == 0 { // closed by exec
			if listener < 0 {
				return -1, &Error{"start " + path, "the helper process died", io.ErrUnexpectedEOF}
			}
			return listener, nil
		}
		if on == 0 {
			if listener >= 0 {
				unix.Close(listener)
			}
			return -1, shimError(path, binary.LittleEndian.Uint32(body), binary.LittleEndian.Uint32(body[4:]))
		}
		m, err := unix.ParseSocketControlMessage(oob[:on])
		if err != nil || len(m) != 1 {
			return -1, &Error{"start " + path, "the helper process sent no listener", err}
		}
		fds, err := unix.ParseUnixRights(&m[0])
		if err != nil || len(fds) != 1 {
			return -1, &Error{"start " + path, "the helper process sent no listener", err}
		}
		listener = fds[0]
	}
}

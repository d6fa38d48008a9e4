package virtual

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// reaperName is the name under which the supervising program starts itself again; no user would choose it as argv[0].
const reaperName = "opsim:reaper"

func init() { Shim() }

// Shim turns this process into a helper of the supervisor's if it was started as one, and then does not return.
// Importing the package is enough (it runs as early as the language allows, before a large program's own
// initialisation); calling it first in main does no harm.
func Shim() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case reaperName:
		reaperMain()
	case probeName:
		probeMain()
	}
}

// shimError explains what a shim says of the step at which it failed.
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

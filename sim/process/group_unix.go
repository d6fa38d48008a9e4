//go:build unix

package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

// killGroup kills what is left of the group that PID led. The id stays taken while the group has members, so
// that it cannot hit a stranger's.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

func exitOf(state *os.ProcessState) Exit {
	e := Exit{Code: state.ExitCode()}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal = SignalName(ws.Signal())
	}
	return e
}

// SignalName is a signal's name, such as "SIGKILL"; "" for a number that is none.
func SignalName(s syscall.Signal) string { return unix.SignalName(s) }

//go:build !unix

package process

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// terminate kills: there is no signal that asks.
func terminate(p *os.Process) { _ = p.Kill() }

func killGroup(int) {}

func exitOf(state *os.ProcessState) Exit { return Exit{Code: state.ExitCode()} }

// SignalName is what the system says in words.
func SignalName(s syscall.Signal) string { return s.String() }

//go:build !(linux || darwin || freebsd)

package livecluster

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

func supported() error {
	return fmt.Errorf("livecluster runs on Linux, macOS and FreeBSD, not on %s: it needs process groups and file locks of Unix", runtime.GOOS)
}

type guard struct{}

func newGuard() (*guard, error)     { return nil, supported() }
func (g *guard) join(cmd *exec.Cmd) {}
func (g *guard) close()             {}

func terminate(p *os.Process) error { return p.Kill() }

func tryLock(path string, flags int) (*os.File, error) { return nil, supported() }

type port struct{ number int }

func reservePort() (port, error) { return port{}, supported() }
func (p port) release()          {}

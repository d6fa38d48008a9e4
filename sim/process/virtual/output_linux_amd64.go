package virtual

import (
	"bytes"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// outputPipe is behind a standard descriptor of a process. Writes to it are taken when they trap; what reaches it
// by other ways (splice, a static Go program's copy of the descriptor) is read when the processes are idle.
type outputPipe struct {
	p  *Process
	n  int // 1 or 2
	id int32
	fd int
}

func (p *Process) openOutputs() ([2]*os.File, error) {
	var out [2]*os.File
	for i := range out {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return out, err
		}
		_ = unix.SetNonblock(fds[0], true)
		p.s.nextPipe--
		o := &outputPipe{p: p, n: i + 1, id: p.s.nextPipe, fd: fds[0]}
		p.pipes[i] = o
		p.s.outputs[o.id] = o
		_ = unix.EpollCtl(p.s.readyFd, unix.EPOLL_CTL_ADD, o.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: o.id})
		out[i] = os.NewFile(uintptr(fds[1]), "output")
	}
	return out, nil
}

func (p *Process) closeOutputs() {
	for i, o := range p.pipes {
		if o != nil {
			unix.Close(o.fd)
			delete(p.s.outputs, o.id)
			p.pipes[i] = nil
		}
	}
}

func (p *Process) output(n int, b []byte, at time.Time) {
	f := p.spec.Stdout
	if n == 2 {
		f = p.spec.Stderr
	}
	if f != nil && len(b) > 0 {
		f(b, at)
	}
}

// drainOutputs reads what has reached output pipes without a trap.
func (s *Supervisor) drainOutputs() {
	for _, root := range s.roots {
		for _, o := range root.pipes {
			for o != nil {
				n, err := unix.Read(o.fd, s.scratch)
				if err != nil || n <= 0 {
					break
				}
				s.touched = true
				root.output(o.n, bytes.Clone(s.scratch[:n]), s.Now())
			}
		}
	}
}

package virtual

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper is a helper process that outlives the supervisor by a moment. A first process of a family is killed by the
// kernel when the supervisor dies, its children are not: the reaper knows them and kills them when the pipe from
// the supervisor closes, however the supervisor came to its end. It is started with the first child.
type reaper struct {
	pipe *os.File
	pid  int
}

func (s *Supervisor) reaperAdd(pid int) {
	if s.reaper == nil {
		s.reaper = startReaper()
		if s.reaper == nil {
			s.note("the helper that cleans up after the supervisor could not be started: children of processes may outlive it")
			s.reaper = &reaper{}
		}
	}
	s.reaper.tell(pid)
}

func startReaper() *reaper {
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer r.Close()
	p, err := os.StartProcess("/proc/self/exe", []string{reaperName}, &os.ProcAttr{
		Env: []string{}, Files: []*os.File{r}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		w.Close()
		return nil
	}
	pid := p.Pid
	_ = p.Release()
	return &reaper{pipe: w, pid: pid}
}

func (r *reaper) tell(n int) {
	if r != nil && r.pipe != nil {
		_ = binary.Write(r.pipe, binary.LittleEndian, int64(n))
	}
}

func (r *reaper) remove(pid int) { r.tell(-pid) }

func (r *reaper) stop() {
	if r != nil && r.pipe != nil {
		r.pipe.Close()
		r.pipe = nil
		reap(r.pid)
	}
}

// reaperMain reads process numbers from standard input, negative ones when they have ended.
func reaperMain() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	pidfds := map[int64]int{}
	for {
		var n int64
		if err := binary.Read(os.Stdin, binary.LittleEndian, &n); err != nil {
			if !errors.Is(err, io.EOF) {
				os.Stderr.WriteString("reaper: " + err.Error() + "\n")
			}
			break
		}
		if n > 0 {
			if fd, err := unix.PidfdOpen(int(n), 0); err == nil {
				pidfds[n] = fd
			}
		} else if fd, ok := pidfds[-n]; ok {
			unix.Close(fd)
			delete(pidfds, -n)
		}
	}
	for _, fd := range pidfds {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	os.Exit(0)
}

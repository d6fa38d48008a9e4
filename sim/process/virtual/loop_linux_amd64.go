package virtual

import (
	"context"

	"golang.org/x/sys/unix"
)

// handle looks at the trap of the thread that has the token.
func (s *Supervisor) handle(t *thread) {
	t.pending = false
	if t.p.execBy == t {
		s.execDone(t)
	}
	if t.p.needsBoot {
		if err := s.boot(t); err != nil {
			s.lose(err.Error())
			if !t.p.dead {
				s.pass(t)
			}
		}
		return // t stands in its next trap
	}
	e := s.handlers[t.req.data.nr]
	if e == nil || e.handle == nil {
		s.pass(t)
		return
	}
	e.handle(s, t, &t.req.data.args)
}

// arrived takes in a trap: the holder's is handled by the loop, any other thread's waits for the token.
func (s *Supervisor) arrived(n *notification, root *Process) *thread {
	t := s.threads[int(n.tid)]
	if t != nil && t.lent {
		s.returned(t, n)
		return t
	}
	s.count(n.data.nr)
	if t == nil {
		if t = s.unexpected(n, root); t == nil {
			return nil
		}
	}
	if t.p.execBy != nil && int(n.tid) == t.p.pid {
		t = s.execByOther(t)
	}
	t.req = *n
	t.pending = true
	switch t.state {
	case stateLoose:
		s.loose--
		t.spins = false
		s.enqueue(t)
	case stateNew:
		// the caller that waits for it puts it in the queue
	case stateRunning:
		if t != s.cur {
			s.enqueue(t)
		}
	case stateReady, stateParked: // it stands in a trap, and cannot make another
	}
	return t
}

// await waits for the holder of the token: its next trap, or its end.
func (s *Supervisor) await(ctx context.Context) error {
	t := s.cur
	got, err := s.receiveAny(t, watchInterval)
	if err != nil {
		return err
	}
	if got {
		s.watch.reset()
		return nil
	}
	if s.cur != t { // its process ended
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.drainOutputs()
	s.look(t)
	return nil
}

// source is a descriptor on which something may arrive: a family's listener, or the end of a process.
type source struct {
	root *Process
	ends *proc
}

// receiveAny waits up to ms milliseconds of real time for one trap of any thread that may be running: of t's family,
// or of all families while t is nil or some thread is loose. The end of t's process counts too.
func (s *Supervisor) receiveAny(t *thread, ms int) (bool, error) {
	var fdBuf [8]unix.PollFd
	var sourceBuf [8]source
	fds, sources := fdBuf[:0], sourceBuf[:0]
	add := func(fd int, from source) {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		sources = append(sources, from)
	}
	if t != nil {
		add(t.p.root.listener, source{root: t.p.root})
	}
	if t == nil || s.loose > 0 {
		for _, p := range s.roots {
			if !p.gone && (t == nil || p != t.p.root) {
				add(p.listener, source{root: p})
			}
		}
	}
	if t != nil { // looked at last: a trap comes before an end
		add(t.p.pidfd, source{ends: t.p})
	}
	n, err := pollRaw(fds, ms)
	if err != nil || n == 0 {
		return false, err
	}
	for i, from := range sources {
		switch {
		case fds[i].Revents&unix.POLLIN == 0:
		case from.ends != nil:
			s.processEnded(from.ends)
			return true, nil
		default:
			ok, err := receive(from.root.listener, &s.reqBuf)
			if err != nil {
				return false, err
			}
			if ok {
				s.arrived(&s.reqBuf, from.root)
				return true, nil
			}
		}
	}
	return false, nil
}

func pollRaw(fds []unix.PollFd, ms int) (int, error) {
	for {
		n, err := unix.Poll(fds, ms)
		if err == unix.EINTR {
			continue
		}
		return n, err
	}
}

// pollOne says whether our descriptor fd is ready for want, now.
func pollOne(fd int, want int16) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: want}}
	n, err := pollRaw(p[:], 0)
	return err != nil || n > 0
}

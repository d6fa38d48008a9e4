package virtual

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tracer is a debugger: it stops all threads of a process, and lets them go. ptrace(2) wants one thread to do it all.
type tracer chan func()

func newTracer(t *testing.T) tracer {
	c := make(tracer)
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	t.Cleanup(func() { close(c) })
	return c
}

// start does something on the tracer's thread.
func (c tracer) start(f func() error) <-chan error {
	done := make(chan error, 1)
	c <- func() { done <- f() }
	return done
}

// stop attaches to all threads, and returns when they stand.
func stop(tids []int) error {
	for _, tid := range tids {
		if err := unix.PtraceAttach(tid); err != nil {
			return os.NewSyscallError("attach", err)
		}
	}
	for _, tid := range tids {
		if _, err := unix.Wait4(tid, nil, unix.WALL, nil); err != nil {
			return os.NewSyscallError("wait", err)
		}
	}
	return nil
}

func letGo(tids []int) error {
	for _, tid := range tids {
		if err := unix.PtraceDetach(tid); err != nil {
			return os.NewSyscallError("detach", err)
		}
	}
	return nil
}

func threadsOf(t *testing.T, p *Process) (tids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(p.Pid()) + "/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		tids = append(tids, tid)
	}
	return tids
}

// TestDebugger: a debugger can stop a program whose threads stand in the supervisor, look at it for long, and let it
// go; and the run is the one without it.
func TestDebugger(t *testing.T) {
	for _, name := range []string{"timers", "gc"} {
		stops := 0
		run := func(attach bool) result {
			w := newWorld(t, Options{Seed: 1})
			c := newTracer(t)
			p := w.start(name, nil)
			for _, at := range []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, time.Second} {
				w.run(at, exited(p))
				var gone <-chan error
				if _, ended := p.Exited(); attach && !ended {
					gone = debug(t, w, c, p)
					stops++
				}
				w.run(50*time.Millisecond, exited(p)) // the world tries to go on meanwhile
				if gone == nil {
					continue
				}
				if err := <-gone; err != nil {
					t.Fatal(err)
				}
			}
			w.run(time.Hour, exited(p))
			return w.result()
		}
		free, stopped := run(false), run(true)
		if free.out != stopped.out || free.hash != stopped.hash || free.out == "" {
			t.Errorf("%s: with a debugger %s %s, without %s %s", name, stopped.hash, stopped.out, free.hash, free.out)
		}
		if stops == 0 {
			t.Errorf("%s: the debugger never came to it", name)
		}
	}
}

// debug has the debugger stop the process, and let it go after more time than the watchdog gives.
func debug(t *testing.T, w *world, c tracer, p *Process) (gone <-chan error) {
	t.Helper()
	tids := threadsOf(t, p)
	standing := c.start(func() error { return stop(tids) })
	timeout := time.After(20 * time.Second)
	for waiting := true; waiting; {
		select {
		case err := <-standing:
			if err != nil {
				t.Fatal(err)
			}
			waiting = false
		case <-time.After(time.Millisecond):
			w.s.Attend()
		case <-timeout:
			t.Fatal("the threads do not stop")
		}
	}
	return c.start(func() error {
		time.Sleep(watchLooks * 3 * watchInterval * time.Millisecond) // what the person at the debugger does
		return letGo(tids)
	})
}

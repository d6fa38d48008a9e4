package virtual

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// probeName is the argv[0] of the program that Probe runs: this one again.
const probeName = "opsim:probe"

// probeMain sleeps for 100 ms and says how long it took by the clocks.
func probeMain() {
	start := time.Now()
	time.Sleep(100 * time.Millisecond)
	if d := time.Since(start); d < 100*time.Millisecond || d > 101*time.Millisecond {
		os.Exit(3)
	}
	os.Exit(0)
}

// Probe tries virtual time by doing: a child sleeps for 100 ms, which must take no real time and be seen as 100 ms
// by the child. The error says in one line what is missing.
func Probe() error {
	self, err := os.Executable()
	if err != nil {
		return &Error{"probe", "this program's own file is unknown", err}
	}
	s, err := New(Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	p, err := s.Start(Spec{Name: "probe", Path: self, Args: []string{probeName}, Env: GoEnv(), Dir: "/"})
	if err != nil {
		return err
	}
	if fd, err := p.main.copyFd(2); err != nil {
		return &Error{"probe", "pidfd_getfd is refused: programs that block in reads cannot be supervised", err}
	} else {
		unix.Close(fd)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		if err := s.RunUntilIdle(ctx); err != nil {
			return &Error{"probe", "a child could not be run", err}
		}
		if st, ended := p.Exited(); ended {
			return probeResult(s, st)
		}
		at, ok := s.NextDeadline()
		if !ok {
			return &Error{"probe", "the child sleeps without a deadline", nil}
		}
		s.AdvanceTo(at)
	}
}

func probeResult(s *Supervisor, st ExitStatus) error {
	if st.Code == 3 {
		return &Error{"probe", "the child's clock is not the virtual one", nil}
	}
	if st.Code != 0 {
		return &Error{"probe", fmt.Sprintf("the child ended with code %d, signal %d", st.Code, st.Signal), nil}
	}
	if stats := s.Stats(); !stats.Deterministic {
		return &Error{"probe", "the child could not be controlled", errors.New(stats.Reasons[0])}
	}
	return nil
}

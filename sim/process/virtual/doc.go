// Package virtual runs unmodified programs under a virtual clock, one thread at a time, so that a run is a function
// of the programs, the seed and what the world does.
//
// A [Supervisor] is stepped by its caller. It starts processes, runs them until none can go on without the world,
// and says when the next of them wants to wake:
//
//	s, err := virtual.New(virtual.Options{Seed: 1, Network: world})
//	p, err := s.Start(virtual.Spec{Name: "operator", Path: "/bin/manager", Env: virtual.GoEnv()})
//	for {
//		err := s.RunUntilIdle(ctx)           // until all threads wait
//		for _, st := range s.Ready() {       // what they have written
//			…st.Read, st.Write…
//		}
//		if _, ended := p.Exited(); ended {
//			break
//		}
//		if at, ok := s.NextDeadline(); ok {  // hours pass in seconds
//			s.AdvanceTo(at)
//		}
//	}
//
// The program that uses this package starts itself again as a helper: importing the package is enough, see [Shim].
//
// # How
//
// A seccomp filter stops the system calls of time, waiting, randomness, sockets, threads and processes in the
// supervisor. The clock functions of the vDSO are replaced, in each process's own copy, by code that reads a cell in
// a page shared by all: reading the clock costs no trap, and moves virtual time by one tick. Exactly one thread of
// all processes has the token and runs; it gives it back when it would wait, and a [Picker] chooses the next. Sockets
// are socketpairs whose other end is the world's. No root, no ptrace, no cgo is needed; the program may be static,
// dynamic, cgo, a script.
//
// # What must hold
//
// A run depends on all that its processes can see. The supervisor fixes what it can (numbers, names, user, size of
// the machine, addresses); arguments, environment and real files are the caller's to keep the same. What it cannot
// control it does not hide: [Stats.Reasons] says what happened, and [Stats.Deterministic] is false.
//
// # Limits
//
// Reported in Reasons, and the run goes on: a wait in a call that is not supervised (flock, the opening of a FIFO),
// priority-inheritance futexes, signalfd, a Unix socket out of the world, a thread that computes for longer than
// [Options.SpinLimit]. Reported in Notes: the numbers of child processes are the operating system's (the first process
// is number 1); time-outs set on blocking sockets never pass. Not told apart: CPU time is virtual time; netlink
// sockets are refused; /dev/urandom ends after 1 MiB; a timer of a Go program fires up to 1 ms late, as it does
// on a real kernel; what its monitor thread does by time alone (a garbage collection every two minutes, the return of
// memory) is up to 10 s late. A thread that polls or yields a thousand times in vain sleeps for 1 ms.
//
// Linux 5.19 or later is needed (signals must wait for the answer to a trap); process_vm_readv, process_vm_writev,
// pidfd_getfd and forced writes through /proc/PID/mem must be allowed. [Probe] tries all of it.
//
// On platforms other than linux/amd64 [New] and [Probe] return an [Error] that says so.
package virtual

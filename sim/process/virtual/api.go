package virtual

import (
	"io"
	"net/netip"
	"time"
)

// Options describe one supervised world of processes.
type Options struct {
	// Seed decides every random byte that a process sees: AT_RANDOM and getrandom. Each process has its own
	// stream, a function of Seed, Spec.Name and Spec.Incarnation.
	Seed uint64
	// Start is the virtual time at which the world begins. Zero means 2026-01-01 00:00:00 UTC.
	Start time.Time
	// Tick is how far each reading of a clock moves virtual time; zero means 200 ns. It must not be zero in
	// effect, as programs wait for a clock to move.
	Tick time.Duration
	// Picker chooses the next thread among those that could run; nil means FIFO.
	Picker Picker
	// Network answers connects; nil refuses all of them.
	Network Network
	// CPUs is how many processors a process believes to have; zero means 1.
	CPUs int
	// SpinLimit is the CPU time that a thread may use without a trapped call before virtual time goes on without
	// it (and the run is marked). Zero means 5 s: making a large RSA key takes seconds.
	SpinLimit time.Duration
	// TrapHash asks for Stats.TrapHash, the SHA-256 over the whole sequence of traps.
	TrapHash bool
	// TrapLog, if set, gets one line a trap. To find where two runs part, compare two logs.
	TrapLog io.Writer
}

// Spec describes one process.
type Spec struct {
	Name        string // name in the world, part of its seed
	Incarnation int    // how many times it was started before, part of its seed: a restarted leader is another one
	Path        string // the executable
	// Exe is the absolute path at which the process finds its own program when it asks. Empty means Path, which
	// then is part of what decides a run: by the length of a string alone, if by nothing else.
	Exe  string
	Args []string
	// Env is the whole environment; see [GoEnv]. Like Args it can be seen by the process and so is part of what
	// decides a run: keep it free of temporary paths and of numbers that the operating system chose.
	Env []string
	Dir string
	// Files are read-only files that exist for this process only, by absolute path: a service account's token,
	// /etc/hosts, …. They hide real files of the same name.
	Files map[string][]byte
	// Hidden are absolute paths (files, or folders with all they hold) that do not exist for this process.
	Hidden []string
	// Hostname is what uname says; empty means Name.
	Hostname string
	// IP is the address of the process's own interface; the zero value means 127.0.0.1.
	IP netip.Addr
	// Stdout and Stderr get what the process writes, as it was written, with the virtual time; nil discards.
	// The slice is only valid during the call.
	Stdout, Stderr func(p []byte, at time.Time)
}

// GoEnv is the environment that a Go program should have at least: one scheduler thread, no preemption by signals
// (which GC and profilers would time by the wall clock), and a garbage collector that runs more seldom than by default,
// since a run is short and its heap small. Of two values of one name Go's runtime sees the first.
func GoEnv() []string {
	return []string{"GOMAXPROCS=1", "GOGC=400", "GODEBUG=asyncpreemptoff=1", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/", "TZ=UTC"}
}

// Network is the world as its processes' sockets see it. Its methods are called from within
// [Supervisor.RunUntilIdle], while all processes stand still; they must not start, kill or signal a process.
type Network interface {
	// Connect decides about a connection that p asks for. network is "tcp" or "udp". With nil the connection
	// stands, and st is the world's end of it. An error that wraps a syscall.Errno gives the process that errno,
	// any other one ECONNREFUSED; st is closed then.
	Connect(p *Process, network string, addr netip.AddrPort, st *Stream) error
	// Listen says that p now accepts connections on addr, which [Supervisor.Dial] makes.
	Listen(p *Process, addr netip.AddrPort)
	// Unlisten says that p no longer does.
	Unlisten(p *Process, addr netip.AddrPort)
}

// Picker chooses among threads that could run, given how many there are, in the order in which they became ready.
type Picker interface {
	Pick(n int) int
}

// FIFO runs threads in the order in which they became ready.
type FIFO struct{}

// Pick returns the first.
func (FIFO) Pick(int) int { return 0 }

// Stats is what the supervisor counted since New.
type Stats struct {
	Traps    uint64            // system calls that stopped in the supervisor
	Jumps    uint64            // moves of the clock by AdvanceTo
	Syscalls map[string]uint64 // traps by name
	TrapHash string            // hex; empty unless Options.TrapHash
	// Deterministic is false when something happened that the supervisor could not control; Reasons say what,
	// in words, with the virtual time of the first occurrence. At most 100 are kept.
	Deterministic bool
	Reasons       []string
	// Notes are things that do not change between runs on one machine but may between machines.
	Notes []string
}

// ExitStatus is how a process ended.
type ExitStatus struct {
	Code   int       // exit code, or -1 when a signal ended it
	Signal int       // the signal, or 0
	At     time.Time // virtual time
}

// Error is what the functions of this package return when the machine cannot do what is asked.
type Error struct {
	Op     string // what was attempted
	Reason string // what is missing, in one line
	Err    error
}

func (e *Error) Error() string {
	s := "virtual time: " + e.Op + ": " + e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

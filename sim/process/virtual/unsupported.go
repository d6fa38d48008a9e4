//go:build !linux || !amd64

package virtual

import (
	"context"
	"net/netip"
	"runtime"
	"syscall"
	"time"
)

func unsupported(op string) error {
	return &Error{op, "only built for linux/amd64, not for " + runtime.GOOS + "/" + runtime.GOARCH + "; use the wall clock", nil}
}

// Shim does nothing here.
func Shim() {}

// Probe says why virtual time cannot work here.
func Probe() error { return unsupported("probe") }

// Supervisor cannot be made here.
type Supervisor struct{}

// New fails.
func New(Options) (*Supervisor, error) { return nil, unsupported("new world") }

// Start fails.
func (s *Supervisor) Start(Spec) (*Process, error) { return nil, unsupported("start") }

// RunUntilIdle fails.
func (s *Supervisor) RunUntilIdle(context.Context) error { return unsupported("run") }

// Now is the zero time.
func (s *Supervisor) Now() time.Time { return time.Time{} }

// AdvanceTo does nothing.
func (s *Supervisor) AdvanceTo(time.Time) {}

// NextDeadline has none.
func (s *Supervisor) NextDeadline() (time.Time, bool) { return time.Time{}, false }

// Dial fails.
func (s *Supervisor) Dial(*Process, netip.AddrPort, netip.AddrPort) (*Stream, error) {
	return nil, unsupported("dial")
}

// Ready has none.
func (s *Supervisor) Ready() []*Stream { return nil }

// Attend does nothing.
func (s *Supervisor) Attend() {}

// Stats is empty.
func (s *Supervisor) Stats() Stats { return Stats{} }

// CPU is 0.
func (s *Supervisor) CPU() time.Duration { return 0 }

// Close does nothing.
func (s *Supervisor) Close() error { return nil }

// Process cannot be started here.
type Process struct{}

// Spec is empty.
func (p *Process) Spec() Spec { return Spec{} }

// Pid is 0.
func (p *Process) Pid() int { return 0 }

// Exited is false.
func (p *Process) Exited() (ExitStatus, bool) { return ExitStatus{}, false }

// Pause does nothing.
func (p *Process) Pause() {}

// Resume does nothing.
func (p *Process) Resume() {}

// Kill does nothing.
func (p *Process) Kill() {}

// Signal fails.
func (p *Process) Signal(syscall.Signal) error { return unsupported("signal") }

// Stream cannot be made here.
type Stream struct{}

// ID is 0.
func (st *Stream) ID() int { return 0 }

// Process is nil.
func (st *Stream) Process() *Process { return nil }

// Network is empty.
func (st *Stream) Network() string { return "" }

// Inbound is false.
func (st *Stream) Inbound() bool { return false }

// Ready is false.
func (st *Stream) Ready() bool { return false }

// Local is the zero address.
func (st *Stream) Local() netip.AddrPort { return netip.AddrPort{} }

// Remote is the zero address.
func (st *Stream) Remote() netip.AddrPort { return netip.AddrPort{} }

// Read fails.
func (st *Stream) Read([]byte) (int, error) { return 0, unsupported("read") }

// Write fails.
func (st *Stream) Write([]byte) (int, error) { return 0, unsupported("write") }

// CloseWrite fails.
func (st *Stream) CloseWrite() error { return unsupported("close") }

// Close does nothing.
func (st *Stream) Close() error { return nil }

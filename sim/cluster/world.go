package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/front"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/traces"
)

// Options of a World. The zero value is a world with seed 0 and no faults at DefaultStart.
type Options struct {
	Seed  uint64
	Start time.Time // zero: DefaultStart
	Plan  *fault.Plan
	// Operator is the process that a plan's "operator" means.
	Operator string
	// Latency is that of front.Options.
	Latency time.Duration
	// Picker chooses among threads; nil: first in, first out.
	Picker virtual.Picker
	// TrapLog gets a line for each system call; see virtual.Options.
	TrapLog io.Writer
	// Step, if set, is told of each step that has been taken.
	Step func(sim.Step)
	// Record, if set, gets every row of the run's record too.
	Record traces.Appender
}

// World is an API server and processes under one clock.
type World struct {
	*sim.World
	Door    *front.Door
	Network *Network
	base    *Base
	sup     *virtual.Supervisor
	record  *record
	step    func(sim.Step)
	count   map[string]int // how often each name was started

	requests int64 // of processes
}

func newWorld(b *Base, o Options) (*World, error) {
	if o.Start.IsZero() {
		o.Start = DefaultStart
	}
	if o.Plan == nil {
		o.Plan = &fault.Plan{}
	}
	w := &World{base: b, count: map[string]int{}, step: o.Step, record: newRecord(o.Record)}
	w.Network = &Network{Server: b.Server}
	var err error
	w.sup, err = virtual.New(virtual.Options{
		Seed: o.Seed, Start: o.Start, Network: w.Network, Picker: o.Picker, TrapHash: true, TrapLog: o.TrapLog,
	})
	if err != nil {
		return nil, err
	}
	b.run(w)
	if w.Network.Access, err = NewAccess(b.Server.ServiceHost(), w.sup.Now); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.World = sim.New(sim.Options{Seed: o.Seed, Processes: supervised{w.sup}, After: w.stepped})
	w.Network.Supervisor = w.sup
	w.Door = front.New(front.Options{
		World: w.World, Handler: b.Server.Handler(), Latency: o.Latency, Dial: w.Network.Dial,
		Tap: apicall.New(w.record, apicall.Options{
			Now: w.sup.Now, Process: front.ProcessOf,
			User: func(q *http.Request) string { return q.Header.Get("X-Remote-User") },
		}),
		Faults: fault.NewMachine(o.Plan, fault.Options{Operator: o.Operator, Stored: b.Server.Stored}),
	})
	w.Network.Door = w.Door
	w.AddSource(w.Door)
	return w, nil
}

// Program is what to start.
type Program struct {
	Name string   // in the world
	Path string   // of the executable
	Args []string // after the name
	Env  []string // added to what every process has
	// InCluster gives the process a service account in place of a kubeconfig.
	InCluster bool
	// ServiceAccount is who it is; zero: default/NAME in the cluster, the administrator outside.
	ServiceAccount ServiceAccount
}

// Start starts a program, or starts it again.
func (w *World) Start(p Program) (*virtual.Process, error) {
	path, err := filepath.Abs(p.Path)
	if err != nil {
		return nil, err
	}
	if p.ServiceAccount == (ServiceAccount{}) {
		p.ServiceAccount = ServiceAccount{"default", p.Name}
	}
	pod := fmt.Sprintf("%s-%d", p.Name, w.count[p.Name])
	spec := virtual.Spec{
		Name: p.Name, Incarnation: w.count[p.Name], Path: path, Exe: "/usr/local/bin/" + filepath.Base(path), Args: append([]string{filepath.Base(path)}, p.Args...), Dir: "/",
		Hostname: pod,
		Env:      append(virtual.GoEnv(), "TMPDIR=/tmp", "LANG=C.UTF-8", "HOSTNAME="+pod, "POD_NAME="+pod, "POD_NAMESPACE="+p.ServiceAccount.Namespace),
		Stdout:   w.output(p.Name, "stdout"), Stderr: w.output(p.Name, "stderr"),
	}
	w.count[p.Name]++
	if p.InCluster {
		w.Network.Access.InCluster(&spec, p.ServiceAccount)
	} else {
		w.Network.Access.ByKubeconfig(&spec)
	}
	spec.Env = append(spec.Env, p.Env...)
	return w.sup.Start(spec)
}

// Kill ends a process at once, as a node's failure does, with its connections.
func (w *World) Kill(p *virtual.Process) {
	p.Kill()
	w.Door.Disconnect(p.Spec().Name)
}

func (w *World) output(process, stream string) func([]byte, time.Time) {
	return func(p []byte, at time.Time) {
		w.record.note("%d %s %s %q", at.UnixNano(), process, stream, p)
		w.record.output = append(w.record.output, p...)
	}
}

// User is a client configuration for someone who is no process: a scripted user. Its calls take no
// virtual time of their own; they may be made between two steps and from within one.
func (w *World) User(name string) *rest.Config {
	return &rest.Config{Host: "http://apiserver", QPS: -1, Transport: w.Door.Outsider(name, apiserver.Admin.Groups...), UserAgent: name}
}

// Script schedules what a user does at a time after now.
func (w *World) Script(after time.Duration, what string, do func() error) {
	w.After(after, sim.Item{Lane: "script", Kind: "outsider", Subject: what, Apply: do})
}

// Run steps the world for a virtual time. It returns early, without an error, when nothing is left to
// happen, or when DONE, if not nil, says so after a step.
func (w *World) Run(ctx context.Context, d time.Duration, done func() bool) error {
	w.SetLimit(w.Nanos() + int64(d))
	for done == nil || !done() {
		_, err := w.Step(ctx)
		switch {
		case errors.Is(err, sim.ErrLimit), errors.Is(err, sim.ErrQuiet):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

func (w *World) stepped(s sim.Step) error {
	w.record.note("%d %d %s %s %d/%d", s.N, s.At, s.Kind, s.Subject, s.Choice, s.Of)
	if s.Kind == "request" {
		w.requests++
	}
	if w.step != nil {
		w.step(s)
	}
	return nil
}

// Stats is what the supervisor counted.
func (w *World) Stats() virtual.Stats { return w.sup.Stats() }

// Output is all that processes have written.
func (w *World) Output() string { return string(w.record.output) }

// Rows is the number of rows recorded.
func (w *World) Rows() int64 { return w.record.seq }

// Hash is the SHA-256 over each step, each row of the record, all output and each system call so far.
func (w *World) Hash() string {
	w.record.note("traps %s", w.sup.Stats().TrapHash)
	return hex.EncodeToString(w.record.sum.Sum(nil))
}

// Close ends all processes and frees the base for the next world.
func (w *World) Close() error {
	if w.base.world != w {
		return nil
	}
	if w.Door != nil {
		w.Door.Close()
	}
	w.base.run(nil)
	return w.sup.Close()
}

// record takes the rows of a run into a hash.
type record struct {
	out    traces.Appender
	seq    int64
	sum    hash.Hash
	output []byte
}

func newRecord(out traces.Appender) *record { return &record{out: out, sum: sha256.New()} }

func (r *record) note(format string, a ...any) {
	_, _ = fmt.Fprintf(r.sum, format+"\n", a...) // a hash takes everything
}

// Append implements traces.Appender.
func (r *record) Append(row traces.Record) error {
	r.seq++
	if row.Header().Seq == 0 {
		row.Header().Seq = r.seq
	}
	b, err := json.Marshal(row)
	if err != nil {
		return err
	}
	r.note("%T %s", row, b)
	if r.out != nil {
		return r.out.Append(row)
	}
	return nil
}

// Seq implements traces.Appender.
func (r *record) Seq() int64 { return r.seq }

// supervised is the supervisor as the world wants it.
type supervised struct{ s *virtual.Supervisor }

func (p supervised) Run(ctx context.Context) error { return p.s.RunUntilIdle(ctx) }
func (p supervised) Now() int64                    { return p.s.Now().UnixNano() }
func (p supervised) AdvanceTo(at int64)            { p.s.AdvanceTo(time.Unix(0, at)) }

func (p supervised) NextTimer() (int64, bool) {
	t, ok := p.s.NextDeadline()
	return t.UnixNano(), ok
}

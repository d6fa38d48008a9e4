package replay

import (
	"slices"
	"sync"

	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/traces"
)

// ledger is a run's trace as it is written, with what the run itself must know of it.
type ledger struct {
	out traces.Appender
	// process is the operator.
	process string

	mu      sync.Mutex
	writes  []*traces.Request // the operator's
	calls   int
	events  int
	made    map[string]int // the operator's successful writes by target
	refs    map[string]actor.Ref
	agents  []string
	steps   int64
	changed chan struct{} // closed, and made anew, by each write of the operator
}

func newLedger(out traces.Appender, process string) *ledger {
	return &ledger{
		out: out, process: process, made: map[string]int{}, refs: map[string]actor.Ref{}, changed: make(chan struct{}),
	}
}

// Seq implements traces.Appender.
func (l *ledger) Seq() int64 { return l.out.Seq() }

// Append implements traces.Appender.
func (l *ledger) Append(r traces.Record) error {
	switch r := r.(type) {
	case *traces.WatchEvent:
		l.event(r)
	case *traces.Request:
		if r.Process == l.process {
			return l.call(r)
		}
	}
	return l.out.Append(r)
}

func (l *ledger) event(w *traces.WatchEvent) {
	if w.UID == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.Process == l.process {
		l.events++
	}
	l.refs[w.UID] = actor.Ref{Group: w.Group, Version: w.Version, Resource: w.Resource, Namespace: w.Namespace, Name: w.Name}
}

// call notes a call of the operator's. The row is copied first: once appended it is not ours any more.
func (l *ledger) call(r *traces.Request) error {
	kept := *r
	kept.ResponseBody = ""
	if err := l.out.Append(r); err != nil {
		return err
	}
	kept.Seq = r.Seq
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	l.agent(kept.UserAgent)
	if !isWrite(kept.Verb) {
		return nil
	}
	l.writes = append(l.writes, &kept)
	if succeeded(&kept) {
		t := targetOf(&kept)
		l.made[t.String()]++
		close(l.changed)
		l.changed = make(chan struct{})
	}
	return nil
}

// maxAgents bounds the user agents that the manifest lists.
const maxAgents = 32

func (l *ledger) agent(name string) {
	if name != "" && len(l.agents) < maxAgents && !slices.Contains(l.agents, name) {
		l.agents = append(l.agents, name)
	}
}

// written are the operator's writes so far.
func (l *ledger) written() []*traces.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.writes)
}

// lack names the targets of WANT that the operator has not written as often yet.
func (l *ledger) lack(want map[string]int) (targets []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, n := range want {
		if l.made[k] < n {
			targets = append(targets, k)
		}
	}
	slices.Sort(targets)
	return targets
}

// next is closed by the operator's next write.
func (l *ledger) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// counts are for the progress line.
func (l *ledger) counts() (calls, writes, events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls, len(l.writes), l.events
}

// step numbers a decision.
func (l *ledger) step() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps++
	return l.steps
}

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
	// processes are the operators.
	processes []string

	mu         sync.Mutex
	writes     []*traces.Request // the operators'
	calls      map[string]int    // by process
	events     int
	made       map[string]int // the operator's successful writes by target
	refs       map[string]actor.Ref
	agents     map[string][]string // by process
	steps      int64
	garbage    *collector            // nil: nobody collects it
	undertaker *undertaker           // nil: namespaces end as the script or a process says
	last       map[string]*LastWords // of each process
	changed    chan struct{}         // closed, and made anew, by each write of the operator
}

func newLedger(out traces.Appender, processes ...string) *ledger {
	return &ledger{
		out: out, processes: processes, made: map[string]int{}, refs: map[string]actor.Ref{}, changed: make(chan struct{}),
		calls: map[string]int{}, agents: map[string][]string{}, last: map[string]*LastWords{},
	}
}

// Seq implements traces.Appender.
func (l *ledger) Seq() int64 { return l.out.Seq() }

// Append implements traces.Appender.
func (l *ledger) Append(r traces.Record) error {
	switch r := r.(type) {
	case *traces.WatchEvent:
		l.event(r)
	case *traces.Log:
		l.said(r)
	case *traces.Request:
		if slices.Contains(l.processes, r.Process) {
			return l.call(r)
		}
	}
	return l.out.Append(r)
}

// said remembers what a process says.
func (l *ledger) said(r *traces.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[r.Process] == nil {
		l.last[r.Process] = &LastWords{}
	}
	kept := *r // once appended it is not ours any more
	l.last[r.Process].Hear(&kept)
}

// lastWords are those of a process; "" if it said nothing.
func (l *ledger) lastWords(process string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.last[process]; w != nil {
		return w.String()
	}
	return ""
}

func (l *ledger) event(w *traces.WatchEvent) {
	if w.UID == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.processes, w.Process) {
		l.events++
	}
	if l.garbage != nil && w.Process == captureProcess {
		l.garbage.see(w)
	}
	if l.undertaker != nil && w.Process == captureProcess {
		l.undertaker.see(w)
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
	l.calls[kept.Process]++
	l.agent(kept.Process, kept.UserAgent)
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

func (l *ledger) agent(process, name string) {
	if known := l.agents[process]; name != "" && len(known) < maxAgents && !slices.Contains(known, name) {
		l.agents[process] = append(known, name)
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

// callsOf is how many calls a process has made.
func (l *ledger) callsOf(process string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[process]
}

// counts are of the whole run so far.
func (l *ledger) counts() (calls, writes, events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.calls {
		calls += n
	}
	return calls, len(l.writes), l.events
}

// step numbers a decision.
func (l *ledger) step() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps++
	return l.steps
}

package analysis

import (
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// restarts knows when recorded processes ended and came back: all their watches ended, and the next that they did was
// what an operator does when it starts, discovery or the log lines of a manager. A trace doesn't say it outright.
type restarts struct {
	of map[*Process]*life
}

// life is what a process has open, and its restarts so far.
type life struct {
	streams map[kindOf]string // that last delivered something; "" when it has ended
	open    int
	dark    int64 // when the last one ended, 0 while one is open
	darkSeq int64
	back    []restart

	last   kindOf // that an event came of
	stream string // that it came by, which is open; "" for none
}

// restart is one end and new beginning.
type restart struct{ seq, ts, backSeq, backTS int64 }

// maxRestarts bounds the restarts of one process that are remembered.
const maxRestarts = 256

func (r *restarts) at(p *Process) *life {
	l := r.of[p]
	if l == nil {
		if r.of == nil {
			r.of = map[*Process]*life{}
		}
		l = &life{streams: map[kindOf]string{}}
		r.of[p] = l
	}
	return l
}

func (r *restarts) event(e *Event) {
	if e.Process == nil {
		return
	}
	l, w := r.at(e.Process), e.Row
	k := kindOf{w.Group, w.Resource}
	if l.stream != "" && l.stream == w.Stream && l.last == k {
		return // they come in rows
	}
	old, known := l.streams[k]
	if old == w.Stream && known {
		l.last, l.stream = kindOf{strings.Clone(w.Group), strings.Clone(w.Resource)}, old
		return
	}
	if !known {
		k = kindOf{strings.Clone(w.Group), strings.Clone(w.Resource)}
	}
	if old == "" {
		l.open++
	}
	l.streams[k] = strings.Clone(w.Stream)
	l.last, l.stream, l.dark = k, l.streams[k], 0
}

func (r *restarts) request(p *Process, q *traces.Request) {
	if p == nil {
		return
	}
	l := r.at(p)
	switch {
	case q.Verb == "watch":
		k := kindOf{q.Group, q.Resource}
		if s := l.streams[k]; s != "" && (q.Stream == "" || q.Stream == s) {
			l.streams[k], l.stream = "", ""
			if l.open--; l.open == 0 {
				l.dark, l.darkSeq = q.TS, q.Seq
			}
		}
	case q.Resource == "" && strings.HasPrefix(q.Path, "/api") && q.Start >= l.dark:
		l.begin(q.Seq, q.Start)
	}
}

func (r *restarts) log(m *Model, g *traces.Log) {
	if p := m.processes[g.Process]; p != nil && (strings.HasPrefix(g.Message, "Starting ") || strings.HasPrefix(g.Message, "starting ")) {
		r.at(p).begin(g.Seq, g.TS)
	}
}

func (l *life) begin(seq, ts int64) {
	if l.dark == 0 {
		return
	}
	if len(l.back) < maxRestarts {
		l.back = append(l.back, restart{l.darkSeq, l.dark, seq, ts})
	}
	l.dark = 0
}

package recorder

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/symbols"
	"github.com/opreplay/opreplay/traces"
)

// children are the processes that those which are looked at have started. They are sampled, and their code is named;
// the rest of what they do is not told. The profiler's lock guards them.
type children struct {
	code     map[int]*child
	nameless int64                 // whose program could not be read
	ended    atomic.Pointer[error] // what ended the reading of their lives before its time
}

type child struct {
	code  *symbols.Process // nil where it could not be read
	ended time.Duration    // 0 not yet
}

// maxChildren bounds those whose code is known at a time.
const maxChildren = 1000

// readChildren notices what becomes of the children until CTX ends.
func (p *profiler) readChildren(ctx context.Context) {
	p.children.ended.Store(read(ctx, p.processes.Next, func(l bpf.Life) {
		switch l.What {
		case bpf.Forked: // its program is its parent's, until it executes its own
			p.adopt(l.PID, p.codeOf(l.Parent))
		case bpf.Executed:
			code, err := symbols.OpenProcess(l.PID)
			if errors.Is(err, symbols.ErrNotGo) {
				code, err = symbols.Foreign(l.PID)
			}
			if err != nil {
				code = nil // it has ended, or may not be looked at
			}
			p.adopt(l.PID, code)
		case bpf.Ended:
			p.bury(l)
		}
	}))
}

// codeOf is what a process that is looked at, or a child, runs; nil for not known.
func (p *profiler) codeOf(pid int) *symbols.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.instances[pid]; i != nil {
		return i.code
	}
	if c := p.children.code[pid]; c != nil {
		return c.code
	}
	return nil
}

func (p *profiler) adopt(pid int, code *symbols.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.children
	if c.code == nil {
		c.code = map[int]*child{}
	}
	if c.code[pid] == nil && len(c.code) >= maxChildren {
		c.nameless++
		return
	}
	if code == nil {
		c.nameless++
	}
	c.code[pid] = &child{code: code}
}

// bury notes the end of a child, and lets go of those that have ended long ago.
func (p *profiler) bury(l bpf.Life) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.children
	if gone := c.code[l.PID]; gone != nil {
		gone.ended = l.Time
	}
	for pid, old := range c.code {
		if old.ended != 0 && l.Time-old.ended > afterlife {
			delete(c.code, pid)
		}
	}
}

// stack names a child's stack.
func (c *children) stack(pid int, pcs []uint64, top [2]uint64) []traces.Frame {
	known := c.code[pid]
	if known == nil || known.code == nil {
		return nil
	}
	return known.code.Stack(pcs, top)
}

func (c *children) losses(add func(source string, n int64, reason string)) {
	add("stacks", c.nameless, "children of the process whose code is not named, for they ended too soon, are too many or may not be read")
	if ended := c.ended.Load(); ended != nil {
		add("stacks", -1, "following children ended: "+(*ended).Error())
	}
}

package trial

import (
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/internal/workers"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/sim/fault"
)

// tryJSON is a Try as text.
type tryJSON struct {
	Plan     string  `json:"plan"`
	Threads  string  `json:"threads,omitempty"`
	Procs    int     `json:"procs,omitempty"`
	Replicas int     `json:"replicas,omitempty"`
	Without  []int64 `json:"without,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (t Try) MarshalJSON() ([]byte, error) {
	p := t.Plan
	if p == nil {
		p = &fault.Plan{}
	}
	return json.Marshal(tryJSON{p.String(), string(t.Threads), t.Procs, t.Replicas, t.Without})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Try) UnmarshalJSON(text []byte) error {
	var j tryJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	p, err := fault.Parse("plan", []byte(j.Plan))
	*t = Try{p, replay.Threads(j.Threads), j.Procs, j.Replicas, j.Without}
	return err
}

// job is a try for another process.
type job struct {
	// Start is the runs' first moment: it may follow from the wall clock, which each process reads for itself.
	Start time.Time `json:"start"`
	Try   Try       `json:"try"`
}

// Serve runs tries for a Pool in another process: it reads them from IN, a JSON value each, and writes what came of
// each to OUT, until IN ends.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	var r *Runner
	defer func() {
		if r != nil {
			r.Close()
		}
	}()
	return cli.CannotRun(workers.Serve(in, out, func(j job) (*Outcome, error) {
		if r == nil {
			o.Replay.Start = j.Start
			var err error
			if r, err = Open(ctx, o); err != nil {
				return nil, err
			}
		}
		return r.Run(ctx, j.Try)
	}))
}

// Pool runs tries side by side: one at a time in this process, the others in processes of their own, since there is
// one world to a process.
type Pool struct {
	local   *Runner
	players []player
	idle    chan player
	cancel  context.CancelFunc
}

// player runs one try after the other.
type player interface {
	run(context.Context, Try) (*Outcome, error)
	end()
}

// NewPool makes a pool of N players, the local one among them. WORKER makes the command of a process that calls
// Serve with the same Options; it may be nil if N is 1. Close it.
func NewPool(ctx context.Context, local *Runner, n int, worker func(context.Context) *exec.Cmd) (*Pool, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &Pool{local: local, cancel: cancel}
	p.players = []player{here{local}}
	for range n - 1 {
		w, err := workers.Start[job, *Outcome](worker(ctx))
		if err != nil {
			p.Close()
			return nil, cli.CannotRun(err)
		}
		p.players = append(p.players, remote{w, local.Session().Start()})
	}
	p.idle = make(chan player, len(p.players))
	for _, x := range p.players {
		p.idle <- x
	}
	return p, nil
}

// Size is the number of tries that can be under way at a time.
func (p *Pool) Size() int { return len(p.players) }

// Run runs a try on the next player that is idle. The rows are not kept.
func (p *Pool) Run(ctx context.Context, t Try) (*Outcome, error) {
	select {
	case x := <-p.idle:
		defer func() { p.idle <- x }()
		out, err := x.run(ctx, t)
		if out != nil {
			out.Rows = nil
		}
		return out, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Local is this process's own Runner, for what needs the rows of a run; only while no try is under way.
func (p *Pool) Local() *Runner { return p.local }

// Close ends the other processes.
func (p *Pool) Close() {
	for _, x := range p.players {
		x.end()
	}
	p.cancel()
}

type here struct{ *Runner }

func (h here) run(ctx context.Context, t Try) (*Outcome, error) { return h.Run(ctx, t) }
func (here) end()                                               {}

// remote is a process that runs tries.
type remote struct {
	*workers.Process[job, *Outcome]
	start time.Time
}

func (r remote) run(_ context.Context, t Try) (*Outcome, error) { return r.Ask(job{r.start, t}) }
func (r remote) end()                                           { r.End() }

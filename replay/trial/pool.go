package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
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

// answer is what a worker says of a try.
type answer struct {
	Outcome *Outcome `json:"outcome,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// Serve runs tries for a Pool in another process: it reads them from IN, a JSON value each, and writes what came of
// each to OUT, until IN ends.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	r, err := Open(ctx, o)
	if err != nil {
		return err
	}
	defer r.Close()
	read, write := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var t Try
		if err := read.Decode(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return cli.CannotRun(err)
		}
		var a answer
		if a.Outcome, err = r.Run(ctx, t); err != nil {
			a.Error = err.Error()
		}
		if err := write.Encode(a); err != nil {
			return cli.CannotRun(err)
		}
	}
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
		r, err := newRemote(ctx, worker)
		if err != nil {
			p.Close()
			return nil, err
		}
		p.players = append(p.players, r)
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
	cmd    *exec.Cmd
	in     io.WriteCloser
	read   *json.Decoder
	write  *json.Encoder
	stderr bytes.Buffer
}

func newRemote(ctx context.Context, worker func(context.Context) *exec.Cmd) (*remote, error) {
	r := &remote{cmd: worker(ctx)}
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(os.Interrupt) } // so that it ends its operators
	r.cmd.WaitDelay = 10 * time.Second
	r.cmd.Stderr = &r.stderr
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, cli.CannotRun(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, cli.CannotRun(err)
	}
	r.read, r.write = json.NewDecoder(out), json.NewEncoder(r.in)
	return r, cli.CannotRun(r.cmd.Start())
}

var errWorkerEnded = errors.New("a process that ran plans ended before its time")

func (r *remote) run(_ context.Context, t Try) (*Outcome, error) {
	var a answer
	if err := errors.Join(r.write.Encode(t), r.read.Decode(&a)); err != nil {
		return nil, fmt.Errorf("%w: %w: %s", errWorkerEnded, err, strings.TrimSpace(r.stderr.String()))
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return a.Outcome, nil
}

func (r *remote) end() {
	_ = r.in.Close() // that is how it is told to end
	_ = r.cmd.Wait() // what it has to say of that is of no interest
}

package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/front"
	"github.com/opreplay/opreplay/sim/process"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/sim/store"
	"github.com/opreplay/opreplay/sim/wire"
	"github.com/opreplay/opreplay/traces"
)

// What a process of a virtual world finds, at the same places on every machine.
const (
	virtualKubeconfig = "/etc/opsim/kubeconfig"
	virtualHome       = "/home/operator"
)

// virtualServer is where the API server of a virtual world is reached without TLS.
var virtualServer = netip.MustParseAddrPort("10.96.0.1:8080")

// virtualRun is a run in which the operator lives under the world's clock.
type virtualRun struct {
	*run
	sup   *virtual.Supervisor
	world *sim.World
	door  *front.Door
	op    *virtual.Process
	stage *virtualStage
	// first is the virtual time of the operator's first call; 0 before it.
	first int64
	lines map[string]*lineSplitter

	machine  *fault.Machine
	rows     *apicall.Tap    // of the whole cluster's record
	observed map[string]bool // by URL path
}

func (r *run) playVirtual(ctx context.Context) (result *Result, err error) {
	v := &virtualRun{run: r, lines: map[string]*lineSplitter{}, observed: map[string]bool{}}
	v.sup, err = virtual.New(virtual.Options{Seed: r.o.Plan.Seed, Start: r.startTime(), Network: v})
	if err != nil {
		return nil, cli.CannotRun(err)
	}
	defer func() { _ = v.sup.Close() }()
	v.world = sim.New(sim.Options{
		Seed: r.o.Plan.Seed, Processes: supervised{v.sup}, After: v.decided,
		Limit: v.sup.Now().Add(firstCall).UnixNano(),
	})
	r.clock = v.world
	r.o.Progress.Set("starting the API server")
	if err := v.serve(ctx); err != nil {
		return nil, cli.CannotRun(err)
	}
	defer r.server.Close()
	defer v.door.Close()
	return v.play(ctx)
}

// serve starts the API server in the state in which the operator found the cluster, behind a door whose every
// movement is a step.
func (v *virtualRun) serve(ctx context.Context) error {
	s, err := apiserver.New(ctx, apiserver.Options{Seed: v.o.Plan.Seed, Clock: v.clock.Now})
	if err != nil {
		return err
	}
	v.server = s
	v.o.Progress.Set("loading %d objects", len(v.script.Initial))
	if err := v.load(ctx); err != nil {
		s.Close()
		return fmt.Errorf("load the recorded cluster: %w", err)
	}
	v.tap = apicall.New(v.ledger, apicall.Options{
		Now:     v.clock.Now,
		Process: func(q *http.Request) string { return front.ProcessOf(q) },
		User:    func(q *http.Request) string { return q.Header.Get("X-Remote-User") },
	})
	v.machine = fault.NewMachine(v.o.Plan, fault.Options{Operator: v.name})
	known := newHints(v.script.Writes)
	v.door = front.New(front.Options{
		World: v.world, Handler: s.Handler(), Tap: v.tap, Faults: v.machine,
		Arrived: v.arrived,
		Prepare: func(c fault.Call, q *http.Request) (store.Hint, func(int)) {
			if c.Verb != "create" || c.Subresource != "" || q.URL.Query().Has("dryRun") {
				return store.Hint{}, func(int) {}
			}
			hint, give := known.take(c, peek(q))
			return hint, func(code int) { give(code >= 200 && code <= 299) }
		},
	})
	v.world.AddSource(v.door)
	v.rows = apicall.New(&captureRows{out: v.ledger}, apicall.Options{
		Now: v.clock.Now, Process: func(*http.Request) string { return captureProcess },
	})
	return v.observeAll()
}

// observeAll records every resource of the recording and of its script that is served and not yet recorded.
func (v *virtualRun) observeAll() error {
	for _, x := range v.resources() {
		path := collection(x)
		if v.observed[path] {
			continue
		}
		served, err := v.door.Observe(v.rows, path)
		if err != nil {
			return err
		}
		if served {
			v.observed[path] = true
		}
	}
	return nil
}

// arrived is told of every call when it arrives: the first one starts the script.
func (v *virtualRun) arrived(c fault.Call) {
	if v.first == 0 && c.Client == v.name {
		v.first = v.world.Nanos()
		v.stage.start()
	}
}

// decided notes each step of the world.
func (v *virtualRun) decided(s sim.Step) error {
	err := v.ledger.Append(&traces.Decision{
		Head: traces.Head{TS: s.At}, Step: v.ledger.step(), Kind: s.Kind, Subject: s.Subject,
		Choice: int32(s.Choice), Of: int32(s.Of), Rule: s.Rule,
	})
	if err == nil && v.first != 0 {
		v.stage.look()
	}
	return err
}

// Connect implements virtual.Network.
func (v *virtualRun) Connect(p *virtual.Process, network string, addr netip.AddrPort, st *virtual.Stream) error {
	if network == "tcp" && addr == virtualServer {
		c := front.Client{Process: p.Spec().Name, User: apiserver.Admin.Name, Groups: apiserver.Admin.Groups}
		if u := v.id.user(); u != "" {
			c.User, c.Groups = u, []string{"system:serviceaccounts", "system:masters"}
		}
		v.door.Accept(c, byteStream{st}, wire.Options{})
		return nil
	}
	_ = v.ledger.Append(&traces.KernelEvent{ // an error of the trace comes back when it is closed
		Head: traces.Head{TS: v.world.Nanos()}, Kind: "refused", Address: addr.Addr().String(), Port: int32(addr.Port()),
		Errno: int32(syscall.ECONNREFUSED), Count: 1,
	})
	return syscall.ECONNREFUSED
}

// Listen implements virtual.Network. What operators serve (metrics, health) has no client in a replay.
func (v *virtualRun) Listen(*virtual.Process, netip.AddrPort) {}

// Unlisten implements virtual.Network.
func (v *virtualRun) Unlisten(*virtual.Process, netip.AddrPort) {}

// startOperator starts the process. All that it sees is the same on every machine but the binary's path.
func (v *virtualRun) startOperator() error {
	path, err := exec.LookPath(v.o.Operator[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return cli.Usagef("operator command %q: %w", v.o.Operator[0], err)
	}
	args := []string{filepath.Base(path)}
	for _, a := range v.o.Operator[1:] {
		args = append(args, strings.ReplaceAll(a, process.Placeholder, virtualKubeconfig))
	}
	env := append(virtual.GoEnv(),
		"KUBECONFIG="+virtualKubeconfig, "HOME="+virtualHome, "TMPDIR=/tmp", "LANG=C.UTF-8",
		"HOSTNAME="+v.name+"-0", "POD_NAME="+v.name+"-0", "POD_NAMESPACE=default")
	v.op, err = v.sup.Start(virtual.Spec{
		Name: v.name, Path: path, Args: args, Env: append(env, v.o.Env...), Dir: "/",
		Hostname: v.name + "-0",
		Files:    map[string][]byte{virtualKubeconfig: []byte(kubeconfig("http://" + virtualServer.String()))},
		Stdout:   v.output("stdout"), Stderr: v.output("stderr"),
	})
	if err != nil {
		return cli.CannotRun(err)
	}
	return nil
}

// output takes what the operator writes on one stream.
func (v *virtualRun) output(stream string) func([]byte, time.Time) {
	var at time.Time
	log := process.LogTo(v.ledger, v.name, func() time.Time { return at })
	s := &lineSplitter{line: func(line string) {
		log(stream, line)
		if v.o.Stderr != nil {
			_, _ = fmt.Fprintln(v.o.Stderr, line)
		}
	}}
	v.lines[stream] = s
	return func(p []byte, when time.Time) {
		at = when
		s.write(p)
	}
}

// play runs the operator and the outsiders to the end.
func (v *virtualRun) play(ctx context.Context) (*Result, error) {
	v.stage = newVirtualStage(v)
	if err := v.startOperator(); err != nil {
		return nil, err
	}
	v.decide("process", "start "+v.name, "")
	if err := v.steps(ctx); err != nil {
		return nil, err
	}
	if v.first == 0 {
		if status, ended := v.op.Exited(); ended {
			return nil, cli.CannotRun(fmt.Errorf("the operator ended before its first call to the API server: %s; its output is in %s", exitOf(status, false), v.o.Out))
		}
		return nil, cli.CannotRun(fmt.Errorf("the operator made no call to the API server within %s of its time; if it takes its kubeconfig by a flag, write {kubeconfig} in the command", firstCall))
	}
	if err := v.stage.end(ctx); err != nil {
		return nil, err
	}
	took := time.Duration(v.world.Nanos() - v.first)
	exit, err := v.stop(ctx)
	if err != nil {
		return nil, err
	}
	result := v.stage.result()
	result.Took, result.Exit, result.ExitEarly = took, exit, !exit.Stopped
	v.decide("process", "end "+v.name+": "+exit.String(), "")
	v.account(result)
	return result, v.finish(result, v.machine.Report(), slices.Concat(v.tap.Losses(), v.rows.Losses()))
}

// steps steps the world until its limit, its rest, or the operator's end.
func (v *virtualRun) steps(ctx context.Context) error {
	for n := 0; ; n++ {
		if _, ended := v.op.Exited(); ended {
			return nil
		}
		_, err := v.world.Step(ctx)
		switch {
		case errors.Is(err, sim.ErrLimit), errors.Is(err, sim.ErrQuiet):
			return nil
		case err != nil && ctx.Err() != nil:
			return cli.CannotRun(fmt.Errorf("the run was ended before its time: %w", ctx.Err()))
		case err != nil:
			return cli.CannotRun(err)
		}
		if n%256 == 0 {
			calls, writes, _ := v.ledger.counts()
			v.o.Progress.Set("virtual time %s of about %s: change %d of %d; the operator made %d calls, %d of them writes",
				v.elapsed().Round(time.Second), v.script.Span.Round(time.Second), v.stage.played, len(v.script.Steps), calls, writes)
		}
	}
}

// elapsed is the virtual time since the operator's first call.
func (v *virtualRun) elapsed() time.Duration {
	if v.first == 0 {
		return 0
	}
	return time.Duration(v.world.Nanos() - v.first)
}

// stop asks the operator to end, and makes it after the grace.
func (v *virtualRun) stop(ctx context.Context) (process.Exit, error) {
	if status, ended := v.op.Exited(); ended {
		return exitOf(status, false), nil
	}
	if err := v.op.Signal(syscall.SIGTERM); err != nil {
		return process.Exit{}, cli.CannotRun(fmt.Errorf("stop the operator: %w", err))
	}
	v.world.SetLimit(v.world.Nanos() + int64(v.o.Grace))
	if err := v.steps(ctx); err != nil {
		return process.Exit{}, err
	}
	v.op.Kill() // nothing, if it has ended
	for _, s := range v.lines {
		s.flush()
	}
	status, _ := v.op.Exited()
	return exitOf(status, true), nil
}

func exitOf(s virtual.ExitStatus, stopped bool) process.Exit {
	e := process.Exit{Code: s.Code, Stopped: stopped}
	if s.Signal != 0 {
		e.Signal = syscall.Signal(s.Signal).String()
	}
	return e
}

// account says what the supervisor counted.
func (v *virtualRun) account(result *Result) {
	stats := v.sup.Stats()
	result.WorldSteps = v.world.Steps()
	result.Traps, result.Jumps = stats.Traps, stats.Jumps
	result.Deterministic, result.Reasons = stats.Deterministic, stats.Reasons
}

// supervised is the supervisor as the world wants it.
type supervised struct{ s *virtual.Supervisor }

func (p supervised) Run(ctx context.Context) error { return p.s.RunUntilIdle(ctx) }
func (p supervised) Now() int64                    { return p.s.Now().UnixNano() }
func (p supervised) AdvanceTo(at int64)            { p.s.AdvanceTo(time.Unix(0, at)) }

func (p supervised) NextTimer() (int64, bool) {
	t, ok := p.s.NextDeadline()
	return t.UnixNano(), ok
}

// byteStream is a supervisor's stream in wire's words.
type byteStream struct{ st *virtual.Stream }

func (b byteStream) Read(p []byte) (int, error) {
	n, err := b.st.Read(p)
	if n == 0 && err == nil {
		err = wire.ErrWouldBlock
	}
	return n, err
}

func (b byteStream) Write(p []byte) (int, error) {
	n, err := b.st.Write(p)
	if n < len(p) && err == nil {
		err = wire.ErrWouldBlock
	}
	return n, err
}

func (b byteStream) Close() error { return b.st.Close() }

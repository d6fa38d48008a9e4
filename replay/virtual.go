package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim"
	"github.com/opreplay/opreplay/sim/cluster"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/front"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/sim/store"
	"github.com/opreplay/opreplay/traces"
)

// virtualHome is a process's home, at the same place on every machine.
const virtualHome = "/home/operator"

// virtualRun is a run in which the operator lives under the world's clock.
type virtualRun struct {
	*run
	sup   *virtual.Supervisor
	world *sim.World
	door  *front.Door
	net   *cluster.Network
	// guests are the operators' processes in the order of Options, processes the same by name.
	guests    []*guest
	processes map[string]*guest
	stage     *virtualStage
	// ending: the plan has nothing more to say.
	ending  bool
	breaker *breaker
	ctx     context.Context // of the run
	// first is the virtual time of the operator's first call; 0 before it.
	first int64

	ends  []Ended   // of processes that came back
	began time.Time // by the wall's clock, as are the next two
	call1 time.Time // the first call
	sync1 time.Time // the first write

	machine  *fault.Machine
	rows     *apicall.Tap    // of the whole cluster's record
	observed map[string]bool // by URL path
}

func (r *run) playVirtual(ctx context.Context) (result *Result, err error) {
	g, err := r.session.prepared(ctx, r.o.Plan.Seed)
	if err != nil {
		return nil, cli.CannotRun(err)
	}
	r.server = g.server
	r.note(g.note)
	v := &virtualRun{run: r, ctx: ctx, processes: map[string]*guest{}, observed: map[string]bool{}}
	if v.o.Steps != nil {
		r.said = func(kind, subject, rule string) { v.say("", kind, subject, rule) }
	}
	v.net = &cluster.Network{Server: v.server, Client: v.client, Refused: v.refused}
	v.sup, err = virtual.New(virtual.Options{Seed: r.o.Plan.Seed, Start: r.begin, Network: v.net, Picker: r.o.picker()})
	if err != nil {
		return nil, cli.CannotRun(err)
	}
	defer func() { _ = v.sup.Close() }()
	v.net.Supervisor = v.sup
	if v.net.Access, err = cluster.NewAccess(v.server.ServiceHost(), v.sup.Now); err != nil {
		return nil, cli.CannotRun(err)
	}
	v.breaker = v.newBreaker()
	defer v.breaker.close()
	v.world = sim.New(sim.Options{
		Seed: r.o.Plan.Seed, Processes: supervised{v.sup}, Before: v.breaker.before, After: v.decided,
		Limit: v.sup.Now().Add(firstCall).UnixNano(),
	})
	r.clock = v.world
	g.follow(v.world.Now, v.net)
	defer g.stand() // before the supervisor's clock is gone
	if err := v.serve(); err != nil {
		return nil, cli.CannotRun(err)
	}
	defer v.door.Close()
	return v.play(ctx)
}

// serve puts a door before the API server whose every movement is a step.
func (v *virtualRun) serve() error {
	v.tap = apicall.New(v.ledger, apicall.Options{
		Now:     v.clock.Now,
		Process: func(q *http.Request) string { return front.ProcessOf(q) },
		User:    func(q *http.Request) string { return q.Header.Get("X-Remote-User") },
	})
	v.machine = fault.NewMachine(v.o.Plan, fault.Options{Operator: v.ops[0].Name, Stored: v.server.Stored})
	v.breaker.count(v.machine)
	known := newHints(v.script.Writes)
	v.door = front.New(front.Options{
		World: v.world, Handler: v.server.Handler(), Tap: v.tap, Faults: v.machine, Store: v.server.Store(), Act: v.act,
		Arrived: v.arrived, Dial: v.net.Dial, Aging: true,
		Prepare: func(c fault.Call, q *http.Request) (store.Hint, func(int)) {
			if c.Verb != "create" || c.Subresource != "" || q.URL.Query().Has("dryRun") {
				return store.Hint{}, func(int) {}
			}
			hint, give := known.take(c, peek(q))
			return hint, func(code int) { give(code >= 200 && code <= 299) }
		},
	})
	v.net.Door = v.door
	v.world.AddSource(v.door)
	v.world.AddSource(kubelet{v})
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
	if v.sync1.IsZero() && v.first != 0 && v.processes[c.Client] != nil && isWrite(c.Verb) {
		v.sync1 = time.Now()
	}
	if v.first == 0 && v.processes[c.Client] != nil {
		v.first, v.call1 = v.world.Nanos(), time.Now()
		v.stage.start()
		v.door.Begin()
	}
}

// decided notes each step of the world.
func (v *virtualRun) decided(s sim.Step) error {
	err := v.ledger.Append(&traces.Decision{
		Head: traces.Head{TS: s.At}, Step: v.ledger.step(), Kind: s.Kind, Subject: s.Subject,
		Choice: int32(s.Choice), Of: int32(s.Of), Rule: s.Rule,
	})
	if v.o.Steps != nil {
		v.say(strconv.FormatInt(s.N, 10), s.Kind, v.stepText(&s), s.Rule)
	}
	if err == nil && v.first != 0 {
		v.stage.look()
		v.collect()
		v.bury()
	}
	return err
}

// stepText says what a step is, and among how many it was chosen.
func (v *virtualRun) stepText(s *sim.Step) string {
	if s.Of > 1 {
		return fmt.Sprintf("%s  (%d of %d)", s.Subject, s.Choice+1, s.Of)
	}
	return s.Subject
}

// say prints a step, or what else the run decides, which has no number.
func (v *virtualRun) say(n, kind, subject, rule string) {
	if rule != "" {
		subject += "  by " + rule
	}
	_, _ = fmt.Fprintf(v.o.Steps, "%6s  +%.6fs  %-8s  %s\n", n, v.elapsed().Seconds(), kind, subject)
}

// client is who a process is to the API server.
func (v *virtualRun) client(p *virtual.Process) front.Client {
	u := v.processes[p.Spec().Name].op.user(v.o.RBAC)
	return front.Client{Process: p.Spec().Name, User: u.Name, Groups: u.Groups}
}

// refused notes a connection that leads out of the world.
func (v *virtualRun) refused(_ *virtual.Process, _ string, addr netip.AddrPort) {
	_ = v.ledger.Append(&traces.KernelEvent{ // an error of the trace comes back when it is closed
		Head: traces.Head{TS: v.world.Nanos()}, Kind: "refused", Address: addr.Addr().String(), Port: int32(addr.Port()),
		Errno: int32(syscall.ECONNREFUSED), Count: 1,
	})
}

// play runs the operators and the outsiders to the end.
func (v *virtualRun) play(ctx context.Context) (*Result, error) {
	v.stage, v.began = newVirtualStage(v), time.Now()
	for _, op := range v.ops {
		if err := v.start(op); err != nil {
			return nil, err
		}
	}
	if err := v.steps(ctx); err != nil {
		return nil, err
	}
	for v.more != nil && v.first != 0 && !v.over() {
		d := v.more()
		if d <= 0 {
			break
		}
		v.world.SetLimit(v.world.Nanos() + int64(d))
		if err := v.steps(ctx); err != nil {
			return nil, err
		}
	}
	if v.first == 0 {
		for _, g := range v.guests {
			g.flush()
		}
		if v.over() {
			return nil, v.endedTooEarly(0, v.guests[0].exit())
		}
		return nil, v.noCall()
	}
	if err := v.stage.end(ctx); err != nil {
		return nil, err
	}
	took := time.Duration(v.world.Nanos() - v.first)
	faults := outcomes(v.o.Plan, v.machine) // what is yet to come is not carried out any more
	if err := v.stop(ctx); err != nil {
		return nil, err
	}
	result := v.stage.result()
	result.Took, result.Ends, result.Faults = took, v.ends, faults
	for _, g := range v.guests {
		result.Operators = append(result.Operators, v.ended(g.op, g.exit()))
	}
	v.notes = append(v.notes, v.breaker.unmet()...)
	v.account(result)
	v.notes = append(v.notes, v.door.Notes()...)
	return result, v.finish(result, slices.Concat(v.tap.Losses(), v.rows.Losses()))
}

// steps steps the world until its limit, its rest, or the end of all operators.
func (v *virtualRun) steps(ctx context.Context) error {
	for n := 0; ; n++ {
		if v.over() {
			return nil
		}
		_, err := v.world.Step(ctx)
		switch {
		case errors.Is(err, sim.ErrQuiet), errors.Is(err, sim.ErrLimit):
			return nil
		case err != nil && ctx.Err() != nil:
			return cli.CannotRun(fmt.Errorf("the run was ended before its time: %w", ctx.Err()))
		case err != nil:
			if unfit, is := errors.AsType[*fault.Unfit](err); is {
				return unfit
			}
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

// stop asks the operators to end, and makes them after the grace.
func (v *virtualRun) stop(ctx context.Context) error {
	v.endPlan()
	for _, g := range v.guests {
		if g.ended() {
			continue
		}
		g.stopped = true
		if err := g.proc.Signal(syscall.SIGTERM); err != nil {
			return cli.CannotRun(fmt.Errorf("stop %s: %w", g.op.Name, err))
		}
	}
	v.world.SetLimit(v.world.Nanos() + int64(v.o.Grace))
	if err := v.steps(ctx); err != nil {
		return err
	}
	for _, g := range v.guests {
		g.proc.Kill() // nothing, if it has ended
		g.flush()
	}
	return nil
}

// account says what the supervisor counted, and where the time went.
func (v *virtualRun) account(result *Result) {
	synced := v.sync1
	if synced.IsZero() {
		synced = time.Now()
	}
	result.Parts = Parts{Start: v.call1.Sub(v.began), Sync: synced.Sub(v.call1), Run: time.Since(synced)}
	stats := v.sup.Stats()
	result.WorldSteps, result.OperatorCPU = v.world.Steps(), v.sup.CPU()
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

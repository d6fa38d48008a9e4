package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/process"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/traces"
)

// Options say what to run.
type Options struct {
	// Trace is the recording.
	Trace *traces.Trace
	// Operator is the operator's command; {kubeconfig} in it stands for the path of the kubeconfig.
	Operator []string
	// Env are KEY=VALUE pairs added to the operator's environment.
	Env []string
	// Identity tells the operator's recorded calls; the zero value has it found out (Identify).
	Identity Identity
	// Plan alters the run; nil is the empty plan.
	Plan *fault.Plan
	// Seed replaces the plan's, if it is not 0.
	Seed uint64
	// Out is the folder for the run's trace; it must not exist or be empty.
	Out string
	// Duration ends the run that long after the operator's first call; 0: when the recording's time is over.
	Duration time.Duration
	// MaxGap bounds the waits between two of the outsiders' changes, and after the last; 0: DefaultMaxGap,
	// negative: as recorded.
	MaxGap time.Duration
	// Settle is how long the run goes on after that; 0: DefaultSettle.
	Settle time.Duration
	// Patience is how long an outsider's change waits for what the operator had written before it in the
	// recording; 0: DefaultPatience without faults and not at all with them; negative: not at all.
	Patience time.Duration
	// Grace is how long the operator may take to end after SIGTERM; 0: DefaultGrace.
	Grace time.Duration
	// Tool is the program and version for the manifest.
	Tool string
	// Stderr gets the operator's output too; nil: only the trace gets it.
	Stderr io.Writer
	// Progress shows a line on a terminal; nil shows none.
	Progress *cli.Progress
	// Clock is what the operator lives by; "" is ClockAuto.
	Clock Clock
	// Start is the virtual time at which the operator starts; zero: that of its first call in the recording.
	Start time.Time
}

// Clock is what the operator of a run lives by.
type Clock string

// The clocks.
const (
	// ClockVirtual: the world's clock, which jumps from one thing that happens to the next. The run is a
	// function of trace, binary, plan and seed. linux/amd64 only.
	ClockVirtual Clock = "virtual"
	// ClockWall: the clock on the wall, everywhere; two runs differ.
	ClockWall Clock = "wall"
	// ClockAuto: virtual where that works, else wall, with a note that says why.
	ClockAuto Clock = "auto"
)

// Defaults of Options.
const (
	DefaultMaxGap   = 10 * time.Second
	DefaultSettle   = time.Second
	DefaultPatience = 5 * time.Second
	DefaultGrace    = 10 * time.Second
)

// firstCall is how long an operator may take to make its first call.
const firstCall = 30 * time.Second

// Result is what came of a run.
type Result struct {
	Trace    string `json:"trace"` // the recording
	RunDir   string `json:"run"`   // the run's own trace
	Operator string `json:"operator"`
	// KnownBy says how the operator's recorded calls were told from others'.
	KnownBy    string      `json:"knownBy"`
	Divergence *Divergence `json:"divergence"`
	// Steps is the number of the outsiders' recorded changes, Applied of those that the run took; Skipped
	// are those that did not fit.
	Steps   int           `json:"steps"`
	Applied int           `json:"applied"`
	Skipped []StepOutcome `json:"skipped,omitempty"`
	// NotReached is the number of steps whose time did not come.
	NotReached int `json:"notReached,omitempty"`
	// Exit is how the operator ended; ExitEarly that it did so by itself.
	Exit      process.Exit `json:"exit"`
	ExitEarly bool         `json:"exitEarly"`
	// Unmatched are selectors of the plan that met nothing.
	Unmatched []string `json:"unmatched,omitempty"`
	// Notes are things worth knowing, such as resources that the simulated API server does not have.
	Notes []string `json:"notes,omitempty"`

	// Recorded and Took are the recording's span and the run's, from the operator's first call.
	Recorded time.Duration `json:"recordedNanoseconds"`
	Took     time.Duration `json:"tookNanoseconds"`
	// Wall is the whole of Run, CPU what this process used in it, OperatorCPU what the operator did.
	Wall        time.Duration `json:"wallNanoseconds"`
	CPU         time.Duration `json:"cpuNanoseconds"`
	OperatorCPU time.Duration `json:"operatorCPUNanoseconds"`
	Calls       int           `json:"calls"`
	Events      int           `json:"events"`

	// Clock is what the operator lived by; Deterministic whether another run of the same trace, binary, plan
	// and seed gives the same bytes, and Reasons why not.
	Clock         Clock    `json:"clock"`
	Deterministic bool     `json:"deterministic"`
	Reasons       []string `json:"reasons,omitempty"`
	// WorldSteps are the steps of the world, Traps the operator's system calls that the clock stopped, Jumps
	// the clock's.
	WorldSteps int64  `json:"worldSteps,omitempty"`
	Traps      uint64 `json:"traps,omitempty"`
	Jumps      uint64 `json:"jumps,omitempty"`
	// Hash is the SHA-256 over the run's tables: equal for runs that are equal byte for byte.
	Hash string `json:"hash"`
}

// Run plays a recording back against the operator's binary and compares. One run at a time in a process: see
// apiserver.ErrSecondServer.
func Run(ctx context.Context, o Options) (*Result, error) {
	began, cpu := time.Now(), cpuTime()
	o.complete()
	if err := process.Look(o.Operator); err != nil {
		return nil, err
	}
	id, err := Identify(ctx, o.Trace, o.Identity, o.Operator[0])
	if err != nil {
		return nil, err
	}
	h, err := readHistory(ctx, o.Trace, &id)
	if err != nil {
		return nil, err
	}
	if h.first == nil && !h.managed {
		return nil, cli.Usagef("%s: no call or write in it is the operator's (%s)", o.Trace.Dir(), id.How)
	}
	r := &run{o: o, id: id, script: makeScript(h), name: id.Process}
	if r.name == "" {
		r.name = filepath.Base(o.Operator[0])
	}
	if err := r.chooseClock(); err != nil {
		return nil, err
	}
	result, err := r.run(ctx)
	if err != nil {
		return nil, err
	}
	if result.Hash, err = traceHash(o.Out); err != nil {
		return nil, cli.CannotRun(err)
	}
	result.Wall, result.CPU = time.Since(began), cpuTime()-cpu
	return result, nil
}

// chooseClock settles ClockAuto.
func (r *run) chooseClock() error {
	switch r.o.Clock {
	case ClockVirtual, ClockAuto, "":
	case ClockWall:
		return nil
	default:
		return cli.Usagef("clock %q: want virtual, wall or auto", r.o.Clock)
	}
	err := virtual.Probe()
	switch {
	case err == nil:
		r.o.Clock = ClockVirtual
	case r.o.Clock == ClockVirtual:
		return cli.CannotRun(err)
	default:
		r.o.Clock = ClockWall
		r.notes = append(r.notes, err.Error()+"; the operator ran on the wall clock instead")
	}
	return nil
}

func (o *Options) complete() {
	if o.Plan == nil {
		o.Plan = &fault.Plan{}
	}
	if o.Seed != 0 {
		o.Plan = &fault.Plan{Seed: o.Seed, Faults: o.Plan.Faults}
	}
	def := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	def(&o.MaxGap, DefaultMaxGap)
	def(&o.Settle, DefaultSettle)
	def(&o.Grace, DefaultGrace)
	if len(o.Plan.Faults) > 0 {
		// The plan says what comes before what.
		def(&o.Patience, -1)
	}
	def(&o.Patience, DefaultPatience)
	if o.Progress == nil {
		o.Progress = &cli.Progress{}
	}
}

// run is one run under way.
type run struct {
	o      Options
	id     Identity
	script *Script
	name   string // the operator's process

	clock   interface{ Now() time.Time } // the run's time
	writer  *traces.Writer
	ledger  *ledger
	server  *apiserver.Server
	gateway *gateway
	tap     *apicall.Tap
	capture *capture
	dir     string // for what the operator needs on disk
	notes   []string
}

// clock is the recorded time going on as the wall's does.
type clock struct{ start, begun time.Time }

// newClock starts at AT, or earlier where that is too close to the wall's time for the API server.
func newClock(at time.Time) *clock {
	now := time.Now()
	if latest := now.Add(-5 * time.Second).UTC(); at.After(latest) {
		at = latest
	}
	return &clock{start: at, begun: now}
}

func (c *clock) Now() time.Time { return c.start.Add(time.Since(c.begun)).UTC() }

func (r *run) run(ctx context.Context) (result *Result, err error) {
	// Whatever ends the run, what was written so far is a trace.
	if err := r.create(); err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := r.writer.Close(); err == nil && closeErr != nil {
			err = cli.CannotRun(fmt.Errorf("write the trace %s: %w", r.o.Out, closeErr))
		}
		r.o.Progress.Done()
	}()
	if r.o.Clock == ClockVirtual {
		return r.playVirtual(ctx)
	}
	if r.dir, err = os.MkdirTemp("", "opsim-"); err != nil {
		return nil, cli.CannotRun(err)
	}
	defer func() { _ = os.RemoveAll(r.dir) }()
	r.o.Progress.Set("starting the API server")
	if err := r.serve(ctx); err != nil {
		return nil, cli.CannotRun(err)
	}
	defer r.server.Close()
	defer r.capture.stop()
	door, err := r.open()
	if err != nil {
		return nil, cli.CannotRun(err)
	}
	defer door.close()
	result, err = r.play(ctx, door)
	if err != nil {
		return nil, err
	}
	r.o.Progress.Set("comparing")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := r.capture.drain(drain, r.server.Store().Bookmark); err != nil {
		return nil, cli.CannotRun(err)
	}
	result.Reasons = []string{"the operator ran on the wall clock"}
	return result, r.finish(result, r.gateway.report(), slices.Concat(r.tap.Losses(), r.capture.tap.Losses()))
}

// create makes the run's trace.
func (r *run) create() error {
	source := r.o.Trace.Manifest()
	r.clock = newClock(r.startTime())
	w, err := traces.Create(r.o.Out, traces.Manifest{
		Created: r.clock.Now(), Tool: r.o.Tool, Source: "sim",
		Cluster:    traces.Cluster{Version: apiserver.DefaultVersion},
		Operators:  []traces.Operator{r.operator()},
		Resources:  source.Resources,
		Namespaces: source.Namespaces,
		Redaction:  source.Redaction,
		Run: &traces.Run{
			Trace: r.o.Trace.Dir(), TraceSHA256: r.o.Trace.SHA256(), Plan: r.o.Plan.String(), Seed: r.o.Plan.Seed,
			Mode: string(r.o.Clock), // whether it was deterministic shows at the end
		},
	}, traces.WriterOptions{RotateAge: -1})
	if err != nil {
		return err
	}
	r.writer = w
	r.ledger = newLedger(w, r.name)
	return nil
}

// startTime is the run's first moment.
func (r *run) startTime() time.Time {
	if !r.o.Start.IsZero() {
		return r.o.Start.UTC()
	}
	return r.script.Start
}

func (r *run) operator() traces.Operator {
	op := traces.Operator{Process: r.name, Command: r.o.Operator, FieldManagers: r.id.FieldManagers}
	if u := r.id.user(); u != "" {
		op.Users = []string{u}
	}
	return op
}

// serve starts the API server in the state in which the operator found the cluster.
func (r *run) serve(ctx context.Context) error {
	r.gateway = newGateway(fault.NewMachine(r.o.Plan, fault.Options{Operator: r.name}), newHints(r.script.Writes), r.decide)
	s, err := apiserver.New(ctx, apiserver.Options{Seed: r.o.Plan.Seed, Clock: r.clock.Now, Gate: r.gateway})
	if err != nil {
		return err
	}
	r.server, r.gateway.next = s, s.Handler()
	r.o.Progress.Set("loading %d objects", len(r.script.Initial))
	if err := r.load(ctx); err != nil {
		s.Close()
		return fmt.Errorf("load the recorded cluster: %w", err)
	}
	r.tap = apicall.New(r.ledger, apicall.Options{
		Now:     r.clock.Now,
		Process: func(q *http.Request) string { return processOf(q.Context()) },
		User:    r.userOf,
	})
	r.capture = newCapture(context.WithoutCancel(ctx), r.ledger, s.Handler(), r.clock.Now)
	return r.captureAll()
}

// resources are those of the recording and of its script.
func (r *run) resources() []traces.Resource {
	all := slices.Clone(r.o.Trace.Manifest().Resources)
	add := func(ref actor.Ref) {
		if !slices.ContainsFunc(all, func(x traces.Resource) bool { return x.Group == ref.Group && x.Resource == ref.Resource }) {
			all = append(all, traces.Resource{Group: ref.Group, Version: ref.Version, Resource: ref.Resource})
		}
	}
	for _, o := range r.script.Initial {
		add(o.Ref)
	}
	for _, s := range r.script.Steps {
		add(s.Ref)
	}
	for _, w := range r.script.Writes {
		add(actor.Ref{Group: w.Group, Version: w.Version, Resource: w.Resource})
	}
	return all
}

// captureAll watches every resource that is served and not watched yet.
func (r *run) captureAll() error {
	for _, x := range r.resources() {
		if _, err := r.capture.start(x); err != nil {
			return err
		}
	}
	return nil
}

const outsider = "kubernetes-admin"

func (r *run) userOf(q *http.Request) string {
	if processOf(q.Context()) == "" {
		return outsider
	}
	if u := r.id.user(); u != "" {
		return u
	}
	return apiserver.Admin.Name
}

// decide notes a decision of the run.
func (r *run) decide(kind, subject, rule string) {
	// An error of the trace comes back when it is closed.
	_ = r.ledger.Append(&traces.Decision{
		Head: traces.Head{TS: r.clock.Now().UnixNano()},
		Step: r.ledger.step(), Kind: kind, Subject: subject, Of: 1, Rule: rule,
	})
}

// door is what the operator's calls come in by.
type door struct {
	server     *http.Server
	kubeconfig string
}

func (d *door) close() { _ = d.server.Close() }

// open listens on loopback and writes the kubeconfig.
func (r *run) open() (*door, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	handler := r.tap.Handler(r.gateway)
	user := r.id.user()
	d := &door{
		kubeconfig: filepath.Join(r.dir, "kubeconfig"),
		server: &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				ctx := withProcess(q.Context(), r.name)
				if user != "" {
					ctx = apiserver.WithUser(ctx, apiserver.User{Name: user, Groups: []string{"system:serviceaccounts", "system:masters"}})
				}
				handler.ServeHTTP(w, q.WithContext(ctx))
			}),
			ReadHeaderTimeout: time.Minute,
			ErrorLog:          log.New(io.Discard, "", 0),
		},
	}
	if err := os.WriteFile(d.kubeconfig, []byte(kubeconfig("http://"+l.Addr().String())), 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	go func() { _ = d.server.Serve(l) }() // ends with close
	return d, nil
}

// kubeconfig is one that leads to SERVER.
func kubeconfig(server string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: opsim
  cluster: {server: %q}
users:
- name: operator
  user: {}
contexts:
- name: opsim
  context: {cluster: opsim, user: operator, namespace: default}
current-context: opsim
`, server)
}

// start starts the operator.
func (r *run) start(d *door) (process.Process, error) {
	home := filepath.Join(r.dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, cli.CannotRun(err)
	}
	log := process.LogTo(r.ledger, r.name, r.clock.Now)
	output := log
	if w := r.o.Stderr; w != nil {
		output = func(stream, line string) {
			log(stream, line)
			_, _ = fmt.Fprintln(w, line)
		}
	}
	return process.Wall{}.Start(process.Spec{
		Name: r.name, Command: r.o.Operator, Kubeconfig: d.kubeconfig, Home: home, Env: r.o.Env, Output: output,
	})
}

// play runs the operator and the outsiders.
func (r *run) play(ctx context.Context, d *door) (*Result, error) {
	p, err := r.start(d)
	if err != nil {
		return nil, err
	}
	defer p.Stop(0)
	r.decide("process", "start "+r.name, "")
	r.o.Progress.Set("waiting for the operator's first call")
	timer := time.NewTimer(firstCall)
	defer timer.Stop()
	select {
	case <-r.gateway.arrived:
	case <-p.Done():
		return nil, cli.CannotRun(fmt.Errorf("the operator ended before its first call to the API server: %s; its output is in %s", p.Exit(), r.o.Out))
	case <-timer.C:
		return nil, cli.CannotRun(fmt.Errorf("the operator made no call to the API server within %s; if it takes its kubeconfig by a flag, write {kubeconfig} in the command", firstCall))
	case <-ctx.Done():
		return nil, cli.CannotRun(ctx.Err())
	}
	s := newStage(r, handlerTransport{r.tap.Handler(r.gateway)})
	s.ended = p.Done()
	if err := s.play(ctx); err != nil {
		return nil, err
	}
	result := s.result()
	result.Exit = p.Stop(r.o.Grace)
	result.ExitEarly = !result.Exit.Stopped
	result.OperatorCPU = p.CPU()
	r.decide("process", "end "+r.name+": "+result.Exit.String(), "")
	return result, nil
}

// finish completes the trace and compares.
func (r *run) finish(result *Result, unmatched []fault.Unmatched, losses []traces.Loss) error {
	for _, u := range unmatched {
		result.Unmatched = append(result.Unmatched, u.String())
	}
	for _, l := range losses {
		r.writer.Lose(l)
	}
	op := r.operator()
	op.UserAgents, op.ExitCode, op.ExitedByRecord = r.ledger.agents, &result.Exit.Code, result.Exit.Stopped
	if err := r.writer.Update(func(m *traces.Manifest) {
		m.Operators = []traces.Operator{op}
		m.Run.Deterministic, m.Run.Reason = result.Deterministic, strings.Join(result.Reasons, "; ")
	}); err != nil {
		return cli.CannotRun(fmt.Errorf("write the trace %s: %w", r.o.Out, err))
	}
	recorded, run := r.script.Writes, r.ledger.written()
	result.Divergence = compare(recorded, run, newMasker(r.script.Refs, recorded), newMasker(r.ledger.refs, run))
	result.Calls, _, result.Events = r.ledger.counts()
	result.Trace, result.RunDir = r.o.Trace.Dir(), r.o.Out
	result.Operator, result.KnownBy = r.name, r.id.How
	result.Notes, result.Clock = r.notes, r.o.Clock
	result.Recorded = r.script.Span
	return nil
}

// errEnded: the operator ended by itself, which ends the run.
var errEnded = errors.New("the operator ended")

package replay

import (
	"cmp"
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
	"github.com/opreplay/opreplay/traces"
)

// firstCall is how long an operator may take to make its first call.
const firstCall = 30 * time.Second

// Run plays a recording back against the operators' binaries and compares. One run at a time in a process: see
// apiserver.ErrSecondServer.
func Run(ctx context.Context, o Options) (*Result, error) {
	began, cpu := time.Now(), cpuTime()
	s, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	result, err := s.play(ctx, o.Out)
	if err != nil {
		return nil, err
	}
	result.spent(time.Since(began), cpuTime()-cpu)
	return result, nil
}

// run is one run under way.
type run struct {
	o      Options
	ops    anyOf
	script *Script
	begin  time.Time // its first moment

	session *Session
	rows    *Rows                // where the rows go in place of a trace; nil: to the trace
	more    func() time.Duration // see Variant

	clock   interface{ Now() time.Time } // the run's time
	writer  *traces.Writer
	ledger  *ledger
	server  *apiserver.Server
	gateway *gateway
	tap     *apicall.Tap
	capture *capture
	dir     string // for what the operator needs on disk
	notes   []string
	said    func(kind, subject, rule string) // is told of decisions; nil: nobody is
}

// clock goes on as the wall's does, from another time.
type clock struct{ start, begun time.Time }

func (c *clock) Now() time.Time { return c.start.Add(time.Since(c.begun)).UTC() }

func (r *run) run(ctx context.Context) (result *Result, err error) {
	// Whatever ends the run, what was written so far is a trace.
	if err := r.create(); err != nil {
		return nil, err
	}
	defer func() {
		r.o.Progress.Done()
		if r.writer == nil {
			return
		}
		if err != nil {
			// An error of the trace comes back when it is closed.
			_ = r.writer.Update(func(m *traces.Manifest) { m.Run.Failed = err.Error() })
		}
		if closeErr := r.writer.Close(); err == nil && closeErr != nil {
			err = cli.CannotRun(fmt.Errorf("write the trace %s: %w", r.o.Out, closeErr))
		}
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
	if result, err = r.play(ctx); err != nil {
		return nil, err
	}
	r.o.Progress.Set("comparing")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := r.capture.drain(drain, r.server.Store().Bookmark); err != nil {
		return nil, cli.CannotRun(err)
	}
	result.Reasons = []string{"the operator ran on the wall clock"}
	result.Faults = r.gateway.outcomes(r.o.Plan)
	return result, r.finish(result, slices.Concat(r.tap.Losses(), r.capture.tap.Losses()))
}

// create makes the run's trace.
func (r *run) create() error {
	source := r.o.Trace.Manifest()
	r.clock = &clock{r.begin, time.Now()}
	if r.rows != nil {
		r.keep(r.rows)
		return nil
	}
	if err := reclaim(r.o.Out); err != nil {
		return cli.CannotRun(err)
	}
	w, err := traces.Create(r.o.Out, traces.Manifest{
		Created: r.clock.Now(), Tool: r.o.Tool, Source: "sim",
		Cluster:    traces.Cluster{Version: cmp.Or(r.o.server().Version, apiserver.DefaultVersion)},
		Operators:  r.operators(nil),
		Resources:  source.Resources,
		Namespaces: source.Namespaces,
		Redaction:  source.Redaction,
		Run: &traces.Run{
			Trace: r.o.Trace.Dir(), TraceSHA256: r.o.Trace.SHA256(), Plan: r.o.Plan.String(), Seed: r.o.Plan.Seed,
			Mode: string(r.o.Clock), Start: r.begin, Threads: string(r.o.Threads),
			// Whether it was deterministic shows at the end.
		},
	}, traces.WriterOptions{RotateAge: -1})
	if err != nil {
		return err
	}
	r.writer = w
	r.keep(w)
	if len(r.o.Plan.Faults) == 0 {
		return nil
	}
	if err := os.WriteFile(filepath.Join(r.o.Out, PlanFile), []byte(r.o.Plan.String()), 0o600); err != nil {
		return cli.CannotRun(err)
	}
	return nil
}

// PlanFile is the file in a run's folder that has its plan, if that has faults: for --plan, to have the run again.
const PlanFile = "plan.yaml"

// reclaim empties a folder that holds nothing but a run that failed, so that the next attempt can have its name.
func reclaim(dir string) error {
	t, err := traces.Open(dir)
	if err != nil {
		return nil //nolint:nilerr // no trace: whoever makes one there will say what is wrong
	}
	run := t.Manifest().Run
	if err := t.Close(); err != nil || run == nil || run.Failed == "" {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !ofRun(e.Name()) }) {
		return nil // nor is anything taken away then
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// ofRun says whether a file of a run's folder is the run's.
func ofRun(name string) bool {
	return name == traces.ManifestName || name == PlanFile || strings.HasSuffix(name, ".parquet")
}

// keep has the run's rows go to OUT.
func (r *run) keep(out traces.Appender) {
	r.ledger = newLedger(out, r.names()...)
	if r.o.Live {
		r.ledger.garbage, r.ledger.undertaker = newCollector(), newUndertaker(r.script, r.ops)
	}
}

func (r *run) names() (all []string) {
	for _, op := range r.ops {
		all = append(all, op.Name)
	}
	return all
}

// operators describes them for the manifest; ENDS says how they ended, once they have.
func (r *run) operators(ends []OperatorResult) (all []traces.Operator) {
	for i, op := range r.ops {
		d := traces.Operator{Process: op.Name, Command: op.Command, FieldManagers: op.Identity.FieldManagers}
		if u := op.Identity.user(); u != "" {
			d.Users = []string{u}
		}
		if ends != nil {
			d.UserAgents = r.ledger.agents[op.Name]
			d.ExitCode, d.ExitedByRecord = &ends[i].Exit.Code, ends[i].Exit.Stopped
		}
		all = append(all, d)
	}
	return all
}

// ended is what became of an operator. How many calls it made shows when the trace is closed: on the wall clock its
// last ones end after it.
func (r *run) ended(op *Operator, exit process.Exit) OperatorResult {
	r.decide("process", "end "+op.Name+": "+exit.String(), "")
	return OperatorResult{
		Name: op.Name, KnownBy: op.Identity.How, Exit: exit, ExitEarly: !exit.Stopped,
	}
}

// serve starts the API server in the state in which the operator found the cluster.
func (r *run) serve(ctx context.Context) error {
	stored := func(group, resource string) (version, kind string) { return r.server.Stored(group, resource) }
	machine := fault.NewMachine(r.o.Plan, fault.Options{Operator: r.ops[0].Name, Stored: stored})
	r.gateway = newGateway(machine, newHints(r.script.Writes), r.decide)
	o := r.o.server()
	o.Seed, o.Clock, o.Gate = r.o.Plan.Seed, r.clock.Now, r.gateway
	s, err := apiserver.New(ctx, o)
	if err != nil {
		return err
	}
	r.server, r.gateway.next = s, s.Handler()
	r.o.Progress.Set("loading %d objects", len(r.script.Initial))
	note, err := load(ctx, s, r.script)
	if err != nil {
		s.Close()
		return fmt.Errorf("load the recorded cluster: %w", err)
	}
	r.note(note)
	r.tap = apicall.New(r.ledger, apicall.Options{
		Now:     r.clock.Now,
		Process: func(q *http.Request) string { return processOf(q.Context()) },
		User:    r.userOf,
	})
	r.capture = newCapture(context.WithoutCancel(ctx), r.ledger, s.Handler(), r.clock.Now)
	return r.captureAll()
}

// note adds a note; "" is none.
func (r *run) note(text string) {
	if text != "" {
		r.notes = append(r.notes, text)
	}
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
	if op := r.ops.named(processOf(q.Context())); op != nil {
		return op.user(r.o.RBAC).Name
	}
	return outsider
}

// decide notes a decision of the run.
func (r *run) decide(kind, subject, rule string) {
	// An error of the trace comes back when it is closed.
	_ = r.ledger.Append(&traces.Decision{
		Head: traces.Head{TS: r.clock.Now().UnixNano()},
		Step: r.ledger.step(), Kind: kind, Subject: subject, Of: 1, Rule: rule,
	})
	if r.said != nil {
		r.said(kind, subject, rule)
	}
}

// door is what an operator's calls come in by.
type door struct {
	server     *http.Server
	kubeconfig string
}

func (d *door) close() { _ = d.server.Close() }

// open listens on loopback for an operator and writes its kubeconfig.
func (r *run) open(ctx context.Context, op *Operator) (*door, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	handler := r.tap.Handler(r.gateway)
	d := &door{
		kubeconfig: filepath.Join(r.dir, "kubeconfig-"+op.Name),
		server: &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				ctx := withProcess(q.Context(), op.Name)
				handler.ServeHTTP(w, q.WithContext(apiserver.WithUser(ctx, op.user(r.o.RBAC))))
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

// start starts an operator.
func (r *run) start(op *Operator, d *door) (process.Process, error) {
	home := filepath.Join(r.dir, "home-"+op.Name)
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, cli.CannotRun(err)
	}
	log := process.LogTo(r.ledger, op.Name, r.clock.Now)
	output := log
	if w := r.o.Stderr; w != nil {
		output = func(stream, line string) {
			log(stream, line)
			_, _ = fmt.Fprintln(w, line)
		}
	}
	return process.Wall{}.Start(process.Spec{
		Name: op.Name, Command: op.Command, Kubeconfig: d.kubeconfig, Home: home, Env: r.o.Env, Output: output,
	})
}

// play runs the operators and the outsiders.
func (r *run) play(ctx context.Context) (*Result, error) {
	running := make([]process.Process, 0, len(r.ops))
	for _, op := range r.ops {
		d, err := r.open(ctx, op)
		if err != nil {
			return nil, cli.CannotRun(err)
		}
		defer d.close()
		p, err := r.start(op, d)
		if err != nil {
			return nil, err
		}
		defer p.Stop(0)
		running = append(running, p)
		r.decide("process", "start "+op.Name, "")
	}
	r.o.Progress.Set("waiting for the operator's first call")
	over := allDone(running)
	if err := r.firstCall(ctx, running, over); err != nil {
		return nil, err
	}
	s := newStage(r, handlerTransport{r.tap.Handler(r.gateway)})
	s.ended = over
	if err := s.play(ctx); err != nil {
		return nil, err
	}
	result := s.result()
	for i, p := range running {
		result.Operators = append(result.Operators, r.ended(r.ops[i], p.Stop(r.o.Grace)))
		result.OperatorCPU += p.CPU()
	}
	return result, nil
}

// firstCall waits for the first call of any operator.
func (r *run) firstCall(ctx context.Context, running []process.Process, over <-chan struct{}) error {
	timer := time.NewTimer(firstCall)
	defer timer.Stop()
	select {
	case <-r.gateway.arrived:
		return nil
	case <-over:
		return r.endedTooEarly(0, running[0].Exit())
	case <-timer.C:
		return r.noCall()
	case <-ctx.Done():
		return cli.CannotRun(ctx.Err())
	}
}

// endedTooEarly is the error of a run whose I-th operator, and all others, ended too soon.
func (r *run) endedTooEarly(i int, exit process.Exit) error {
	return cli.CannotRun(fmt.Errorf("the operator ended before its first call to the API server: %s%s", exit, r.lastWords(i)))
}

// lastWords is what an operator wrote last, and where the rest is.
func (r *run) lastWords(i int) (text string) {
	if line := r.ledger.lastWords(r.ops[i].Name); line != "" {
		text = "; its last words: " + line
	}
	if r.o.Out != "" {
		text += "; all its output is in " + r.o.Out
	}
	return text
}

func (r *run) noCall() error {
	return cli.CannotRun(fmt.Errorf("the operator made no call to the API server within %s; if it takes its kubeconfig by a flag, write {kubeconfig} in the command; if it knows only a pod's way, say --in-cluster%s", firstCall, r.lastWords(0)))
}

// allDone is closed when all processes have ended.
func allDone(all []process.Process) <-chan struct{} {
	done := make(chan struct{})
	go func() { // ends with the processes
		for _, p := range all {
			<-p.Done()
		}
		close(done)
	}()
	return done
}

// finish completes the trace and compares.
func (r *run) finish(result *Result, losses []traces.Loss) error {
	for _, f := range result.Faults {
		result.Unmatched = append(result.Unmatched, f.Unmet...)
	}
	if err := r.describe(result, losses); err != nil {
		return cli.CannotRun(fmt.Errorf("write the trace %s: %w", r.o.Out, err))
	}
	recorded, run := r.script.Writes, r.ledger.written()
	result.Divergence = compare(recorded, run, newMasker(r.script.Refs, recorded), newMasker(r.ledger.refs, run))
	result.Calls, _, result.Events = r.ledger.counts()
	for i := range result.Operators {
		result.Operators[i].Calls = r.ledger.callsOf(result.Operators[i].Name)
	}
	if d := result.Divergence; d.Recorded > 0 && d.Again == 0 && len(r.o.Plan.Faults) == 0 {
		r.note(fmt.Sprintf("none of the %s was made again: is %s the operator that was recorded?", cli.Count(d.Recorded, "recorded write"), strings.Join(r.names(), ", ")))
	}
	result.Trace, result.RunDir = r.o.Trace.Dir(), r.o.Out
	result.Notes, result.Clock = r.notes, r.o.Clock
	result.Recorded = r.script.Span
	return nil
}

// describe completes the manifest.
func (r *run) describe(result *Result, losses []traces.Loss) error {
	if r.writer == nil {
		return nil
	}
	for _, l := range losses {
		r.writer.Lose(l)
	}
	return r.writer.Update(func(m *traces.Manifest) {
		m.Operators = r.operators(result.Operators)
		m.Run.Deterministic, m.Run.Reason = result.Deterministic, strings.Join(result.Reasons, "; ")
	})
}

// errEnded: the operator ended by itself, which ends the run.
var errEnded = errors.New("the operator ended")

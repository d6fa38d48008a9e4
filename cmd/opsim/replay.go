package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/process"
	"github.com/opreplay/opreplay/traces"
)

// replayFlags are the flags of opsim replay.
type replayFlags struct {
	operators, breakAt                           []string
	plan, out, output, clock, start, threads     string
	inCluster                                    string
	process, userAgent, serviceAccount, manager  string
	env                                          []string
	seed                                         uint64
	check                                        int
	limit, maxGap, settle, patience, gracePeriod time.Duration
	without                                      []int64
	failOnDivergence, verbose, steps, live, rbac bool
	worker                                       bool
	changed                                      func(flag string) bool // says which flags are there
}

func newReplayCmd() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay TRACE --operator 'CMD'",
		Short: "Run the operator again in the recorded cluster, and compare what it writes",
		Long: `Replay starts an API server of its own with the cluster that the recorded operator came to, runs the
operator's binary against it, and makes the changes that others made in the recording, at their times. Neither a
cluster nor the network is needed. The run becomes a trace of the same form as the recording.

The command in --operator is split into words as a shell would, and is not run by a shell. The operator finds the
API server by KUBECONFIG; {kubeconfig} in the command stands for the file's path, for one that takes it by a flag.
Its environment is fixed; add to it with --env. Several --operator run in one world: replicas, or different ones.

Where the machine can do it (linux/amd64) time is virtual: a run is a function of trace, operator, plan and seed, and
waits cost nothing. --check N runs it N times and compares the runs byte for byte; --break-at stands still, time
included, for a debugger and kubectl to look.

A plan (--plan) alters the run: it holds watch events back, delays calls or answers them by errors, cuts watches,
kills, pauses and restarts processes, shows them the past. See docs/plans.md.

Printed is which of the operator's recorded writes it made again. Writes that say what an earlier one said are
counted as repetitions, leader election and Events apart.

Exit codes: 0 the run took place, whatever came of it; 1 with --fail-on-divergence when recorded writes were not
made again or new ones made, with --check when runs differ; 2 bad input; 3 the run could not take place.`,
		Example: `  # the same again
  opsim replay t.optrace --operator './manager --metrics-bind-address=0'

  # an operator that takes its kubeconfig by a flag, with a plan, as JSON
  opsim replay t.optrace --operator './operator --kubeconfig={kubeconfig}' --plan plan.yaml -o json

  # is it repeatable?
  opsim replay t.optrace --operator ./manager --check 100

  # two replicas; stop before the second creation of a ConfigMap
  opsim replay t.optrace --operator a=./manager --operator b=./manager --break-at 'CREATE configmaps #2'

  # in CI: does the new build still do what was recorded?
  opsim replay t.optrace --operator ./manager --fail-on-divergence`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.operators, "operator", nil, "the operator's command, or NAME=COMMAND; several run in one world")
	fl.StringVar(&f.plan, "plan", "", "plan of faults, a YAML file")
	fl.Uint64Var(&f.seed, "seed", 0, "seed in place of the plan's, 0 included (default: the plan's)")
	fl.IntVar(&f.check, "check", 0, "run that many times in virtual time, and compare the runs byte for byte")
	fl.StringArrayVar(&f.breakAt, "break-at", nil, "stand still, time included, before a call (\"CREATE configmaps/x #2\"), a watch event on its way to an operator (\"MODIFIED widgets/x #2\"), a step (\"step 120\") or a time (\"10s\"); may come several times")
	fl.BoolVar(&f.steps, "steps", false, "print each step of the world, and what else is decided, on stderr")
	fl.BoolVar(&f.worker, "worker", false, "")
	_ = fl.MarkHidden("worker") // what --check starts
	fl.StringVar(&f.out, "out", "", "folder for the run's trace (default: a new one beside TRACE's name in this folder)")
	fl.StringVar(&f.clock, "clock", "auto", "what the operator lives by: virtual, wall, or auto (virtual where that works)")
	fl.StringVar(&f.start, "start", "", "the run's first moment, as 2026-01-31T12:00:00Z (default: that of the recorded operator's first call)")
	fl.DurationVar(&f.limit, "limit", 0, "end the run that long after the operator's first call, by the run's clock (default: when the recording's time is over)")
	fl.StringVar(&f.threads, "threads", "", "which of the operator's threads goes first in virtual time: fifo, or seeded (default fifo)")
	fl.StringVar(&f.inCluster, "in-cluster", "auto", "let the operator find the API server as a pod does (service account, TLS) in place of KUBECONFIG: true, false, or auto (if it was recorded with a service account and its command takes no {kubeconfig})")
	fl.Lookup("in-cluster").NoOptDefVal = "true"
	fl.DurationVar(&f.maxGap, "max-gap", 0, "shorten longer waits between the outsiders' changes to this; negative: never (default: never in virtual time, 10s on the wall clock)")
	fl.DurationVar(&f.settle, "settle", replay.DefaultSettle, "go on for this long after the recording's time is over")
	fl.DurationVar(&f.patience, "patience", 0, "how long a change waits for the operator's recorded writes before it (0: not at all; default 5s, with faults in the plan 0)")
	fl.DurationVar(&f.gracePeriod, "grace", replay.DefaultGrace, "time between SIGTERM and SIGKILL at the end")
	fl.BoolVar(&f.rbac, "rbac", false, "let an operator that was recorded as a service account do what the recorded roles allow it, and no more")
	fl.BoolVar(&f.live, "live", false, "have the cluster start processes again that end, and delete objects whose owners are gone (as in opsim explore)")
	fl.Int64SliceVar(&f.without, "without", nil, "leave out the outsiders' changes with these recorded seqs")
	fl.StringArrayVar(&f.env, "env", nil, "KEY=VALUE for the operator's environment; may come several times")
	fl.StringVar(&f.process, "process", "", "the recorded process that was the operator")
	fl.StringVar(&f.userAgent, "user-agent", "", "the recorded operator's User-Agent, or its beginning")
	fl.StringVar(&f.serviceAccount, "service-account", "", "the recorded operator's service account, NAMESPACE/NAME")
	fl.StringVar(&f.manager, "field-manager", "", "the recorded operator's field manager")
	fl.BoolVar(&f.failOnDivergence, "fail-on-divergence", false, "exit with 1 when recorded writes were not made again or new ones were")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "show the operator's output")
	cli.OutputFlag(cmd, &f.output, "text", "json")
	cli.Complete(cmd, "clock", string(replay.ClockVirtual), string(replay.ClockWall), string(replay.ClockAuto))
	cli.Complete(cmd, "threads", string(replay.ThreadsFIFO), string(replay.ThreadsSeeded))
	cli.Complete(cmd, "in-cluster", string(replay.InClusterAlways), string(replay.InClusterNever), string(replay.InClusterAuto))
	_ = cmd.MarkFlagFilename("plan", "yaml", "yml")
	_ = cmd.MarkFlagDirname("out")
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, dir string) error {
	f.changed = cmd.Flags().Changed
	o, err := f.options()
	if err != nil {
		return err
	}
	if o.Trace, err = openTrace(cmd, dir); err != nil {
		return err
	}
	defer func() { _ = o.Trace.Close() }()
	if f.worker {
		return replay.Serve(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
	}
	if o.Out == "" {
		if o.Out, err = freshFolder(dir); err != nil {
			return err
		}
	}
	o.Progress = cli.NewProgress(cmd.ErrOrStderr())
	if f.verbose {
		o.Progress, o.Stderr = nil, cmd.ErrOrStderr()
	}
	if f.steps {
		o.Progress, o.Steps = nil, cmd.ErrOrStderr()
	}
	if len(o.BreakAt) > 0 {
		o.Stand = replay.NewConsole(cmd.InOrStdin(), cmd.ErrOrStderr(), breakSignal()).Stand
	}
	if f.check != 0 {
		return f.compare(cmd, o)
	}
	result, err := replay.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	if f.output == "json" {
		err = cli.WriteJSON(cmd.OutOrStdout(), result)
	} else {
		err = result.Text(cmd.OutOrStdout())
	}
	if err == nil && f.failOnDivergence && !result.Divergence.Same() {
		err = cli.ErrFindings
	}
	return err
}

// compare runs several times.
func (f *replayFlags) compare(cmd *cobra.Command, o replay.Options) error {
	self, err := os.Executable()
	if err != nil {
		return cli.CannotRun(err)
	}
	checked, err := replay.Check(cmd.Context(), o, replay.CheckOptions{
		Runs: f.check,
		Worker: func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, self, append(slices.Clone(os.Args[1:]), "--worker")...)
		},
	})
	if err != nil {
		return err
	}
	if f.output == "json" {
		err = cli.WriteJSON(cmd.OutOrStdout(), checked)
	} else if err = checked.First.Text(cmd.OutOrStdout()); err == nil {
		err = checked.Text(cmd.OutOrStdout())
	}
	if err == nil {
		err = checked.Same()
	}
	return err
}

// given says whether a flag is there.
func (f *replayFlags) given(flag string) bool { return f.changed != nil && f.changed(flag) }

func (f *replayFlags) options() (o replay.Options, err error) {
	o = replay.Options{
		Seed: f.seed, Out: f.out, Env: f.env, Tool: "opsim " + cli.ThisBuild().Version, Clock: replay.Clock(f.clock),
		Live: f.live, Without: f.without, RBAC: f.rbac,
	}
	if err := f.times(&o); err != nil {
		return o, err
	}
	switch o.Clock {
	case replay.ClockVirtual, replay.ClockWall, replay.ClockAuto:
	default:
		return o, cli.Usagef("--clock %q: want virtual, wall or auto", f.clock)
	}
	if err := f.addOperators(&o); err != nil {
		return o, err
	}
	for _, text := range f.breakAt {
		b, err := replay.ParseBreak(text)
		if err != nil {
			return o, err
		}
		o.BreakAt = append(o.BreakAt, b)
	}
	if f.start != "" {
		if o.Start, err = time.Parse(time.RFC3339Nano, f.start); err != nil {
			return o, cli.Usagef("--start %q: want a time such as 2026-01-31T12:00:00Z", f.start)
		}
	}
	switch o.Threads = replay.Threads(f.threads); o.Threads {
	case "", replay.ThreadsFIFO, replay.ThreadsSeeded:
	default:
		return o, cli.Usagef("--threads %q: want fifo or seeded", f.threads)
	}
	switch o.InCluster = replay.InCluster(f.inCluster); o.InCluster {
	case replay.InClusterAuto, replay.InClusterAlways, replay.InClusterNever:
	default:
		return o, cli.Usagef("--in-cluster=%s: want true, false or auto", f.inCluster)
	}
	for _, kv := range f.env {
		if i := strings.IndexByte(kv, '='); i < 1 {
			return o, cli.Usagef("--env %q: want KEY=VALUE", kv)
		}
	}
	if o.Plan, err = readPlan(f.plan); err != nil {
		return o, err
	}
	if f.given("seed") {
		o.Plan.Seed = f.seed // 0 too, which in Options is none
	}
	return o, nil
}

// readPlan reads a plan; without a file it is the empty one.
func readPlan(file string) (*fault.Plan, error) {
	if file == "" {
		return &fault.Plan{}, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("--plan %s: no such file", file)
	} else if err != nil {
		return nil, cli.Usagef("--plan: %w", err)
	}
	return fault.ParseFile(file, text)
}

// times takes the flags that are durations.
func (f *replayFlags) times(o *replay.Options) error {
	for _, d := range []struct {
		flag  string
		value time.Duration
		into  *time.Duration
		least time.Duration
	}{
		{"limit", f.limit, &o.Limit, 1},
		{"max-gap", f.maxGap, &o.MaxGap, -1 << 63},
		{"settle", f.settle, &o.Settle, 0},
		{"patience", f.patience, &o.Patience, 0},
		{"grace", f.gracePeriod, &o.Grace, 0},
	} {
		if !f.given(d.flag) {
			continue
		}
		switch {
		case d.value < d.least && d.least > 0:
			return cli.Usagef("--%s %s: want a time above 0, such as 30s", d.flag, d.value)
		case d.value < d.least:
			return cli.Usagef("--%s %s: want a time from 0 on, such as 30s", d.flag, d.value)
		}
		// In Options 0 is the default; a nanosecond is as good as none.
		if *d.into = d.value; d.value == 0 {
			*d.into = time.Nanosecond
		}
	}
	if f.given("check") && f.check < 2 {
		return cli.Usagef("--check %d: want at least 2 runs to compare", f.check)
	}
	return nil
}

// openTrace opens a trace, and warns of one that may lack its end, unless it is for a process that opsim itself has started.
func openTrace(cmd *cobra.Command, dir string) (*traces.Trace, error) {
	t, err := traces.Open(dir)
	if err != nil {
		return nil, err
	}
	if w := cmd.Flags().Lookup("worker"); w == nil || !w.Changed {
		warnUnclosed(cmd, t)
	}
	return t, nil
}

// warnUnclosed says that a trace may lack its end.
func warnUnclosed(cmd *cobra.Command, t *traces.Trace) {
	if !t.Manifest().Complete {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s was not closed in order, or is still being recorded: rows may be missing; of a recording that was killed oprec repair brings back what its journal has\n", cmd.Root().Name(), t.Dir())
	}
	if run := t.Manifest().Run; run != nil && run.Failed != "" {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s is a run that failed: %s\n", cmd.Root().Name(), t.Dir(), run.Failed)
	}
}

// addOperators adds the operators; an identity that is given is that of all of them.
func (f *replayFlags) addOperators(o *replay.Options) error {
	if len(f.operators) == 0 {
		return cli.Usagef("say what to run: --operator './manager'; the command is split into words as by a shell")
	}
	id := replay.Identity{Process: f.process}
	if f.userAgent != "" {
		id.UserAgents = []string{f.userAgent}
	}
	if f.manager != "" {
		id.FieldManagers = []string{f.manager}
	}
	if f.serviceAccount != "" {
		user, err := replay.ServiceAccount(f.serviceAccount)
		if err != nil {
			return err
		}
		id.Users = []string{user}
	}
	for _, text := range f.operators {
		op, err := replay.ParseOperator(text)
		if err != nil {
			return err
		}
		if err := process.Look(op.Command); err != nil {
			return err
		}
		op.Identity = id
		o.Operators = append(o.Operators, op)
	}
	return nil
}

// freshFolder is NAME-run-N.optrace in this folder, with the first N that is free.
func freshFolder(trace string) (string, error) {
	name := strings.TrimSuffix(filepath.Base(filepath.Clean(trace)), ".optrace")
	for n := 1; n < 10000; n++ {
		dir := fmt.Sprintf("%s-run-%d.optrace", name, n)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return dir, nil
		}
	}
	return "", cli.Usagef("too many runs of %s in this folder; say --out", trace)
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/explore"
	"github.com/opreplay/opreplay/replay/trial"
)

// exploreFlags are the flags of opsim explore.
type exploreFlags struct {
	trialFlags
	budget, workers  int
	time             time.Duration
	shard, out, keep string
	output           string
	noShrink, worker bool
}

// trialFlags are the flags of all commands that play and judge runs.
type trialFlags struct {
	replay        replayFlags
	invariants    []string
	settle, bound time.Duration
}

func (f *trialFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	r := &f.replay
	r.clock = "virtual"
	fl.StringArrayVar(&r.operators, "operator", nil, "the operator's command, or NAME=COMMAND; several run in one world")
	fl.Uint64Var(&r.seed, "seed", 0, "seed of the unaltered run; that of chance follows from it")
	fl.StringVar(&r.start, "start", "", "the runs' first moment, as 2026-01-31T12:00:00Z (default: that of the recorded operator's first call)")
	fl.BoolVar(&r.rbac, "rbac", false, "let an operator that was recorded as a service account do what the recorded roles allow it, and no more")
	fl.StringVar(&r.inCluster, "in-cluster", "auto", "let the operator find the API server as a pod does: true, false, or auto (see opsim replay)")
	fl.Lookup("in-cluster").NoOptDefVal = "true"
	fl.StringArrayVar(&r.env, "env", nil, "KEY=VALUE for the operator's environment; may come several times")
	fl.StringVar(&r.process, "process", "", "the recorded process that was the operator")
	fl.StringVar(&r.userAgent, "user-agent", "", "the recorded operator's User-Agent, or its beginning")
	fl.StringVar(&r.serviceAccount, "service-account", "", "the recorded operator's service account, NAMESPACE/NAME")
	fl.StringVar(&r.manager, "field-manager", "", "the recorded operator's field manager")
	fl.StringArrayVar(&f.invariants, "invariant", nil, "a condition in CEL that has to hold, over objects (all there are at the end) or over object and old (each write), or @FILE with a YAML list of {name, expr}; may come several times")
	fl.DurationVar(&f.settle, "settle", trial.DefaultSettle, "virtual time that a run goes on after the recording's is over")
	fl.DurationVar(&f.bound, "bound", trial.DefaultBound, "how much more a run is given whose end is not that of the unaltered run")
}

func (f *trialFlags) options(cmd *cobra.Command, dir string) (o trial.Options, err error) {
	for _, d := range []struct {
		flag  string
		value time.Duration
		into  *time.Duration
	}{{"settle", f.settle, &o.Settle}, {"bound", f.bound, &o.Bound}} {
		if d.value < 0 {
			return o, cli.Usagef("--%s %s: want a time that is not negative", d.flag, d.value)
		}
		// In Options 0 is the default; a nanosecond is as good as none.
		*d.into = max(d.value, time.Nanosecond)
	}
	if o.Replay, err = f.replay.options(); err != nil {
		return o, err
	}
	for _, text := range f.invariants {
		all, err := trial.ParseInvariants(text)
		if err != nil {
			return o, err
		}
		o.Invariants = append(o.Invariants, all...)
	}
	o.Replay.Trace, err = openTrace(cmd, dir)
	return o, err
}

// command is the opsim replay that shows a try again.
func (f *trialFlags) command(dir string) func(trial.Again) string {
	return func(a trial.Again) string {
		words := []string{"opsim", "replay", dir}
		r, t, start := &f.replay, &a.Try, f.replay.start
		if !a.Start.IsZero() {
			start = a.Start.Format(time.RFC3339Nano)
		}
		for i := 1; i <= max(t.Replicas, 1); i++ {
			for n, op := range r.operators {
				if t.Replicas > 1 { // their names, which the plan may use, are not those that replay would give
					op = named(a.Names[n], i, op)
				}
				words = append(words, "--operator", op)
			}
		}
		for _, kv := range r.env {
			words = append(words, "--env", kv)
		}
		for _, x := range []struct{ flag, value string }{
			{"--start", start}, {"--process", r.process}, {"--user-agent", r.userAgent}, {"--service-account", r.serviceAccount}, {"--field-manager", r.manager},
		} {
			if x.value != "" {
				words = append(words, x.flag, x.value)
			}
		}
		if t.Procs > 1 {
			words = append(words, "--env", "GOMAXPROCS="+strconv.Itoa(t.Procs))
		}
		if t.Threads != "" {
			words = append(words, "--threads", string(t.Threads))
		}
		if len(t.Without) > 0 {
			var all []string
			for _, q := range t.Without {
				all = append(all, strconv.FormatInt(q, 10))
			}
			words = append(words, "--without", strings.Join(all, ","))
		}
		if r.inCluster != "" && r.inCluster != string(replay.InClusterAuto) {
			words = append(words, "--in-cluster="+r.inCluster)
		}
		if r.rbac {
			words = append(words, "--rbac")
		}
		if len(t.Plan.Faults) == 0 { // else it is so by itself
			words = append(words, "--patience", "0s")
		}
		words = append(words, "--live", "--settle", (f.settle + a.More).String(), "--plan", a.Plan)
		return shellWords(words)
	}
}

// named is an --operator with the name of its i-th replica.
func named(name string, i int, op string) string {
	if before, command, ok := strings.Cut(op, "="); ok && before == name {
		op = command
	}
	if i > 1 {
		name = fmt.Sprintf("%s-%d", name, i)
	}
	return name + "=" + op
}

// shellWords writes words as a POSIX shell reads them.
func shellWords(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("-_./=:@%,+", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

func newExploreCmd() *cobra.Command {
	var f exploreFlags
	cmd := &cobra.Command{
		Use:   "explore TRACE --operator 'CMD'",
		Short: "Find the timing that breaks the operator, from a recording of a run that went well",
		Long: `Explore plays the recording once as it was, and then many times with its timing altered: a crash after each write,
an answer that is lost or an error, a watch that lags, breaks or never shows a state, a restart at an API server that
is behind, a lease that is lost, a clock that jumps. Each is something that a real cluster does. What follows from
what in the unaltered run says which of them could matter. Then come combinations by chance.

Nobody has to say what is right. The outsiders of the recording make the same changes in each run, the faults end, and
the operator is given time: then the cluster has to be as after the unaltered run. Reported are objects that are
missing, too many or different, objects that were deleted and made again, panics, exits, two leaders, and all that
'opsim analyze' finds; with --invariant, also conditions of your own.

Findings with one cause are one. Each comes with its smallest plan, which is shrunk until nothing can be taken away,
and with the command that shows it again. All plans and what came of them are in a table, results.parquet in the
folder of --out: the same trace, binary, budget and seed give the same table. After ^C the same command goes on.

Runs are in virtual time (linux/amd64). See docs/explore.md.

Exit codes: 0 nothing found; 1 found something; 2 bad input; 3 the runs could not take place.`,
		Example: `  opsim explore t.optrace --operator './manager --metrics-bind-address=0'

  # more of it, on three machines; then one table of it all
  opsim explore t.optrace --operator ./manager --budget 6000 --shard 1/3 --out part1
  opsim explore results part1 part2 part3

  # what must never happen
  opsim explore t.optrace --operator ./manager \
    --invariant 'object.kind != "Database" || old == null || object.spec.sizeGiB >= old.spec.sizeGiB'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fl := cmd.Flags()
	f.add(cmd)
	fl.IntVar(&f.budget, "budget", explore.DefaultBudget, "how many plans to run")
	fl.DurationVar(&f.time, "time", 0, "end after that long (default: when the budget is used up)")
	fl.IntVar(&f.workers, "workers", 0, "runs at a time (default: one a processor)")
	fl.StringVar(&f.shard, "shard", "", "run the I-th of N parts, as I/N")
	fl.StringVar(&f.out, "out", "", "folder for what is found (default: NAME-explored in this folder, where the same exploration goes on)")
	fl.StringVar(&f.keep, "keep", "", "new folder in which each finding becomes a regression case")
	fl.BoolVar(&f.noShrink, "no-shrink", false, "leave the plans as they were found")
	fl.BoolVar(&f.worker, "worker", false, "")
	_ = fl.MarkHidden("worker") // what it starts itself
	cli.OutputFlag(cmd, &f.output, "text", "json")
	cmd.AddCommand(newResultsCmd())
	return cmd
}

// check refuses what no exploration can be made with.
func (f *exploreFlags) check() error {
	switch {
	case f.budget < 1:
		return cli.Usagef("--budget %d: want how many plans to run, from 1", f.budget)
	case f.workers < 0:
		return cli.Usagef("--workers %d: want how many runs at a time, from 1, or 0 for one a processor", f.workers)
	case f.time < 0:
		return cli.Usagef("--time %s: want a time that is not negative", f.time)
	}
	return nil
}

func (f *exploreFlags) run(cmd *cobra.Command, dir string) error {
	if err := f.check(); err != nil {
		return err
	}
	t, err := f.options(cmd, dir)
	if err != nil {
		return err
	}
	defer func() { _ = t.Replay.Trace.Close() }()
	if f.worker {
		return trial.Serve(cmd.Context(), t, cmd.InOrStdin(), cmd.OutOrStdout())
	}
	self, err := os.Executable()
	if err != nil {
		return cli.CannotRun(err)
	}
	o := explore.Options{
		Trial: t, Budget: f.budget, Time: f.time, Out: f.out, Workers: f.workers, NoShrink: f.noShrink, Keep: f.keep,
		Progress: cli.NewProgress(cmd.ErrOrStderr()), Command: f.command(dir),
		Worker: func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, self, append(slices.Clone(os.Args[1:]), "--worker")...)
		},
	}
	if o.Out == "" {
		o.Out = strings.TrimSuffix(filepath.Base(filepath.Clean(dir)), ".optrace") + "-explored"
	}
	if f.shard != "" {
		if n, err := fmt.Sscanf(f.shard, "%d/%d", &o.Shard, &o.Shards); n != 2 || err != nil || f.shard != fmt.Sprintf("%d/%d", o.Shard, o.Shards) {
			return cli.Usagef("--shard %q: want I/N, such as 1/3", f.shard)
		}
	}
	result, err := explore.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	if f.output == "json" {
		err = cli.WriteJSON(cmd.OutOrStdout(), result)
	} else {
		err = result.Text(cmd.OutOrStdout())
	}
	if err == nil {
		err = result.Found()
	}
	return err
}

func newResultsCmd() *cobra.Command {
	var output, out string
	cmd := &cobra.Command{
		Use:   "results FOLDER…",
		Short: "Show the table of an exploration, or merge those of its shards",
		Example: `  opsim explore results t-explored
  opsim explore results part1 part2 part3 --out all.parquet
  opsim explore results t-explored -o json | jq '.[] | select(.verdict == "alarms") | .plan'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rows, err := explore.Merge(args)
			if err != nil {
				return err
			}
			if out != "" {
				if err := explore.WriteTable(out, rows); err != nil {
					return err
				}
			}
			if output == "json" {
				return cli.WriteJSON(cmd.OutOrStdout(), rows)
			}
			return explore.TableText(cmd.OutOrStdout(), rows)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "also write the merged table to this file")
	cli.OutputFlag(cmd, &output, "text", "json")
	return cmd
}

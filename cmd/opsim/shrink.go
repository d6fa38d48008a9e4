package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/shrink"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/sim/fault"
)

// shrinkFlags are the flags of opsim shrink.
type shrinkFlags struct {
	trialFlags
	without     []int64
	alarm       int
	most        int
	keepScript  bool
	worker      bool
	out, output string
	started     time.Time // RUN's first moment
}

func newShrinkCmd() *cobra.Command {
	var f shrinkFlags
	cmd := &cobra.Command{
		Use:   "shrink RUN",
		Short: "Make the plan of a failing run as small as it gets, and say what happened",
		Long: `Shrink takes a run that went wrong (a trace that 'opsim replay --plan' made), and leaves out of its plan all that
can go while it still goes wrong in the same way: faults, what their parameters say, and the changes that outsiders
made in the recording. Then it sets the steps of the failing run beside those of the unaltered one, around the first
difference that matters.

The recording, the operator's command, the plan, the seed and the start are those of RUN's manifest; --operator names
another binary. Paths in it that lead nowhere from here are tried from the folder that RUN is in. What is wrong with a run is judged as in 'opsim explore'.

Exit codes: 0 nothing is wrong with the run; 1 it was shrunk; 2 bad input; 3 the runs could not take place.`,
		Example: `  opsim replay t.optrace --operator ./manager --plan big.yaml --live --out run.optrace
  opsim shrink run.optrace

  # of several things that are wrong with it, the second; more patience
  opsim shrink run.optrace --alarm 2 --runs 1000`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fl := cmd.Flags()
	f.add(cmd)
	fl.Int64SliceVar(&f.without, "without", nil, "recorded changes of outsiders that RUN was made without")
	fl.IntVar(&f.alarm, "alarm", 1, "which of the things that are wrong with the run has to stay, the worst being 1")
	fl.IntVar(&f.most, "runs", shrink.DefaultMost, "make at most so many runs")
	fl.BoolVar(&f.keepScript, "keep-script", false, "leave all of the outsiders' changes in")
	fl.StringVar(&f.out, "out", "", "file for the small plan (default: RUN's name with -small.yaml in this folder)")
	fl.BoolVar(&f.worker, "worker", false, "")
	_ = fl.MarkHidden("worker") // what it starts itself
	cli.OutputFlag(cmd, &f.output, "text", "json")
	return cmd
}

// shrunk is what shrink prints as JSON.
type shrunk struct {
	*shrink.Small
	Story   *shrink.Story `json:"story"`
	File    string        `json:"file"`
	Command string        `json:"command"`
}

func (f *shrinkFlags) run(cmd *cobra.Command, dir string) error {
	if f.most < 1 {
		return cli.Usagef("--runs %d: want how many runs to make at most, from 1", f.most)
	}
	t, source, err := f.of(cmd, dir)
	if err != nil {
		return err
	}
	o, err := f.options(cmd, source)
	if err != nil {
		return err
	}
	defer func() { _ = o.Replay.Trace.Close() }()
	o.Replay.Plan = t.Plan
	if o.Replay.Start.IsZero() {
		o.Replay.Start = f.started
	}
	if f.worker {
		return trial.Serve(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
	}
	runner, err := trial.Open(cmd.Context(), o)
	if err != nil {
		return err
	}
	defer runner.Close()
	progress := cli.NewProgress(cmd.ErrOrStderr())
	defer progress.Done()
	progress.Set("running the plan as it is")
	out, err := runner.Run(cmd.Context(), t)
	if err != nil {
		return err
	}
	switch {
	case out.Verdict == trial.Failed:
		return cli.CannotRun(fmt.Errorf("the plan cannot be run: %s", out.Error))
	case len(out.Alarms) == 0:
		progress.Done()
		return f.fine(cmd, t)
	case f.alarm < 1 || f.alarm > len(out.Alarms):
		return cli.Usagef("--alarm %d: there are %d", f.alarm, len(out.Alarms))
	}
	small, err := f.shrink(cmd.Context(), runner, t, out.Alarms[f.alarm-1], progress)
	if err != nil {
		return err
	}
	progress.Done()
	return f.print(cmd, dir, source, runner, small)
}

// of is the run as a try, and the recording that it is of.
func (f *shrinkFlags) of(cmd *cobra.Command, dir string) (t trial.Try, source string, err error) {
	run, err := openTrace(cmd, dir)
	if err != nil {
		return t, "", err
	}
	defer func() { _ = run.Close() }()
	m := run.Manifest()
	if m.Run == nil {
		return t, "", cli.Usagef("%s: a recording, not a run; shrink takes what 'opsim replay --plan' made", dir)
	}
	if t.Plan, err = fault.Parse(dir+"/manifest.json", []byte(m.Run.Plan)); err != nil {
		return t, "", err
	}
	t.Threads, t.Without = replay.Threads(m.Run.Threads), f.without
	if t.Threads == replay.ThreadsFIFO {
		t.Threads = ""
	}
	if len(f.replay.operators) == 0 {
		for _, op := range m.Operators {
			command := slices.Clone(op.Command)
			if len(command) > 0 && filepath.Base(command[0]) != command[0] {
				command[0] = found(dir, command[0])
			}
			f.replay.operators = append(f.replay.operators, op.Process+"="+shellWords(command))
		}
	}
	f.started = m.Run.Start
	return t, found(dir, m.Run.Trace), nil
}

// found is a path of a run's manifest, which was relative to where the run was made: as it is from here, or else from the
// folder that the run is in.
func found(run, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if beside := filepath.Join(filepath.Dir(filepath.Clean(run)), path); beside != path {
		if _, err := os.Stat(beside); err == nil {
			return beside
		}
	}
	return path
}

// fine says that there is nothing to shrink.
func (f *shrinkFlags) fine(cmd *cobra.Command, t trial.Try) error {
	if f.output == "json" {
		return cli.WriteJSON(cmd.OutOrStdout(), struct {
			Try    trial.Try     `json:"try"`
			Alarms []trial.Alarm `json:"alarms"`
		}{t, []trial.Alarm{}})
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), "nothing is wrong with this run: it ends as the unaltered one does")
	return err
}

func (f *shrinkFlags) shrink(ctx context.Context, runner *trial.Runner, t trial.Try, alarm trial.Alarm, progress *cli.Progress) (*shrunk, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, cli.CannotRun(err)
	}
	pool, err := trial.NewPool(ctx, runner, runtime.NumCPU(), func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, self, append(slices.Clone(os.Args[1:]), "--worker")...)
	})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	r := &shrunk{}
	if r.Small, err = shrink.Shrink(ctx, pool, t, shrink.Options{Key: alarm.Key(), Most: f.most, KeepScript: f.keepScript, Progress: progress.Set}); err != nil {
		return nil, err
	}
	progress.Set("what happened")
	r.Story, err = shrink.Explain(ctx, runner, r.Try, r.Alarm)
	return r, err
}

func (f *shrinkFlags) print(cmd *cobra.Command, dir, source string, runner *trial.Runner, r *shrunk) error {
	if r.File = f.out; r.File == "" {
		r.File = strings.TrimSuffix(filepath.Base(filepath.Clean(dir)), ".optrace") + "-small.yaml"
	}
	if err := os.WriteFile(r.File, []byte(r.Try.Plan.String()), 0o600); err != nil {
		return cli.CannotRun(err)
	}
	r.Command = f.command(source)(runner.Again(r.Try, r.Story.More, r.File))
	w := cmd.OutOrStdout()
	if f.output == "json" {
		if err := cli.WriteJSON(w, r); err != nil {
			return err
		}
		return cli.ErrFindings
	}
	if _, err := fmt.Fprintf(w, "%s\n\n%s\n", r.Alarm.What, r.Try.Plan); err != nil {
		return err
	}
	if len(r.Left) > 0 {
		if _, err := fmt.Fprintf(w, "without these changes by outsiders: %s\n\n", strings.Join(r.Left, "; ")); err != nil {
			return err
		}
	}
	if err := r.Story.Text(w); err != nil {
		return err
	}
	more := ""
	if !r.Done {
		more = "; there may be a smaller one: --runs"
	}
	if _, err := fmt.Fprintf(w, "\nthe plan is in %s (%s%s); see it again:\n  %s\n", r.File, cli.Count(r.Runs, "run"), more, r.Command); err != nil {
		return err
	}
	return cli.ErrFindings
}

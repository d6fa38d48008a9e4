package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/traces"
	"github.com/opreplay/opreplay/traces/cases"
)

// Options say where things are.
type Options struct {
	// Opsim is the program to start for each run.
	Opsim string
	// Zoo is the folder with the operators' binaries.
	Zoo string
	// Out is the folder that the runs' traces go to; it must be there and hold none of them.
	Out string
	// Parallel is how many runs go on at a time; 0 means all, for they mostly wait.
	Parallel int
	// Progress is told how far it has got. Nil: nothing.
	Progress func(format string, args ...any)
}

// The twins.
const (
	Faulty = "faulty"
	Fixed  = "fixed"
)

// Run is one replay of a bundled trace against one twin.
type Run struct {
	Case cases.Case `json:"case"`
	Twin string     `json:"twin"`
	// Trace is the run's own trace.
	Trace    string             `json:"trace"`
	Findings []analysis.Finding `json:"findings"`
	// Hash stands for all that the run did. Repeated is set when a second run was made and gave the same: where
	// there is virtual time.
	Hash     string `json:"hash,omitempty"`
	Repeated bool   `json:"repeated"`
	// Wrong says how the run is not as it should be; "" when it is.
	Wrong string `json:"wrong,omitempty"`

	command []string
	twice   bool
}

// Report is what came of all runs.
type Report struct {
	Runs       []Run         `json:"runs"`
	AsExpected bool          `json:"asExpected"`
	Out        string        `json:"out"`
	Took       time.Duration `json:"tookNanoseconds"`
}

// Play replays every case against both twins.
func Play(ctx context.Context, o Options) (*Report, error) {
	started := time.Now()
	recorded := filepath.Join(o.Out, "recorded")
	report := &Report{Out: o.Out, AsExpected: true}
	twice := virtual.Probe() == nil
	for _, c := range cases.Plain() {
		operator := filepath.Join(o.Zoo, c.Operator)
		if _, err := os.Stat(operator); err != nil {
			return nil, cli.Usagef("the zoo's operator %s is not there: run 'make build' in a clone, or name its folder with --zoo", operator)
		}
		trace, err := c.Extract(recorded)
		if err != nil {
			return nil, err
		}
		for _, twin := range []string{Faulty, Fixed} {
			out := filepath.Join(o.Out, c.Name+"-"+twin+".optrace")
			report.Runs = append(report.Runs, Run{
				Case: c, Twin: twin, Trace: out, twice: twice,
				command: append([]string{o.Opsim, "replay", trace, "--out", out}, flags(operator, twin, twice)...),
			})
		}
	}
	err := each(ctx, o, report.Runs)
	for _, r := range report.Runs {
		report.AsExpected = report.AsExpected && r.Wrong == ""
	}
	report.Took = time.Since(started)
	return report, err
}

// patience is how long a user's change waits for the recorded writes before it. The mended twin does not make
// them all, so there the default would only make the demo longer.
const patience = "1s"

// flags are those of opsim replay for a twin.
func flags(operator, twin string, twice bool) []string {
	all := []string{"--operator", quote(operator)}
	if twin == Fixed {
		all = []string{"--operator", quote(operator) + " --fixed", "--patience", patience}
	}
	if twice {
		all = append(all, "--check", "2", "--output", "json")
	}
	return all
}

// each plays the runs, some at a time, and stops at the first that could not run.
func each(ctx context.Context, o Options, runs []Run) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := o.Parallel
	if limit <= 0 {
		limit = len(runs)
	}
	var done progress
	done.total, done.tell = len(runs), o.Progress
	done.set(0)
	places := make(chan struct{}, limit)
	var wg sync.WaitGroup
	for i := range runs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			places <- struct{}{}
			defer func() { <-places }()
			if ctx.Err() != nil {
				return
			}
			if err := runs[i].play(ctx); err != nil {
				cancel(err)
			}
			done.set(1)
		}()
	}
	wg.Wait()
	return context.Cause(ctx)
}

type progress struct {
	mu          sync.Mutex
	done, total int
	tell        func(string, ...any)
}

func (p *progress) set(more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += more
	if p.tell != nil {
		p.tell("replayed %d of %d", p.done, p.total)
	}
}

// play replays and judges one run.
func (r *Run) play(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, r.command[0], r.command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its operator
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != cli.ExitFindings {
		return cli.CannotRun(fmt.Errorf("%s, %s twin: '%s': %w: %s",
			r.Case.Name, r.Twin, strings.Join(r.command, " "), err, strings.TrimSpace(stderr.String())))
	}
	if err := r.compare(stdout.Bytes()); err != nil {
		return err
	}
	trace, err := traces.Open(r.Trace)
	if err != nil {
		return err
	}
	defer func() { _ = trace.Close() }()
	result, err := analysis.Analyze(ctx, trace, analysis.Options{})
	if err != nil {
		return fmt.Errorf("analyze %s: %w", r.Trace, err)
	}
	r.Findings = append([]analysis.Finding{}, result.Findings...) // none is [] in JSON, not null
	r.Wrong = r.judge()
	return nil
}

// compare reads what 'opsim replay --check' says.
func (r *Run) compare(text []byte) error {
	if !r.twice {
		return nil
	}
	var checked replay.Checked
	if err := json.Unmarshal(text, &checked); err != nil || checked.First == nil {
		return cli.CannotRun(fmt.Errorf("%s, %s twin: what the replay says is not understood: %w", r.Case.Name, r.Twin, err))
	}
	r.Hash, r.Repeated = checked.First.Hash, checked.Identical == checked.Runs && checked.First.Deterministic
	return nil
}

// judge says how the run is not as it should be.
func (r *Run) judge() string {
	if r.twice && !r.Repeated {
		return "a second run should be the same, byte for byte; run opsim replay --check 2 to see where it is not"
	}
	if r.Twin == Fixed {
		if len(r.Findings) > 0 {
			return "the mended twin should have no findings"
		}
		return ""
	}
	for _, f := range r.Findings {
		if f.Detector == r.Case.Finding {
			return ""
		}
	}
	return "the faulty twin should have the finding " + r.Case.Finding
}

// quote makes path one word of a command line.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

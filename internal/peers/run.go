package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// State is what became of a spec.
type State string

// The states, as Ginkgo has them; all others count as failed.
const (
	Passed  State = "passed"
	Failed  State = "failed"
	Skipped State = "skipped"
	Pending State = "pending"
)

// Spec is one spec of a suite.
type Spec struct {
	Name  string
	State State
}

// Result is one package's suite on one API server.
type Result struct {
	Package string
	Specs   []Spec
	Took    time.Duration
	Log     string // the file with the suite's output
	// Error is what went wrong beside the specs: the suite did not start, or did not end.
	Error string
}

// Count is how many specs are in a state.
func (r *Result) Count(s State) int {
	n := 0
	for _, spec := range r.Specs {
		if spec.State == s {
			n++
		}
	}
	return n
}

// suiteTimeout bounds one package's suite.
const suiteTimeout = 15 * time.Minute

// Run runs all suites, one after the other, each on an API server of its own from the folder ASSETS, which
// NAME stands for in what is printed.
func (s *Suites) Run(ctx context.Context, name, assets string, progress Progress) ([]Result, error) {
	out := filepath.Join(s.dir, name)
	if err := os.MkdirAll(out, 0o700); err != nil {
		return nil, err
	}
	var all []Result
	for i, pkg := range s.Packages {
		progress("running %s on the %s API server (%d of %d)", pkg, name, i+1, len(s.Packages))
		r, err := s.run(ctx, pkg, assets, filepath.Join(out, strings.ReplaceAll(pkg, "/", "-")))
		if err != nil {
			return nil, err
		}
		all = append(all, *r)
	}
	return all, nil
}

func (s *Suites) run(ctx context.Context, pkg, assets, base string) (*Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, suiteTimeout, fmt.Errorf("not within %v", suiteTimeout))
	defer cancel()
	r := &Result{Package: pkg, Log: base + ".log"}
	log, err := os.Create(r.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // a log
	report := base + ".json"
	cmd := exec.CommandContext(ctx, s.program(pkg), "-ginkgo.no-color", "-ginkgo.seed=1", "-ginkgo.json-report="+report)
	cmd.Dir = filepath.Join(s.source(), pkg)
	cmd.Env = append(os.Environ(), "PWD="+cmd.Dir, "KUBEBUILDER_ASSETS="+assets, "USE_EXISTING_CLUSTER=",
		"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=2m", "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=1m", "KUBECONFIG=")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = 10 * time.Second
	began := time.Now()
	runErr := cmd.Run()
	r.Took = time.Since(began)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w; its output: %s", pkg, context.Cause(ctx), r.Log)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		r.Error = fmt.Sprintf("no report: %v", runErr)
		return r, nil
	}
	if r.Specs, err = parse(text); err != nil {
		return nil, fmt.Errorf("%s: %w", report, err)
	}
	if runErr != nil && r.Count(Failed) == 0 {
		r.Error = runErr.Error()
	}
	return r, nil
}

// parse reads a report of Ginkgo's. A name that comes twice is numbered. Set-up and tear-down of a suite
// count when they fail.
func parse(text []byte) ([]Spec, error) {
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts           []string
			LeafNodeType, LeafNodeText, State string
		}
	}
	if err := json.Unmarshal(text, &suites); err != nil {
		return nil, fmt.Errorf("no report of Ginkgo's: %w", err)
	}
	var out []Spec
	seen := map[string]int{}
	for _, suite := range suites {
		for _, r := range suite.SpecReports {
			s := Spec{State: State(r.State)}
			switch s.State {
			case Passed, Skipped, Pending:
			default:
				s.State = Failed
			}
			if r.LeafNodeType != "It" && s.State != Failed {
				continue
			}
			s.Name = strings.TrimSpace(strings.Join(append(r.ContainerHierarchyTexts, r.LeafNodeText), " "))
			if r.LeafNodeType != "It" {
				s.Name = strings.TrimSpace(s.Name + " [" + r.LeafNodeType + "]")
			}
			if seen[s.Name]++; seen[s.Name] > 1 {
				s.Name = fmt.Sprintf("%s (%d)", s.Name, seen[s.Name])
			}
			out = append(out, s)
		}
	}
	return out, nil
}

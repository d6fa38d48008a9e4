//go:build linux && amd64

package replay

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/traces"
)

// TestFaultOutcomes: each fault says how often it struck; what was yet to come, or to end, when the run ended is told.
func TestFaultOutcomes(t *testing.T) {
	r, trace := playCase(t, "statusloop", `
faults:
- answer: {request: "CREATE configmaps", nth: 1, code: 409}
- pause: {process: operator, at: 3h, for: 1s}
- hold: {watch: sites, client: operator, from: "DELETED blog", for: 1h}
- storage: {commit: 50ms}
`)
	want := []struct {
		struck int // -1: more than once
		unmet  string
	}{{1, ""}, {0, "at 3h0m0s did not come before the run ended"}, {1, "for 1h0m0s was not over when the run ended"}, {-1, ""}}
	if len(r.Faults) != len(want) {
		t.Fatalf("faults: %+v", r.Faults)
	}
	for i, w := range want {
		f := r.Faults[i]
		unmet := strings.Join(f.Unmet, "; ")
		if f.Struck != w.struck && (w.struck != -1 || f.Struck < 2) || !strings.HasPrefix(unmet, w.unmet) || w.unmet == "" && unmet != "" {
			t.Errorf("fault %d: %+v, want %+v", i, f, w)
		}
	}
	var text bytes.Buffer
	if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "plan: fault 1 struck once: answer: {") || !strings.Contains(text.String(), "plan: fault 2 struck never: pause: {") {
		t.Errorf("%v in\n%s", err, text.String())
	}
	// The plan lies in the run's folder, and is the one that was carried out.
	plan, err := os.ReadFile(filepath.Join(r.RunDir, PlanFile))
	if err != nil || string(plan) != trace.Manifest().Run.Plan {
		t.Errorf("%v: %s", err, plan)
	}
}

// TestPlanSchema: the API server itself refuses what the changed CRD does not admit, in every run of a process.
func TestPlanSchema(t *testing.T) {
	r, trace := playCase(t, "statusloop", `
faults:
- schema: {crd: sites.web.example.com, field: spec.title, pattern: "^Soon$", at: "CREATE configmaps"}
`)
	if r.Faults[0].Struck != 1 || len(r.Unmatched) > 0 {
		t.Errorf("%+v", r.Faults)
	}
	refused := 0
	for _, q := range rows[traces.Request](t, trace) {
		if q.Process == "" && q.Resource == "sites" && q.Code == 422 && strings.Contains(q.ResponseBody, "spec.title") {
			refused++
		}
	}
	if refused == 0 || len(r.Skipped) == 0 {
		t.Errorf("%d of the outsiders' changes were refused; skipped: %v", refused, r.Skipped)
	}
}

// TestPlanUnfit: a fault that does not go with the run is the plan's mistake, and is named with what is wrong.
func TestPlanUnfit(t *testing.T) {
	k := caseTask(t, "statusloop")
	needVirtual(t)
	k.Plan = `faults: [{schema: {crd: sites.web.example.com, field: spec.nosuch, required: true, at: 1s}}]`
	o, err := k.options()
	if err != nil {
		t.Fatal(err)
	}
	o.Out = filepath.Join(t.TempDir(), "run.optrace")
	_, err = Run(context.Background(), o)
	const want = `plan: schema: {crd: sites.web.example.com, field: spec.nosuch, required: true, at: 1s}: no version of the CRD sites.web.example.com has spec.nosuch in its schema`
	if err == nil || err.Error() != want || cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("%v (exit code %d), want %s", err, cli.ExitCode(err), want)
	}
}

// TestStepsPrintDecisions: what a plan does to processes stands among the steps, as in the table of decisions.
func TestStepsPrintDecisions(t *testing.T) {
	needVirtual(t)
	k := caseTask(t, "statusloop")
	k.Plan = `faults: [{crash: {process: operator, at: 2s}}, {pause: {process: operator, at: 4s, for: 1s}}]`
	var steps bytes.Buffer
	_, trace := k.run(t, func(o *Options) { o.Steps = &steps })
	lines := strings.Split(steps.String(), "\n")
	seen := 0
	for _, d := range rows[traces.Decision](t, trace) {
		if d.Kind != "process" {
			continue
		}
		seen++
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "process") && strings.Contains(l, d.Subject) }) {
			t.Errorf("%q is not printed", d.Subject)
		}
	}
	if seen < 6 { // start, kill, start, pause, resume, end
		t.Errorf("%d decisions about processes", seen)
	}
	if !strings.Contains(steps.String(), "pause statusloop  by pause: {process: operator") {
		t.Errorf("the pause does not say by which rule:\n%s", steps.String())
	}
}

// TestBreaksCountAsPlansDo: a plan delays the first watch to arrive beyond the second, and a break calls it #1 all the
// same. A break before an event stands before it is delivered.
func TestBreaksCountAsPlansDo(t *testing.T) {
	needVirtual(t)
	for _, c := range []struct {
		text, what string
		late       bool
	}{
		{"WATCH * #1", "request WATCH ", true},
		{"WATCH * #2", "request WATCH ", false},
		{"MODIFIED sites/shop #2", "deliver MODIFIED sites web/shop@", false},
		{"DELETED blog", "deliver DELETED ", false},
	} {
		k := caseTask(t, "statusloop")
		k.Plan = `faults: [{latency: {request: "WATCH * #1", between: [3s, 3s]}}]`
		b, err := ParseBreak(c.text)
		if err != nil {
			t.Fatal(err)
		}
		var stood []*Standing
		r, _ := k.run(t, func(o *Options) {
			o.BreakAt = []Break{b}
			o.Stand = func(_ context.Context, s *Standing) (Go, error) {
				stood = append(stood, s)
				return GoToNext, nil
			}
		})
		if len(stood) == 0 || !strings.HasPrefix(stood[0].What, c.what) {
			t.Errorf("%s: stood %d times; notes %q", c.text, len(stood), r.Notes)
			continue
		}
		elapsed, err := time.ParseDuration(stood[0].Elapsed)
		if strings.HasPrefix(c.text, "WATCH") && (err != nil || len(stood) != 1 || (elapsed >= 3*time.Second) != c.late) {
			t.Errorf("%s: stood %d times, first after %s", c.text, len(stood), stood[0].Elapsed)
		}
	}
}

// TestFailedRun: what the operator said last is in the error, and the folder can be used for the next attempt.
func TestFailedRun(t *testing.T) {
	o := Options{
		Trace:     openTrace(t, filepath.Join("..", "traces", "cases", "statusloop.optrace")),
		Operators: []Operator{{Command: []string{"/bin/sh", "-c", "echo starting >&2; echo 'no such flag: --frobnicate' >&2; exit 7"}}},
		Plan:      &fault.Plan{Faults: mustFaults(t, `token: {client: operator, at: 1s}`)},
		Out:       filepath.Join(t.TempDir(), "run.optrace"),
	}
	for _, clock := range []Clock{ClockWall, ClockAuto} {
		for range 2 {
			o.Clock = clock
			_, err := Run(context.Background(), o)
			if cli.ExitCode(err) != cli.ExitCannotRun || !strings.Contains(err.Error(), "no such flag: --frobnicate") {
				t.Errorf("%s: %v", clock, err)
			}
			if m := openTrace(t, o.Out).Manifest(); m.Run == nil || !strings.Contains(m.Run.Failed, "exit code 7") {
				t.Errorf("the manifest does not say that the run failed: %+v", m.Run)
			}
		}
	}
	// What somebody else put there stays, and is in the way.
	other := filepath.Join(o.Out, "notes.txt")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), o); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("a folder with something else in it: %v", err)
	}
	for _, file := range []string{other, filepath.Join(o.Out, traces.ManifestName), filepath.Join(o.Out, PlanFile)} {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("refused, and taken away: %v", err)
		}
	}
}

// TestAnotherOperator: a run that makes none of the recorded writes says so, and one that is as recorded does not.
func TestAnotherOperator(t *testing.T) {
	needVirtual(t)
	note := func(r *Result) bool {
		return slices.ContainsFunc(r.Notes, func(n string) bool {
			return strings.Contains(n, "was made again") && strings.Contains(n, "the operator that was recorded?")
		})
	}
	k := caseTask(t, "statusloop")
	if r, _ := k.run(t); note(r) {
		t.Errorf("the operator itself: %q", r.Notes)
	}
	k.Operators[0].Command = []string{zooOperator(t, "halfcreate")}
	if r, _ := k.run(t, func(o *Options) { o.Operators[0].Identity.Process = "statusloop" }); !note(r) {
		t.Errorf("another one: %q", r.Notes)
	}
}

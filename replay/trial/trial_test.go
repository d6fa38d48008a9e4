package trial

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/traces"
)

// halfcreate is a runner of the bundled recording with its faulty operator.
func halfcreate(t *testing.T) *Runner {
	t.Helper()
	if err := virtual.Probe(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	program := filepath.Join(t.TempDir(), "halfcreate")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/opreplay/opreplay/examples/operators/halfcreate")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	trace, err := traces.Open(filepath.Join("..", "..", "traces", "cases", "halfcreate.optrace"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trace.Close() })
	r, err := Open(t.Context(), Options{Replay: replay.Options{Trace: trace, Operators: []replay.Operator{{Command: []string{program}}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func try(t *testing.T, faults ...string) Try {
	t.Helper()
	p := &fault.Plan{}
	for _, line := range faults {
		f, err := fault.ParseFault(line)
		if err != nil {
			t.Fatal(err)
		}
		p.Faults = append(p.Faults, f)
	}
	return Try{Plan: p}
}

func outcome(t *testing.T, r *Runner, x Try) *Outcome {
	t.Helper()
	out, err := r.Run(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRunner(t *testing.T) {
	r := halfcreate(t)
	const crash = `crash: {process: operator, after: "CREATE configmaps/orders-settings -n mq #1"}`

	// What differs by chance is found out when it matters, and the outcome is the same as when it was known.
	if out := outcome(t, r, try(t, `answer: {request: "CREATE configmaps/orders-settings -n mq #1", code: 500}`)); out.Verdict != Fine || r.mask != nil {
		t.Errorf("a plan that alters nothing in the end: %s %+v; mask %v", out.Verdict, out.Alarms, r.mask)
	}
	first := outcome(t, r, try(t, crash))
	if r.mask == nil {
		t.Error("nothing was found out about what differs by chance")
	}
	again := outcome(t, r, try(t, crash))
	if first.Verdict != Alarms || first.Hash != again.Hash || first.More != again.More || first.More != DefaultBound {
		t.Errorf("%s, given %s, %s; then %s, %s", first.Verdict, first.More, first.Hash, again.More, again.Hash)
	}

	// What is not altered is the unaltered run, and is not played once more.
	ref, err := r.Reference(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := outcome(t, r, try(t)); out.Verdict != Fine || &out.Rows[0] != &ref.Rows[0] {
		t.Errorf("the unaltered run: %s %+v", out.Verdict, out.Alarms)
	}

	// A fault without an end: the operator need not get anywhere.
	out := outcome(t, r, try(t, `quota: {request: "CREATE services -n mq", client: operator}`))
	if !out.Endless || len(out.Alarms) > 0 {
		t.Errorf("a quota for good: endless %v, %+v", out.Endless, out.Alarms)
	}
	if out := outcome(t, r, try(t, `quota: {request: "CREATE services -n mq", client: operator, for: 15s}`)); out.Endless || len(out.Alarms) == 0 {
		t.Errorf("a quota for a while: endless %v, %+v", out.Endless, out.Alarms)
	}

	// There is room for a clock that is moved by so much, and no more.
	if out := outcome(t, r, try(t, `skip: {clock: 90m, at: 1s}`, `skip: {clock: 31m, at: 2s}`)); out.Verdict != Failed || !strings.Contains(out.Error, "2h1m0s") {
		t.Errorf("%s: %s", out.Verdict, out.Error)
	}

	// The unaltered runs of many scripts are not kept for ever, that of the whole one is.
	whole := r.refs[0]
	steps := r.Session().Script().Steps
	for _, s := range steps[:min(len(steps), mostReferences+1)] {
		if _, err := r.Reference(t.Context(), []int64{s.Seq}); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.refs) != min(mostReferences, 1+len(steps)) || r.refs[0] != whole {
		t.Errorf("%d are kept, the whole script's among them: %v", len(r.refs), r.refs[0] == whole)
	}
}

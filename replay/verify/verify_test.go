package verify

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/cases"
	"github.com/opreplay/opreplay/replay/explore"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/process/virtual"
)

func parse(t *testing.T, faults ...string) *fault.Plan {
	t.Helper()
	text := "faults:\n"
	for _, f := range faults {
		text += "- " + f + "\n"
	}
	p, err := fault.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAltered(t *testing.T) {
	for text, want := range map[string][]string{
		`crash: {process: operator, after: "CREATE configmaps/a"}`: {
			`crash: {process: operator, after: "CREATE configmaps/a #2", restartAfter: 1s}`,
			`crash: {process: operator, after: "CREATE configmaps/a", answered: true, restartAfter: 1s}`,
			`crash: {process: operator, after: "CREATE configmaps/a", restartAfter: 2s}`,
			`crash: {process: operator, after: "CREATE configmaps/a", restartAfter: 500ms}`,
		},
		`hold: {watch: jobs, client: operator, from: "ADDED a #2", until: "CREATE jobs/b"}`: {
			`hold: {watch: jobs, client: operator, from: "ADDED a #3", until: "CREATE jobs/b"}`,
			`hold: {watch: jobs, client: operator, from: "ADDED a #1", until: "CREATE jobs/b"}`,
			`hold: {watch: jobs, client: operator, from: "ADDED a #2", until: "CREATE jobs/b #2"}`,
		},
		`answer: {request: "UPDATE jobs/b", nth: 1, code: 409}`: {
			`answer: {request: "UPDATE jobs/b", nth: 2, code: 409}`, // a 409 that was committed is none
		},
		`answer: {request: "UPDATE leases", code: 500}`:    {`answer: {request: "UPDATE leases #2", code: 500}`},
		`answer: {request: "UPDATE jobs/b #1", code: 500}`: {`answer: {request: "UPDATE jobs/b #1", code: 500, committed: true}`},
		`cut: {watch: jobs, at: 10s, resume: gone}`: {
			`cut: {watch: jobs, at: 20s, resume: gone}`, `cut: {watch: jobs, at: 5s, resume: gone}`, `cut: {watch: jobs, at: 10s}`,
		},
	} {
		plan := parse(t, text)
		before := plan.String()
		var got []string
		for _, f := range altered(plan.Faults[0]) {
			got = append(got, f.String())
		}
		for _, w := range want {
			if w = parse(t, w).Faults[0].String(); !slices.Contains(got, w) {
				t.Errorf("%s: no %s in\n%s", text, w, strings.Join(got, "\n"))
			}
		}
		if plan.String() != before {
			t.Errorf("%s is altered itself: %s", text, plan)
		}
		for _, g := range got {
			if strings.Contains(g, "never") || strings.Contains(g, "leases") && strings.Contains(g, "committed") {
				t.Errorf("%s: %s is another fault", text, g)
			}
		}
	}
}

func TestNeighbours(t *testing.T) {
	own := trial.Try{Plan: parse(t, `crash: {process: operator, after: "CREATE configmaps/a"}`), Without: []int64{3}}
	all := []explore.Planned{
		{Try: trial.Try{Plan: parse(t, `crash: {process: operator, after: "CREATE services/b"}`)}},
		{Try: trial.Try{Plan: parse(t, `answer: {request: "CREATE services/b", code: 500}`)}},
	}
	list := neighbours(own, all, 100)
	count := map[Family]int{}
	for _, n := range list {
		count[n.family]++
	}
	if list[0].family != Own || count[Own] != 1 || count[Seeds] != otherSeeds || count[Near] < 5 || count[Alike] != 1 {
		t.Errorf("%v", count)
	}
	if got := neighbours(own, all, 3); len(got) != 3 || got[0].family != Own {
		t.Errorf("with a budget of 3: %d", len(got))
	}
}

// What the case's own, shorter script shows without any fault is no news in its altered runs, and is told all the same.
func TestWithoutSteps(t *testing.T) {
	if err := virtual.Probe(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	program := filepath.Join(t.TempDir(), "halfcreate")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/opreplay/opreplay/examples/operators/halfcreate")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	trace, err := filepath.Abs(filepath.Join("..", "..", "traces", "cases", "halfcreate.optrace"))
	if err != nil {
		t.Fatal(err)
	}
	c := &cases.Case{
		Name: "c", Operator: []string{program, "--fixed"}, Trace: trace,
		Invariants: []trial.Invariant{{Name: "a broker", Expr: `objects.exists(o, o.kind == "Broker")`}},
	}
	o, err := c.Options(c.Operator)
	if err != nil {
		t.Fatal(err)
	}
	s, err := replay.Open(t.Context(), o.Replay)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range s.Script().Steps {
		if step.Resource == "brokers" {
			c.Without = append(c.Without, step.Seq)
		}
	}
	s.Close()
	_ = o.Replay.Trace.Close()
	r, err := Run(t.Context(), Options{Case: c, Command: c.Operator, Budget: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Broken || len(r.Unaltered) != 1 || r.Unaltered[0].Oracle != "invariant a broker" {
		t.Errorf("%s, in the unaltered runs %+v; want the broken invariant", r.Verdict, r.Unaltered)
	}
}

func TestVerdicts(t *testing.T) {
	c := &cases.Case{Name: "c", Expect: cases.Expect{Findings: []cases.Finding{{Oracle: "missing"}}}}
	fine, unmet := &trial.Outcome{Verdict: trial.Fine}, &trial.Outcome{Verdict: trial.Fine, Unmatched: []string{"x"}}
	missing := &trial.Outcome{Verdict: trial.Alarms, Alarms: []trial.Alarm{{Oracle: "missing"}}}
	panics := &trial.Outcome{Verdict: trial.Alarms, Alarms: []trial.Alarm{{Oracle: "panic"}}}
	list := []neighbour{{family: Own}, {family: Seeds}, {family: Near}}
	for name, x := range map[string]struct {
		ref  []trial.Alarm
		outs []*trial.Outcome
		want Verdict
	}{
		"fine":                {nil, []*trial.Outcome{fine, fine, fine}, Holds},
		"its own plan":        {nil, []*trial.Outcome{missing, fine, fine}, Broken},
		"a neighbour":         {nil, []*trial.Outcome{fine, panics, missing}, Broken},
		"something else":      {nil, []*trial.Outcome{fine, panics, fine}, Another},
		"always":              {missing.Alarms, []*trial.Outcome{fine, fine, fine}, Broken},
		"always, else":        {panics.Alarms, []*trial.Outcome{fine, fine, fine}, Another},
		"nothing met":         {nil, []*trial.Outcome{unmet, unmet, unmet}, Unknown},
		"only neighbours met": {nil, []*trial.Outcome{unmet, fine, unmet}, Holds},
	} {
		r := conclude(c, x.ref, list, x.outs)
		if r.Verdict != x.want || (r.Err() == nil) != (x.want == Holds) {
			t.Errorf("%s: %s, want %s", name, r.Verdict, x.want)
		}
		if name == "a neighbour" && (len(r.Shown) != 2 || !r.Shown[0].Same || r.Shown[0].Family != Near) {
			t.Errorf("shown %+v", r.Shown)
		}
	}
}

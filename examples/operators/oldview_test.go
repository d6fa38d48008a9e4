package operators_test

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/opreplay/opreplay/examples/operators"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/traces"
)

// The mended oldpods, started again on a view in which its App has the settings of before, stops no pod for them: it would
// be stopped again for the present ones.
func TestOldViewStopsNoPod(t *testing.T) {
	if err := virtual.Probe(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	program := filepath.Join(t.TempDir(), "oldpods")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, "./oldpods").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	o := operators.Operator{Name: "oldpods"}
	session, err := replay.Open(t.Context(), replay.Options{
		Trace: openTrace(t, bundled(o)), Clock: replay.ClockVirtual, Patience: -1, Live: true, Settle: 20 * time.Second,
		Operators: []replay.Operator{{Command: []string{program, "--fixed"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	plan, err := fault.Parse("plan.yaml", []byte(`
seed: 0
faults:
- restart: {process: operator, at: 3s, restartAfter: 1s, view: "apps.app.example.com/shop -n apps before CREATE configmaps/shop-settings -n apps #1", for: 5s}
`))
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := play(t, session, o, nil)
	planned, _ := play(t, session, o, plan)
	if n, late := deletes(t, plain, "pods"), deletes(t, planned, "pods"); n != 1 || late != n {
		t.Errorf("it stops pods %d times, on an older view %d times, want once each", n, late)
	}
}

// deletes is how often the operator deleted an object of a resource.
func deletes(t *testing.T, trace *traces.Trace, resource string) (n int) {
	t.Helper()
	for record, err := range trace.Records(t.Context(), traces.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := record.(*traces.Request); ok && r.Process != "" && r.Verb == "delete" && r.Resource == resource && r.Code == 200 {
			n++
		}
	}
	return n
}

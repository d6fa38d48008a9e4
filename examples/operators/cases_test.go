package operators_test

import (
	"path"
	"path/filepath"
	"testing"

	"github.com/opreplay/opreplay/examples/operators"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/cases"
	"github.com/opreplay/opreplay/sim/process/virtual"
)

// The bundled cases of operators with a plan are as expected with the twin that they are of, and fail with the other.
func TestCasesTellTheTwins(t *testing.T) {
	if err := virtual.Probe(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	var dirs []string
	var twins [2][]replay.Operator // the faulty ones and the fixed ones
	for _, o := range operators.Zoo() {
		if o.Plan == nil {
			continue
		}
		dirs = append(dirs, filepath.Join("..", "..", "traces", "cases", o.Name))
		program := filepath.Join(zoo(t), o.Name)
		twins[0] = append(twins[0], replay.Operator{Name: o.Name, Command: []string{program}})
		twins[1] = append(twins[1], replay.Operator{Name: o.Name, Command: []string{program, "--fixed"}})
	}
	all, err := cases.Find(dirs)
	if err != nil || len(all) != 2*len(dirs) {
		t.Fatalf("%d cases of %d operators, %v", len(all), len(dirs), err)
	}
	for i, own := range []string{"faulty", "fixed"} {
		report, err := cases.RunAll(t.Context(), all, cases.SuiteOptions{Others: twins[i]})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report.Cases {
			want := cases.Failed
			if path.Base(filepath.ToSlash(r.Dir)) == own {
				want = cases.OK
			}
			if r.Status != want {
				t.Errorf("%s with the %s twin: %s, want %s: %q", r.Dir, own, r.Status, want, r.Problems)
			}
		}
	}
}

// Every bundled case can be read, and there are two of each operator.
func TestBundledCases(t *testing.T) {
	all, err := cases.Find([]string{filepath.Join("..", "..", "traces", "cases")})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	if len(all) != 2*len(operators.Zoo()) {
		t.Errorf("cases %q", names)
	}
}

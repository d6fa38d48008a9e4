package cases

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/joshdk/go-junit"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/trial"
)

var (
	missing = trial.Alarm{Oracle: "missing", Resource: "services", Object: "services a/b", What: "at the end there is no services a/b"}
	panics  = trial.Alarm{Oracle: "panic", Field: "panic: #", What: "manager panicked: panic: 7"}
)

func TestExpectations(t *testing.T) {
	finding := Finding{Oracle: "missing", Resource: "services"}
	for name, c := range map[string]struct {
		expect Expect
		ref    []trial.Alarm
		out    trial.Outcome
		want   []string // what the problems say, in order
	}{
		"nothing, as expected":          {},
		"a finding, as expected":        {expect: Expect{Findings: []Finding{finding}}, out: trial.Outcome{Alarms: []trial.Alarm{missing}}},
		"any of its resource and field": {expect: Expect{Findings: []Finding{{Oracle: "panic"}}}, out: trial.Outcome{Alarms: []trial.Alarm{panics}}},
		"not there":                     {expect: Expect{Findings: []Finding{finding}}, want: []string{"not there: missing services"}},
		"not expected":                  {out: trial.Outcome{Alarms: []trial.Alarm{missing, missing}}, want: []string{"not expected: missing services: at the end"}},
		"in the unaltered run already":  {ref: []trial.Alarm{panics}, want: []string{"not expected: panic"}},
		"another one": {
			expect: Expect{Findings: []Finding{{Oracle: "missing", Resource: "pods"}}}, out: trial.Outcome{Alarms: []trial.Alarm{missing}},
			want: []string{"not there: missing pods", "not expected: missing services"},
		},
		"end, as expected":         {expect: Expect{Findings: []Finding{finding}, Final: FinalDiffers}, out: trial.Outcome{Alarms: []trial.Alarm{missing}}},
		"end that differs":         {expect: Expect{Findings: []Finding{finding}, Final: FinalSame}, out: trial.Outcome{Alarms: []trial.Alarm{missing}}, want: []string{"ends otherwise"}},
		"end that does not":        {expect: Expect{Final: FinalDiffers}, want: []string{"ends as that does"}},
		"end not compared":         {expect: Expect{Final: FinalSame}, out: trial.Outcome{Skipped: 2}, want: []string{"2 changes by outsiders"}},
		"endless":                  {expect: Expect{Final: FinalSame}, out: trial.Outcome{Endless: true}, want: []string{"waited in vain"}},
		"any end":                  {out: trial.Outcome{Skipped: 2}},
		"plan that met nothing":    {out: trial.Outcome{Unmatched: []string{"x"}}, want: []string{"met nothing"}},
		"expected to":              {expect: Expect{Unmatched: []string{"x"}}, out: trial.Outcome{Unmatched: []string{"x"}}},
		"expected to, and did not": {expect: Expect{Unmatched: []string{"x"}}, want: []string{"was expected to meet nothing, and did"}},
	} {
		t.Run(name, func(t *testing.T) {
			ref := &trial.Reference{Alarms: c.ref}
			r := &Result{Seen: See(ref, &c.out), Alarms: slices.Concat(c.ref, c.out.Alarms)}
			got := c.expect.problems(r, &c.out)
			if len(got) != len(c.want) {
				t.Fatalf("problems %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("problem %q, want %q", got[i], want)
				}
			}
		})
	}
}

func TestOtherOperators(t *testing.T) {
	c := &Case{Operator: []string{"bin/zoo/a", "--x"}}
	other := replay.Operator{Command: []string{"other"}}
	for _, x := range []struct {
		name string
		want []string
	}{{"a", other.Command}, {"", other.Command}, {"b", c.Operator}} {
		other.Name = x.name
		if got := c.Command([]replay.Operator{other}); !slices.Equal(got, x.want) {
			t.Errorf("%q: %q, want %q", x.name, got, x.want)
		}
	}
	_, err := RunAll(t.Context(), []*Case{c}, SuiteOptions{Others: []replay.Operator{{Name: "b", Command: []string{"x"}}}})
	if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "b=") {
		t.Errorf("an operator that no case has: %v", err)
	}
}

// write makes a case's folder.
func write(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const small = "operator: [m]\ntrace: t.optrace\n"

func TestFind(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"b/two", "b/one", "a", ".hidden/no", "t.optrace/no", "a/below"} {
		write(t, filepath.Join(root, name), small)
	}
	names := func(paths ...string) (all []string) {
		t.Helper()
		found, err := Find(paths)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range found {
			all = append(all, c.Name)
		}
		return all
	}
	if got := names(root); !slices.Equal(got, []string{"a", "b/one", "b/two"}) {
		t.Errorf("found %q", got)
	}
	if got := names(filepath.Join(root, "b", "two"), root); !slices.Equal(got, []string{"two", filepath.Base(root) + "/a", filepath.Base(root) + "/b/one"}) {
		t.Errorf("of two arguments: found %q", got)
	}
	for path, want := range map[string]string{filepath.Join(root, "nosuch"): "no such folder", t.TempDir(): "no case in it"} {
		if _, err := Find([]string{path}); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", path, err, want)
		}
	}
}

func TestUpdateLeavesTheRest(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "# why it is here\noperator: [m, --flag] # ours\ntrace: t.optrace\nexpect:\n  findings:\n  - {oracle: panic}\n  - {oracle: exit}\n  final: same\n")
	c, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := Expect{Findings: []Finding{FindingOf(&panics), FindingOf(&missing)}, Final: FinalDiffers}
	changes, err := c.Update(&Result{Seen: seen})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"- finding exit", "+ finding missing services", `~ final "same" is now "differs"`}; !slices.Equal(changes, want) {
		t.Errorf("changes %q, want %q", changes, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	const want = "# why it is here\noperator: [m, --flag] # ours\ntrace: t.optrace\nexpect:\n  findings:\n    - {oracle: panic}\n    - {oracle: missing, resource: services}\n  final: differs\n"
	if string(text) != want {
		t.Errorf("the file is\n%swant\n%s", text, want)
	}
	again, err := Load(dir)
	if err != nil || !reflect.DeepEqual(again.Expect, c.Expect) {
		t.Errorf("loaded %+v, %v", again, err)
	}
	if changes, err := again.Update(&Result{Seen: seen}); err != nil || len(changes) > 0 {
		t.Errorf("a second time: %q, %v", changes, err)
	}
}

func report() *Report {
	return &Report{Workers: 2, Took: 3 * time.Second, Cases: []*Result{
		{Name: "a/faulty", Dir: "x/a", Status: OK, Took: 1500 * time.Millisecond, Seen: Expect{Findings: []Finding{FindingOf(&missing)}}, Alarms: []trial.Alarm{missing}},
		{Name: "b", Dir: "x/b", Status: Failed, Took: time.Second, Problems: []string{"not expected: <\"x\" & y>", "second"}},
		{Name: "c", Dir: "x/c", Status: Error, Problems: []string{"no such file"}},
	}}
}

// What CI systems read is read by somebody else's parser.
func TestJUnitIsRead(t *testing.T) {
	var text bytes.Buffer
	if err := report().JUnit(&text); err != nil {
		t.Fatal(err)
	}
	suites, err := junit.Ingest(text.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	if len(suites) != 1 || len(suites[0].Tests) != 3 {
		t.Fatalf("suites %+v", suites)
	}
	s := suites[0]
	if want := (junit.Totals{Tests: 3, Passed: 1, Failed: 1, Error: 1, Duration: 2500 * time.Millisecond}); s.Totals != want {
		t.Errorf("totals %+v, want %+v", s.Totals, want)
	}
	for i, want := range []struct {
		name, message string
		status        junit.Status
	}{{"a/faulty", "", junit.StatusPassed}, {"b", "not expected: <\"x\" & y>", junit.StatusFailed}, {"c", "no such file", junit.StatusError}} {
		got := s.Tests[i]
		if got.Name != want.name || got.Status != want.status || got.Message != want.message {
			t.Errorf("test %+v, want %+v", got, want)
		}
	}
	if got := s.Tests[1].Error; got == nil || !strings.Contains(got.Error(), "second") {
		t.Errorf("the failure is %v", got)
	}
	if !strings.Contains(s.Tests[0].SystemOut, missing.What) {
		t.Errorf("its output is %q", s.Tests[0].SystemOut)
	}
}

func TestReportText(t *testing.T) {
	var text bytes.Buffer
	if err := report().Text(&text); err != nil {
		t.Fatal(err)
	}
	const want = `ok      a/faulty     1.5s  missing services
FAILED  b            1.0s  no finding
        not expected: <"x" & y>
        second
ERROR   c            0.0s
        no such file
3 cases: 1 ok, 1 failed, 1 could not be run in 3s, 2 at a time
`
	if text.String() != want {
		t.Errorf("printed\n%swant\n%s", text.String(), want)
	}
}

func TestReportErr(t *testing.T) {
	r := report()
	if code := cli.ExitCode(r.Err()); code != cli.ExitCannotRun {
		t.Errorf("with one that could not be run: %d", code)
	}
	r.Cases = r.Cases[:2]
	if !errors.Is(r.Err(), cli.ErrFindings) {
		t.Errorf("with one that failed: %v", r.Err())
	}
	if r.Cases = r.Cases[:1]; r.Err() != nil {
		t.Errorf("with none: %v", r.Err())
	}
}

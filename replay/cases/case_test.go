package cases

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSavedIsLoaded(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "t.optrace")
	if err := os.Mkdir(trace, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(trace, "manifest.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	plan := "seed: 7\nfaults:\n- crash: {process: operator, after: \"CREATE secrets/a #1\", restartAfter: 1s}\n"
	c := &Case{
		Operator: []string{"./manager", "--x=1"}, Plan: Plan{Inline: plan}, Without: []int64{3, 9}, Replicas: 2, Settle: 30 * time.Second,
		Expect: Expect{Findings: []Finding{{Oracle: "missing", Resource: "services"}}, Final: FinalDiffers},
	}
	dir := filepath.Join(t.TempDir(), "cases", "one")
	if err := c.Save(dir, trace); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if p := filepath.Join(dir, got.Operator[0]); p != filepath.Join(here, "manager") {
		t.Errorf("from the case's folder the program is %s", p)
	}
	got.Operator[0] = c.Operator[0]
	want := *c
	want.Dir, want.Name, want.Trace, want.Plan = dir, "one", "trace.optrace", Plan{File: "plan.yaml"}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("loaded %+v, want %+v", *got, want)
	}
	try, err := got.Try()
	if err != nil {
		t.Fatal(err)
	}
	if try.Plan.String() != plan || try.Replicas != 2 || !reflect.DeepEqual(try.Without, []int64{3, 9}) {
		t.Errorf("the try is %+v", try)
	}
	if text, err := os.ReadFile(filepath.Join(dir, FileName)); err != nil || !strings.Contains(string(text), "    - {oracle: missing, resource: services}\n") {
		t.Errorf("%v: the findings are not a line each:\n%s", err, text)
	}
	if _, err := os.Stat(filepath.Join(got.TraceDir(), "manifest.json")); err != nil {
		t.Errorf("the recording was not kept: %v", err)
	}
}

// The program is found from the case's folder, wherever opsim is started, and where it is not there from here.
func TestProgramOfCase(t *testing.T) {
	dir := t.TempDir()
	c := &Case{Dir: filepath.Join(dir, "cases", "one"), Operator: []string{"../../bin/manager", "--x"}}
	if got := c.Command(nil); !reflect.DeepEqual(got, c.Operator) {
		t.Errorf("where there is none: %q", got)
	}
	program := filepath.Join(dir, "bin", "manager")
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := c.Command(nil); !reflect.DeepEqual(got, []string{program, "--x"}) {
		t.Errorf("beside the cases: %q", got)
	}
	c.Operator[0] = "manager" // on the PATH
	if got := c.Command(nil); got[0] != "manager" {
		t.Errorf("without a slash: %q", got)
	}
	t.Chdir(filepath.Dir(program))
	c.Dir, c.Operator[0] = filepath.Join("cases", "one"), "../../manager" // which is ./manager, and no other one
	if got := c.Command(nil); got[0] != "./manager" {
		t.Errorf("in the folder in which opsim is started: %q", got)
	}
}

func TestPlanMayBeInline(t *testing.T) {
	dir := t.TempDir()
	text := "operator: [m]\ntrace: t\nplan:\n  seed: 3\n  faults:\n  - skip: {clock: 1h, at: 10s}\nexpect: {findings: []}\n"
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	try, err := c.Try()
	if err != nil || try.Plan.Seed != 3 || len(try.Plan.Faults) != 1 {
		t.Errorf("plan %v, %v", try.Plan, err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"trace: t\nplan: {faults: []}\n":                                           "operator is missing",
		"operator: [m]\nplan: {faults: []}\n":                                      "trace is missing",
		"operator: [m]\ntrace: t\nplan: {faults: []}\nexpect: {final: sane}\n":     "want same or differs",
		"operator: [m]\ntrace: t\nplan: nowhere.yaml\n":                            "nowhere.yaml",
		"operator: [m]\ntrace: t\nplan: {faults: [{hodl: {}}]}\n":                  "hodl",
		"operator: [m]\ntrace: t\nplan: {faults: []}\nexpects: {}\n":               "expects",
		"operator: [m]\ntrace: t\nplan: {faults: []}\nthreads: some\nexpect: {}\n": "want fifo or seeded",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

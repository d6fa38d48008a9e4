package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/joshdk/go-junit"

	"github.com/opreplay/opreplay/internal/clitest"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/cases"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/replay/verify"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/process/virtual"
)

// pair is the folder of one operator's cases, the faulty twin's and the fixed one's, and its program.
func pair(t *testing.T) (dir, program string) {
	t.Helper()
	if err := virtual.Probe(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	const name = "halfcreate"
	dir, err := filepath.Abs(filepath.Join("..", "..", "traces", "cases", name))
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../examples/operators/"+name).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return dir, program
}

// A case fails when the operator that it is of is replaced by its twin, whichever that is, and CI can read which;
// verify tells the one from the other.
func TestCases(t *testing.T) {
	dir, program := pair(t)
	for _, c := range []struct {
		args           string
		faulty, fixed  cases.Status
		junits         [2]junit.Status
		verdict        verify.Verdict
		code, verified int
	}{
		{"", cases.OK, cases.Failed, [2]junit.Status{junit.StatusPassed, junit.StatusFailed}, verify.Broken, 1, 1},
		{" --fixed", cases.Failed, cases.OK, [2]junit.Status{junit.StatusFailed, junit.StatusPassed}, verify.Holds, 1, 0},
	} {
		report := filepath.Join(t.TempDir(), "report.xml")
		got := clitest.Run(t, "test", dir, "--operator", "halfcreate="+program+c.args, "--junit", report, "--parallel", "2", "-o", "json")
		var r cases.Report
		if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil || got.Code != c.code || len(r.Cases) != 2 {
			t.Fatalf("%q: code %d, %v\n%s%s", c.args, got.Code, err, got.Stdout, got.Stderr)
		}
		if r.Cases[0].Name != "faulty" || r.Cases[0].Status != c.faulty || r.Cases[1].Status != c.fixed {
			t.Errorf("%q: %+v, %+v", c.args, r.Cases[0], r.Cases[1])
		}
		suites, err := junit.IngestFile(report)
		if err != nil || len(suites) != 1 || len(suites[0].Tests) != 2 {
			t.Fatalf("%v: %+v", err, suites)
		}
		for i, want := range c.junits {
			if got := suites[0].Tests[i]; got.Status != want {
				t.Errorf("%q: %s is %s in the report, want %s", c.args, got.Name, got.Status, want)
			}
		}
		got = clitest.Run(t, "verify", filepath.Join(dir, "faulty"), "--operator", program+c.args, "--budget", "6", "--workers", "1", "-o", "json")
		var v verify.Result
		if err := json.Unmarshal([]byte(got.Stdout), &v); err != nil || got.Code != c.verified || v.Verdict != c.verdict {
			t.Errorf("%q: code %d, %v, verdict %q, want %q\n%s", c.args, got.Code, err, v.Verdict, c.verdict, got.Stderr)
		}
	}
}

func TestBadCases(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		text     string // of case.yaml; "" for none
		args     []string
		mentions []string
	}{
		{"", []string{"test", dir}, []string{dir, "no case"}},
		{"", []string{"test", "nosuch"}, []string{"nosuch"}},
		{"", []string{"verify", dir, "--operator", "x"}, []string{dir, "case.yaml"}},
		{"operator: [m]\n", []string{"test", dir}, []string{"case.yaml", "trace"}},
		{"operator: [m]\ntrace: t\n", []string{"test", dir, "--operator", "other=x"}, []string{"other=", "no case"}},
		{"operator: [m]\ntrace: t\n", []string{"test", dir, "--parallel", "-1"}, []string{"--parallel -1"}},
		{"operator: [m]\ntrace: t\n", []string{"verify", dir}, []string{"operator"}},
		{"operator: [m]\ntrace: t\n", []string{"verify", dir, "--operator", "x", "--budget", "-1"}, []string{"--budget -1"}},
	} {
		file := filepath.Join(dir, cases.FileName)
		if c.text == "" {
			_ = os.Remove(file)
		} else if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(strings.Join(c.args[:1], " ")+" "+c.mentions[0], func(t *testing.T) { clitest.Refuses(t, c.args, c.mentions...) })
	}
	// A recording that is not there is found out by the run, which the report tells of.
	if got := clitest.Run(t, "test", dir); got.Code != 3 || !strings.Contains(got.Stdout, "ERROR") || !strings.Contains(got.Stderr, "1 of 1 case could not be run") {
		t.Errorf("a recording that is not there: %+v", got)
	}
}

// verify takes a folder of cases, and shrink says in JSON too that there is nothing to shrink.
func TestVerifyFolderAndShrinkNothing(t *testing.T) {
	dir, program := pair(t)
	here := t.TempDir()
	got := runIn(t, here, "verify", dir, "--operator", "halfcreate="+program, "--budget", "2", "--workers", "1", "-o", "json")
	var all []verify.Result
	if err := json.Unmarshal([]byte(got.Stdout), &all); err != nil || got.Code != 1 || len(all) != 2 {
		t.Fatalf("code %d, %v\n%s%s", got.Code, err, got.Stdout, got.Stderr)
	}
	if all[0].Case != "faulty" || all[0].Verdict != verify.Broken || all[1].Case != "fixed" {
		t.Errorf("%+v", all)
	}
	if plans, err := filepath.Glob(filepath.Join(here, "*-still.yaml")); err != nil || len(plans) != 2 {
		t.Errorf("plans %q, %v", plans, err)
	}
	clitest.Refuses(t, []string{"verify", dir, "--operator", "other=" + program}, "other=", "no case")

	// The run's paths are relative to here; shrink finds them from elsewhere, by the folder that the run is in.
	if err := errors.Join(os.Symlink(dir+".optrace", filepath.Join(here, "t.optrace")), os.Symlink(program, filepath.Join(here, "halfcreate"))); err != nil {
		t.Fatal(err)
	}
	if got := runIn(t, here, "replay", "t.optrace", "--operator", "./halfcreate", "--live", "--out", "run.optrace"); got.Code != 0 {
		t.Fatalf("replay: %+v", got)
	}
	got = clitest.Run(t, "shrink", filepath.Join(here, "run.optrace"), "-o", "json")
	var fine struct{ Alarms []trial.Alarm }
	if err := json.Unmarshal([]byte(got.Stdout), &fine); err != nil || got.Code != 0 || fine.Alarms == nil || len(fine.Alarms) != 0 {
		t.Errorf("code %d, %v\n%s%s", got.Code, err, got.Stdout, got.Stderr)
	}
}

// The command that shows a try again says all that the try's run had.
func TestCommandSeesItAgain(t *testing.T) {
	f := trialFlags{settle: 30 * time.Second}
	f.replay = replayFlags{operators: []string{"./m --x"}, inCluster: "true", rbac: true, env: []string{"A=b c"}}
	start := time.Date(2026, time.January, 2, 3, 4, 5, 600, time.UTC)
	got := f.command("t.optrace")(trial.Again{
		Try:   trial.Try{Plan: &fault.Plan{Seed: 7}, Threads: replay.ThreadsSeeded, Procs: 2, Replicas: 2, Without: []int64{3, 9}},
		Names: []string{"m"}, Start: start, More: time.Minute, Plan: "p.yaml",
	})
	const want = `opsim replay t.optrace --operator 'm=./m --x' --operator 'm-2=./m --x' --env 'A=b c' --start 2026-01-02T03:04:05.0000006Z ` +
		`--env GOMAXPROCS=2 --threads seeded --without 3,9 --in-cluster=true --rbac --patience 0s --live --settle 1m30s --plan p.yaml`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// runIn runs opsim in a folder.
func runIn(t *testing.T, dir string, args ...string) clitest.Result {
	t.Helper()
	cmd := clitest.Command(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return clitest.Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

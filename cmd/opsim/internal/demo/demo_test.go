package demo

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces/cases"
)

func TestJudge(t *testing.T) {
	c := cases.Case{Name: "n", Finding: "self-loop"}
	for _, k := range []struct {
		name, twin string
		detectors  []string
		fine       bool
	}{
		{"fault found", Faulty, []string{"churn", "self-loop"}, true},
		{"fault missed", Faulty, nil, false},
		{"another fault found", Faulty, []string{"churn"}, false},
		{"mended", Fixed, nil, true},
		{"false alarm", Fixed, []string{"churn"}, false},
	} {
		r := Run{Case: c, Twin: k.twin}
		for _, d := range k.detectors {
			r.Findings = append(r.Findings, analysis.Finding{Detector: d})
		}
		if got := r.judge(); (got == "") != k.fine {
			t.Errorf("%s: judged %q", k.name, got)
		}
	}
}

func TestText(t *testing.T) {
	c := cases.Case{Name: "loop", About: "goes round", Finding: "self-loop"}
	object := analysis.Object{Group: "g.example.com", Resource: "things", Namespace: "n", Name: "a"}
	report := Report{Out: "out", Runs: []Run{
		{Case: c, Twin: Faulty, Trace: "out/loop-faulty.optrace", Findings: []analysis.Finding{
			{
				ID: "F1", Group: "F1", Detector: "self-loop", Objects: []analysis.Object{object}, Total: 3, Cause: strings.Repeat("word ", 30),
				Evidence: analysis.Evidence{Total: 9, Items: []analysis.Item{{Seq: 12}, {Seq: 15}, {Seq: 15}}},
			},
			{ID: "F2", Group: "F1", Detector: "churn"},
		}},
		{Case: c, Twin: Fixed, Trace: "out/loop-fixed.optrace", Wrong: "is wrong"},
	}}
	var out bytes.Buffer
	if err := report.Text(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"loop: goes round\n", "  faulty  self-loop\n", "things.g.example.com n/a and 2 more\n", "seq 12, 15 and 6 more\n",
		"churn, of the same cause\n", "out/loop-faulty.optrace\n", "  fixed   no findings\n", "WRONG     is wrong\n", "NOT as it should be",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > width+1 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// stub makes a program that stands in for opsim, and a zoo of files.
func stub(t *testing.T, script string) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{Opsim: filepath.Join(dir, "opsim"), Zoo: dir, Out: t.TempDir()}
	if err := os.WriteFile(o.Opsim, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases.Plain() {
		if err := os.WriteFile(filepath.Join(dir, c.Operator), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func TestReplayThatCannotRunIsNoFinding(t *testing.T) {
	_, err := Play(context.Background(), stub(t, `echo "opsim: out of luck" >&2; exit 3`))
	if cli.ExitCode(err) != cli.ExitCannotRun || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("error %v with exit code %d, want what the replay said and %d", err, cli.ExitCode(err), cli.ExitCannotRun)
	}
}

func TestPlayEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	o := stub(t, `exec sleep 600`)
	o.Progress = func(string, ...any) { cancel() }
	if _, err := Play(ctx, o); err == nil {
		t.Error("no error though it was cancelled")
	}
}

func TestQuote(t *testing.T) {
	if got, want := quote("/a b/it's"), `'/a b/it'\''s'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

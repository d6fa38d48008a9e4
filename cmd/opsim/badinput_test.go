package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, main) }

// What is no trace is refused by every command that reads one.
func TestBadTraces(t *testing.T) {
	for _, bad := range clitest.BadTraces(t) {
		for command, args := range map[string][]string{
			"analyze":  {"analyze", bad.Dir},
			"baseline": {"analyze", "--baseline", bad.Dir, clitest.Trace(t)},
			"why":      {"why", bad.Dir, "pods/shop/web"},
			"serve":    {"serve", bad.Dir},
			"export":   {"export", bad.Dir},
			"report":   {"report", bad.Dir, "--out", filepath.Join(t.TempDir(), "r.html")},
			"live":     {"report", bad.Dir, "--live"},
			"replay":   {"replay", bad.Dir, "--operator", "true", "--out", filepath.Join(t.TempDir(), "run.optrace")},
		} {
			t.Run(command+"/"+bad.Name, func(t *testing.T) {
				clitest.Refuses(t, args, bad.Mentions...)
				if text := clitest.Run(t, args...).Stderr; strings.Count(text, bad.Dir) > 1 {
					t.Errorf("the error names the trace more than once: %s", text)
				}
			})
		}
	}
}

func TestBadUsage(t *testing.T) {
	trace := clitest.Trace(t)
	out := filepath.Join(t.TempDir(), "run.optrace")
	badPlan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(badPlan, []byte("seed: 1\nfaults:\n- explode: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	emptyPlan := filepath.Join(t.TempDir(), "empty.yaml")
	if err := os.WriteFile(emptyPlan, []byte("# nothing yet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	replay := func(args ...string) []string {
		return append([]string{"replay", trace, "--operator", "true", "--out", out}, args...)
	}
	for _, c := range []struct {
		name     string
		args     []string
		mentions []string
	}{
		{"export, unknown form", []string{"export", trace, "--to", "papyrus"}, []string{"papyrus", "pprof"}},
		{"export, trace without samples", []string{"export", trace, "--out", out}, []string{trace, "no stack samples"}},
		{"replay, plan that is empty", replay("--plan", emptyPlan), []string{emptyPlan, "no plan"}},
		{"replay, negative limit", replay("--limit", "-1s"), []string{"--limit", "-1s"}},
		{"replay, no time at all", replay("--limit", "0s"), []string{"--limit", "0s"}},
		{"replay, negative settle", replay("--settle", "-1s"), []string{"--settle", "-1s"}},
		{"replay, negative patience", replay("--patience", "-1s"), []string{"--patience", "-1s"}},
		{"replay, negative grace", replay("--grace", "-1s"), []string{"--grace", "-1s"}},
		{"explore, no workers", []string{"explore", trace, "--operator", "true", "--workers", "-1"}, []string{"--workers -1"}},
		{"explore, negative time", []string{"explore", trace, "--operator", "true", "--time", "-1s"}, []string{"--time -1s"}},
		{"explore, negative settle", []string{"explore", trace, "--operator", "true", "--settle", "-1s"}, []string{"--settle -1s"}},
		{"explore, negative bound", []string{"explore", trace, "--operator", "true", "--bound", "-1s"}, []string{"--bound -1s"}},
		{"explore, cases where something is", []string{"explore", trace, "--operator", "true", "--keep", filepath.Dir(badPlan)}, []string{"--keep", filepath.Dir(badPlan)}},
		{"explore, nothing to run", []string{"explore", trace, "--operator", "true", "--budget", "0"}, []string{"--budget 0"}},
		{"shrink, nothing to run", []string{"shrink", trace, "--runs", "-1"}, []string{"--runs -1"}},
		{"replay, a check of one run", replay("--check", "1"), []string{"--check 1"}},
		{"replay, unknown clock", replay("--clock", "sundial"), []string{"--clock", "sundial"}},
		{"replay, operator that is not there", []string{"replay", trace, "--operator", "./nosuch-operator", "--out", out}, []string{"nosuch-operator"}},
		{"replay, no operator", []string{"replay", trace, "--out", out}, []string{"operator"}},
		{"replay, plan that is not there", []string{"replay", trace, "--operator", "true", "--plan", "nosuch.yaml", "--out", out}, []string{"nosuch.yaml"}},
		{"replay, unknown fault", []string{"replay", trace, "--operator", "true", "--plan", badPlan, "--out", out}, []string{badPlan, "explode", "3"}},
		{"replay, run's trace that is there already", []string{"replay", trace, "--operator", "true", "--out", trace}, []string{trace}},
		{"analyze, unknown form", []string{"analyze", trace, "-o", "runes"}, []string{"runes"}},
		{"analyze, a comparison as SARIF", []string{"analyze", "--baseline", trace, trace, "-o", "sarif"}, []string{"--output sarif"}},
		{"why, an object that is none", []string{"why", trace, "front"}, []string{"front", "NAME"}},
		{"why, a version that is none", []string{"why", trace, "pods/shop/web@newest"}, []string{"@"}},
		{"why, an object that isn't there", []string{"why", trace, "pods/shop/nosuch"}, []string{trace, "shop/nosuch", "oprec inspect"}},
		{"serve, nothing", []string{"serve"}, []string{"TRACE", "--writable"}},
		{"serve, moment of nothing", []string{"serve", "--writable", "--at", "5"}, []string{"--at 5", "TRACE"}},
		{"serve, moment that is none", []string{"serve", trace, "--at", "noon"}, []string{"--at noon"}},
		{"serve, moment after the end", []string{"serve", trace, "--at", "101"}, []string{"--at 101", "1 to 100"}},
		{"serve, version that is none", []string{"serve", trace, "--kubernetes", "newest"}, []string{"--kubernetes", "newest"}},
		{"serve, address that is none", []string{"serve", trace, "--listen", "nowhere"}, []string{"--listen", "nowhere"}},
		{"serve, kubeconfig that is there", []string{"serve", trace, "--kubeconfig", badPlan}, []string{badPlan, "is there already"}},
		{"serve, assets and a trace", []string{"serve", trace, "--assets", out}, []string{"--assets"}},
		{"demo, fewer runs than none", []string{"demo", "--parallel", "-1"}, []string{"--parallel -1"}},
		{"demo, no zoo", []string{"demo", "--zoo", "nosuch"}, []string{"nosuch", "make build"}},
		{"demo, folder that is not empty", []string{"demo", "--out", trace}, []string{trace}},
	} {
		t.Run(c.name, func(t *testing.T) { clitest.Refuses(t, c.args, c.mentions...) })
	}
	if _, err := os.Stat(out); err == nil {
		t.Errorf("a refused command left %s", out)
	}
}

// What a flag can be is offered to the shell.
func TestCompletions(t *testing.T) {
	for flag, want := range map[string]string{"--clock=": "virtual\nwall\nauto\n", "--threads=": "fifo\nseeded\n", "--in-cluster=": "true\nfalse\nauto\n"} {
		if got := clitest.Run(t, "__complete", "replay", flag).Stdout; !strings.HasPrefix(got, want) {
			t.Errorf("%s offers %q, want %q", flag, got, want)
		}
	}
}

// A trace whose recorder was killed is read, with a word of warning.
func TestUnclosedTrace(t *testing.T) {
	dir := clitest.Trace(t)
	path := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	unclosed := strings.Replace(string(text), `"complete": true`, `"complete": false`, 1)
	if unclosed == string(text) {
		t.Fatal("the manifest does not say that it is complete")
	}
	if err := os.WriteFile(path, []byte(unclosed), 0o600); err != nil {
		t.Fatal(err)
	}
	got := clitest.Run(t, "analyze", dir)
	if got.Code != 0 || !strings.Contains(got.Stderr, "was not closed in order") {
		t.Errorf("analyze: code %d, %q", got.Code, got.Stderr)
	}
	if got := clitest.Run(t, "analyze", "-o", "json", dir); !strings.Contains(got.Stdout, "oprec repair") { // a caveat, for who reads only that
		t.Errorf("analyze -o json: %s", got.Stdout)
	}
	for _, args := range [][]string{{"explore", dir, "--operator", "true"}, {"export", dir}, {"shrink", dir}, {"serve", dir, "--listen", "127.0.0.1:99999"}, {"why", dir, "seq:1"}, {"report", dir, "--out", filepath.Join(t.TempDir(), "r.html")}} {
		if got := clitest.Run(t, args...); !strings.Contains(got.Stderr, "was not closed in order") {
			t.Errorf("%s: code %d, %q", args[0], got.Code, got.Stderr)
		}
	}
	got = clitest.Run(t, "replay", dir, "--operator", "true", "--out", filepath.Join(t.TempDir(), "run.optrace"))
	if !strings.Contains(got.Stderr, "was not closed in order") {
		t.Errorf("replay: code %d, %q", got.Code, got.Stderr)
	}
}

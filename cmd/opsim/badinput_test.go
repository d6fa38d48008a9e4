package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/opreplay/opreplay/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, main) }

// What is no trace is refused by every command that reads one.
func TestBadTraces(t *testing.T) {
	for _, bad := range clitest.BadTraces(t) {
		for command, args := range map[string][]string{
			"analyze": {"analyze", bad.Dir},
			"serve":   {"serve", bad.Dir},
			"replay":  {"replay", bad.Dir, "--operator", "true", "--out", filepath.Join(t.TempDir(), "run.optrace")},
		} {
			t.Run(command+"/"+bad.Name, func(t *testing.T) { clitest.Refuses(t, args, bad.Mentions...) })
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
	for _, c := range []struct {
		name     string
		args     []string
		mentions []string
	}{
		{"replay, operator that is not there", []string{"replay", trace, "--operator", "./nosuch-operator", "--out", out}, []string{"nosuch-operator"}},
		{"replay, no operator", []string{"replay", trace, "--out", out}, []string{"operator"}},
		{"replay, plan that is not there", []string{"replay", trace, "--operator", "true", "--plan", "nosuch.yaml", "--out", out}, []string{"nosuch.yaml"}},
		{"replay, unknown fault", []string{"replay", trace, "--operator", "true", "--plan", badPlan, "--out", out}, []string{badPlan, "explode", "3"}},
		{"replay, run's trace that is there already", []string{"replay", trace, "--operator", "true", "--out", trace}, []string{trace}},
		{"analyze, unknown form", []string{"analyze", trace, "-o", "runes"}, []string{"runes"}},
		{"serve, nothing", []string{"serve"}, []string{"TRACE", "--writable"}},
		{"serve, moment of nothing", []string{"serve", "--writable", "--at", "5"}, []string{"--at 5", "TRACE"}},
		{"serve, moment that is none", []string{"serve", trace, "--at", "noon"}, []string{"--at noon"}},
		{"serve, moment after the end", []string{"serve", trace, "--at", "101"}, []string{"--at 101", "1 to 100"}},
		{"serve, address that is none", []string{"serve", trace, "--listen", "nowhere"}, []string{"--listen", "nowhere"}},
		{"serve, kubeconfig that is there", []string{"serve", trace, "--kubeconfig", badPlan}, []string{badPlan, "is there already"}},
		{"serve, assets and a trace", []string{"serve", trace, "--assets", out}, []string{"--assets"}},
		{"demo, no zoo", []string{"demo", "--zoo", "nosuch"}, []string{"nosuch", "make build"}},
		{"demo, folder that is not empty", []string{"demo", "--out", trace}, []string{trace}},
	} {
		t.Run(c.name, func(t *testing.T) { clitest.Refuses(t, c.args, c.mentions...) })
	}
	if _, err := os.Stat(out); err == nil {
		t.Errorf("a refused command left %s", out)
	}
}

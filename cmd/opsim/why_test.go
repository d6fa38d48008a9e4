package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/causal"
	"github.com/opreplay/opreplay/internal/clitest"
)

// looping is a recording of an operator that wakes itself, with what eBPF saw.
func looping(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "analysis", "causal", "testdata", "statusloop.optrace"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A finding names the line of code, and why goes on from the row that shows it.
func TestFromFindingToCause(t *testing.T) {
	const line = "statusloop/main.go:77 (main.(*SiteReconciler).Reconcile)"
	dir := looping(t)
	got := clitest.Run(t, "analyze", dir, "--detector", "self-loop", "-o", "json")
	var r analysis.Result
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil || got.Code != 1 || len(r.Findings) != 1 {
		t.Fatalf("code %d, %v\n%s%s", got.Code, err, got.Stdout, got.Stderr)
	}
	f := r.Findings[0]
	if f.Code != line || !strings.Contains(f.Cause, line) || len(f.Path) < 3 {
		t.Errorf("code %q, cause %q, path %v", f.Code, f.Cause, f.Path)
	}
	got = clitest.Run(t, "why", dir, "sites.web.example.com/web/shop", "-o", "json")
	var c causal.Chain
	if err := json.Unmarshal([]byte(got.Stdout), &c); err != nil || got.Code != 0 || len(c.Steps) < 4 {
		t.Fatalf("code %d, %v\n%s%s", got.Code, err, got.Stdout, got.Stderr)
	}
	if s := c.Steps[1]; s.Code != line || s.Times < 100 {
		t.Errorf("%+v", s)
	}
	if got = clitest.Run(t, "why", dir, "sites.web.example.com web/shop@246"); got.Code != 0 || !strings.Contains(got.Stdout, "at "+line) {
		t.Errorf("code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}

// A trace doesn't differ from itself, and one of another operator does.
func TestBaseline(t *testing.T) {
	dir := looping(t)
	if got := clitest.Run(t, "analyze", "--baseline", dir, dir); got.Code != 0 || !strings.Contains(got.Stdout, "0 new findings") {
		t.Errorf("code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
	got := clitest.Run(t, "analyze", "--baseline", clitest.Trace(t), dir, "-o", "json")
	var c analysis.Comparison
	if err := json.Unmarshal([]byte(got.Stdout), &c); err != nil || got.Code != 1 || len(c.New) == 0 {
		t.Errorf("code %d, %v, %d new\n%s", got.Code, err, len(c.New), got.Stderr)
	}
}

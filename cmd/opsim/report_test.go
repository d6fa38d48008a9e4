package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/internal/clitest"
)

// labelled is where a labelled trace lies.
func labelled(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("../../traces/labelled", name+".optrace"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// The page of a faulty operator's trace has its finding, is its owner's alone to read, and exit code 1 says so.
func TestReport(t *testing.T) {
	out := filepath.Join(t.TempDir(), "report.html")
	got := clitest.Run(t, "report", labelled(t, "statusloop-faulty"), "--out", out, "--reference", labelled(t, "statusloop-fixed"))
	if got.Code != 1 || !strings.Contains(got.Stdout, "findings in "+out) {
		t.Errorf("code %d, %q, %q", got.Code, got.Stdout, got.Stderr)
	}
	page, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for _, want := range []string{"F1 self-loop", "sites.web.example.com web/shop", "First difference"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	clitest.Refuses(t, []string{"report", labelled(t, "statusloop-faulty"), "--live", "--listen", "0.0.0.0:0"}, "loopback")
}

// Each form is written, counts what the trace holds, and refuses what makes no sense.
func TestExport(t *testing.T) {
	trace, dir := labelled(t, "statusloop-faulty"), t.TempDir()
	for to, want := range map[string]string{
		"perfetto": "reconciles in ", "otlp": "spans of 0 reconciles and ", "csv": "requests.csv (", "metrics": "metrics of ",
	} {
		out := filepath.Join(dir, to)
		if got := clitest.Run(t, "export", trace, "--to", to, "--out", out); got.Code != 0 || !strings.Contains(got.Stdout, want) {
			t.Errorf("%s: code %d, %q, %q", to, got.Code, got.Stdout, got.Stderr)
		}
		if _, err := os.Stat(out); err != nil {
			t.Error(err)
		}
	}
	clitest.Refuses(t, []string{"export", trace}, "no stack samples")
	clitest.Refuses(t, []string{"export", trace, "--to", "xls"}, "--to xls")
	clitest.Refuses(t, []string{"export", trace, "--to", "csv", "--endpoint", "http://127.0.0.1:1"}, "--endpoint")
}

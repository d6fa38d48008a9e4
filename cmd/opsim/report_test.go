package main

import (
	"net/http"
	"net/http/httptest"
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

// Two traces are one page, whose list names each finding's trace; live there is one.
func TestReportSeveral(t *testing.T) {
	out := filepath.Join(t.TempDir(), "both.html")
	got := clitest.Run(t, "report", labelled(t, "retrystorm-faulty"), labelled(t, "retrystorm-fixed"), "-o", out)
	if got.Code != 1 || !strings.HasSuffix(got.Stdout, " in "+out+"\n") {
		t.Errorf("code %d, %q, %q", got.Code, got.Stdout, got.Stderr)
	}
	page, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<a href="#trace-1-F1">F1 retry-storm</a>`, `<a href="#trace-1-top">retrystorm-faulty.optrace</a>`, `id="trace-2-top"`, "retrystorm-fixed.optrace</h2>"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	clitest.Refuses(t, []string{"report", "--live", labelled(t, "retrystorm-faulty"), labelled(t, "retrystorm-fixed")}, "one trace")
}

// The folder of an exploration has a live page with how far it is and what was found.
func TestLivePageOfExploration(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"exploration.json": `{"budget": 3}`,
		"progress.json":    `{"stage": "running", "planned": 3, "before": 1, "workers": 2, "began": "2026-03-01T12:00:00Z", "pruned": {"no change": 4}, "findings": []}`,
		"done.jsonl": `{"index": 1, "kind": "crash", "verdict": "fine"}
{"index": 2, "kind": "crash", "verdict": "alarms", "plan": "seed: 1\nfaults:\n- crash: {}\n", "threads": "fifo", "alarms": "[{\"oracle\": \"missing\", \"what\": \"there is no <b>\"}]"}
`,
	} {
		put(name, text)
	}
	if err := os.Mkdir(filepath.Join(dir, "finding-1.optrace"), 0o700); err != nil {
		t.Fatal(err)
	}
	put("finding-1.optrace/manifest.json", `{"format": {"major": 1}, "run": {"plan": "seed: 1\nfaults:\n- crash: {}\n"}}`) // of an earlier sitting, whose first finding may have been another one
	page, err := livePage(dir)
	if err != nil {
		t.Fatal(err)
	}
	asked := func() string {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil))
		return w.Body.String()
	}
	first := asked()
	for _, want := range []string{"2 of 3 plans, 1 of them before", "Running plans, 2 workers", "4 × no change", "<td>crash</td><td>2</td><td>1</td><td>1</td><td>0</td>", "there is no &lt;b&gt;", "Shown by 1 plan (crash)", "- crash: {}"} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in %s", want, first)
		}
	}
	const link = `href="finding-1/"`
	if strings.Contains(first, link) {
		t.Error("while plans run a trace is said to be of the first finding")
	}
	put("progress.json", `{"stage": "shrinking", "planned": 3, "workers": 2, "began": "2026-03-01T12:00:00Z", "findings": [{"what": "there is no <b>", "plans": 1, "plan": "seed: 1\nfaults:\n- crash: {}\n", "command": "opsim replay t"}]}`)
	if then := asked(); !strings.Contains(then, link) || !strings.Contains(then, "The time is over") {
		t.Errorf("after two of three plans, a finding made small: %s", then)
	}
	if page, err := livePage(labelled(t, "retrystorm-fixed")); err != nil {
		t.Errorf("a trace: %v, %v", page, err)
	}
	if _, err := livePage(t.TempDir()); err == nil {
		t.Error("an empty folder has a page")
	}
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

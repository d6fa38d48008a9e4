package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/joshdk/go-junit"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/causal"
)

// written is what a form writes.
func written(t *testing.T, form func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := form(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// SARIF passes the standard's schema, and has each finding with its line of code.
func TestSARIF(t *testing.T) {
	r := sample()
	text := written(t, func(b *bytes.Buffer) error { return SARIF(b, r) })
	log, err := sarif.FromString(text)
	if err != nil {
		t.Fatal(err)
	}
	// Validate writes what it read anew, and what is absent in the file not as absent but empty: the defaults, then.
	run, whole := log.Runs[0], sarif.NewRun()
	run.Language, run.NewlineSequences, run.Tool.Driver.Language = whole.Language, whole.NewlineSequences, whole.Language
	if err := log.Validate(); err != nil {
		t.Error(err)
	}
	results := log.Runs[0].Results
	if len(results) != len(r.Findings) {
		t.Fatalf("%d results of %d findings", len(results), len(r.Findings))
	}
	place := results[0].Locations[0].PhysicalLocation
	if *place.ArtifactLocation.URI != "siteop/main.go" || *place.Region.StartLine != 77 {
		t.Errorf("the first finding is at %s:%v", *place.ArtifactLocation.URI, place.Region)
	}
	if got := *results[2].Locations[0].PhysicalLocation.ArtifactLocation.URI; got != "front.optrace/manifest.json" {
		t.Errorf("a finding without code is at %s", got)
	}
	for i, f := range r.Findings {
		if *results[i].RuleID != f.Detector || results[i].Level != string(f.Severity) {
			t.Errorf("%s is %s of level %s", f.ID, *results[i].RuleID, results[i].Level)
		}
	}
}

// JUnit has a test for each detector, and the findings of those that failed.
func TestJUnit(t *testing.T) {
	r := sample()
	r.Looked.Detectors = []string{"self-loop", "churn", "conflict-storm", "finalizer-hang"}
	suites, err := junit.Ingest([]byte(written(t, func(b *bytes.Buffer) error { return JUnit(b, r) })))
	if err != nil {
		t.Fatal(err)
	}
	if got := suites[0].Totals; got.Tests != 4 || got.Failed != 3 || got.Passed != 1 {
		t.Errorf("totals %+v, want 3 of 4 failed", got)
	}
}

func TestGitHub(t *testing.T) {
	r := sample()
	r.Findings[0].What = "100 %\nof it"
	lines := strings.Split(written(t, func(b *bytes.Buffer) error { return GitHub(b, r) }), "\n")
	if want := "::error file=siteop/main.go,line=77,title=F1 self-loop::100 %25%0Aof it. Cause (sure): "; !strings.HasPrefix(lines[0], want) {
		t.Errorf("%q\nwant %q", lines[0], want)
	}
	if len(lines) != len(r.Findings)+1 {
		t.Errorf("%d lines", len(lines))
	}
}

// A trace's texts are obeyed neither by a terminal nor by Markdown.
func TestHostileTexts(t *testing.T) {
	const hostile = "https://evil.example.com \x1b]0;title\x07\x1b[2J\u202e<img src=x onerror=a>[a](b) `c` | d\n::error::e\r# f"
	r := &analysis.Result{
		Looked: analysis.Looked{Trace: hostile, Processes: []string{hostile}, Detectors: []string{hostile}}, Caveats: []string{hostile}, Notes: []analysis.Note{{Detector: hostile, What: hostile}},
		Findings: []analysis.Finding{{
			ID: "F1", Group: "F1", Detector: hostile, Process: hostile, What: hostile, Cause: hostile, Field: hostile, Code: hostile, Reproduce: hostile,
			Objects: []analysis.Object{{Resource: hostile, Namespace: hostile, Name: hostile}}, Total: 1,
			Statistics: []analysis.Statistic{{Name: hostile, Unit: hostile}}, Evidence: analysis.Evidence{Total: 1, Items: []analysis.Item{{What: hostile}}},
			Path: []analysis.Step{{What: hostile, Code: hostile, By: hostile, Known: hostile}},
		}},
	}
	for name, text := range map[string]string{
		"text":     written(t, func(b *bytes.Buffer) error { return Text(b, r, Options{Notes: true}) }),
		"markdown": written(t, func(b *bytes.Buffer) error { return Markdown(b, r) }),
		"github":   written(t, func(b *bytes.Buffer) error { return GitHub(b, r) }),
		"junit":    written(t, func(b *bytes.Buffer) error { return JUnit(b, r) }),
		"baseline": written(t, func(b *bytes.Buffer) error { return Comparison(b, &analysis.Comparison{New: r.Findings}, Options{}) }),
		"why": written(t, func(b *bytes.Buffer) error {
			return Why(b, &causal.Chain{Trace: hostile, Target: hostile, Steps: []causal.Step{{What: hostile, Code: hostile, By: hostile, Known: hostile}}}, Options{})
		}),
	} {
		if strings.ContainsAny(text, "\x1b\x07\r\u202e") {
			t.Errorf("%s has control characters: %q", name, text)
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "# f") || name != "github" && strings.HasPrefix(line, "::") || strings.HasPrefix(line, "::error::") {
				t.Errorf("%s has a line of the trace's own: %q", name, line)
			}
		}
	}
	suites, err := junit.Ingest([]byte(written(t, func(b *bytes.Buffer) error { return JUnit(b, r) })))
	if err != nil || suites[0].Totals.Tests != 1 || suites[0].Totals.Failed != 1 || !strings.Contains(suites[0].Tests[0].Error.Error(), "<img src=x onerror=a>") {
		t.Errorf("JUnit: %v, %+v", err, suites)
	}
	log, err := sarif.FromString(written(t, func(b *bytes.Buffer) error { return SARIF(b, r) }))
	if err != nil {
		t.Fatal(err)
	}
	if text := *log.Runs[0].Results[0].Message.Text; strings.Contains(text, "[a]") || !strings.Contains(text, `\[a\](b)`) {
		t.Errorf("a link in SARIF's %q", text)
	}
	// Outside code spans, which Markdown does not look into, markup is escaped.
	text := written(t, func(b *bytes.Buffer) error { return Markdown(b, r) })
	if !strings.Contains(text, `https\:\/\/evil\.example\.com `) {
		t.Errorf("no escaped markup in %s", text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "**Cause**") && strings.Contains(strings.ReplaceAll(line, `\<`, ""), "<") {
			t.Errorf("markup in %q", line)
		}
	}
}

package analysis_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// named is what one finding must name. Function and line are of the code at fault: the line's text, for its number is
// another one after each edit of the source.
type named struct {
	Detector, Process, Manager, Object, Field, Function, Line string
}

// Each finding in the recordings with stacks of the faulty twins names the right process, field manager, object and
// field, and the line of code that is at fault: that of the source as it was recorded.
func TestLinesOfTheZoo(t *testing.T) {
	dir := filepath.Join("..", "traces", "labelled")
	text, err := os.ReadFile(filepath.Join(dir, "lines.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Traces []struct {
			Trace    string  `json:"trace"`
			Findings []named `json:"findings"`
		} `json:"traces"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, x := range file.Traces {
		listed[x.Trace] = true
		t.Run(x.Trace, func(t *testing.T) {
			findings := findingsOf(t, filepath.Join(dir, x.Trace))
			if len(findings) != len(x.Findings) {
				t.Fatalf("%d findings, want %d: %+v", len(findings), len(x.Findings), findings)
			}
			for i, want := range x.Findings {
				want.check(t, &findings[i], filepath.Join(dir, "sources"))
			}
		})
	}
	recorded, err := filepath.Glob(filepath.Join(dir, "*-lines.optrace"))
	if err != nil || len(recorded) == 0 {
		t.Fatalf("no recordings, %v", err)
	}
	for _, r := range recorded {
		if !listed[filepath.Base(r)] {
			t.Errorf("lines.yaml does not say what is in %s", filepath.Base(r))
		}
	}
}

func findingsOf(t *testing.T, dir string) []analysis.Finding {
	t.Helper()
	trace, err := traces.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trace.Close() }()
	r, err := analysis.Analyze(t.Context(), trace, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Findings
}

func (w named) check(t *testing.T, f *analysis.Finding, sources string) {
	t.Helper()
	object := ""
	if len(f.Objects) > 0 {
		object = f.Objects[0].String()
	}
	if f.Detector != w.Detector || f.Process != w.Process || f.Manager != w.Manager || object != w.Object || f.Field != w.Field {
		t.Errorf("%s of process %q, manager %q, object %q, field %q, want %+v", f.Detector, f.Process, f.Manager, object, f.Field, w)
	}
	if f.Code != "" && !strings.HasSuffix(f.Cause, "; the line of code is "+f.Code) {
		t.Errorf("the cause does not name %s: %s", f.Code, f.Cause)
	}
	function, number := place(f)
	switch {
	case function != w.Function:
		t.Errorf("%s is at %q, want %q", f.Detector, function, w.Function)
	case w.Function == "":
		return
	}
	if got := lineOf(t, filepath.Join(sources, w.Process+".go.txt"), number); got != w.Line {
		t.Errorf("%s is at line %d, %q, want %q", f.Detector, number, got, w.Line)
	}
	source, err := os.ReadFile(filepath.Join("..", "examples", "operators", w.Process, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), w.Line) {
		t.Errorf("%s no longer has the line %q: record it again", w.Process, w.Line)
	}
}

// The code at fault stands in Code where a stack was recorded, and among the words where a log had it (panics).
var (
	inCode  = regexp.MustCompile(`/main\.go:(\d+) \((.*)\)$`)
	inWords = regexp.MustCompile(`at (main\.\S+) \(main\.go:(\d+)\)`)
)

// place is the function and the line that a finding names.
func place(f *analysis.Finding) (function string, line int) {
	if m := inCode.FindStringSubmatch(f.Code); m != nil {
		line, _ = strconv.Atoi(m[1])
		return m[2], line
	}
	if m := inWords.FindStringSubmatch(f.What); m != nil {
		line, _ = strconv.Atoi(m[2])
		return m[1], line
	}
	return "", 0
}

// lineOf is the text of a line of a file, without its indentation; "" where there is none.
func lineOf(t *testing.T, file string, number int) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if number < 1 || number > len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[number-1])
}

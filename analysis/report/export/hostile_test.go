package export_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/pprof/profile"
	"github.com/xeipuuv/gojsonschema"
	"google.golang.org/protobuf/proto"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"github.com/opreplay/opreplay/analysis/report/export"
	"github.com/opreplay/opreplay/traces"
)

// hostile is a formula, a script, escapes of a terminal, a turned direction of reading, a workflow command, the
// quotes and line ends of CSV and JSON, and half a character.
const hostile = "=cmd|' /C calc'!A0,\"q\" </script><script>window.stolen=1</script> \x1b]0;title\x07\x1b[2J\u202e\r\n::error::e\r\n@x\x00\xc3"

// stored is what a trace keeps of it.
var stored = strings.ToValidUTF8(hostile, "\uFFFD")

// hostileTrace has it in every text, and in an annotation of 1 MiB.
func hostileTrace(t *testing.T) *traces.Trace {
	id := traces.Identity{Group: hostile, Version: hostile, Resource: hostile, Namespace: hostile, Name: hostile, UID: hostile, ResourceVersion: 1}
	object, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]any{hostile: hostile}, "annotations": map[string]any{"a": strings.Repeat(stored, 1<<20/len(stored)+1)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return trace(t,
		&traces.Request{
			Head: traces.Head{TS: 2000}, Identity: id, Start: 1000, Process: hostile, UserAgent: hostile, User: hostile, Verb: "create", Path: hostile,
			Subresource: hostile, Query: hostile, FieldManager: hostile, Code: 201, Reason: hostile, RequestBody: hostile, ResponseBody: hostile, ReconcileID: 3,
		},
		&traces.WatchEvent{Head: traces.Head{TS: 3000}, Identity: id, Type: hostile, Process: hostile, Stream: hostile, Object: string(object), Writer: hostile},
		&traces.Reconcile{Head: traces.Head{TS: 4000}, Process: hostile, Controller: hostile, Namespace: hostile, Name: hostile, Start: 1000, Trigger: 2, Outcome: "error", Error: hostile},
		&traces.Stack{Head: traces.Head{TS: 4000}, StackID: 1, Frames: []traces.Frame{{Function: hostile, File: hostile, Line: 7}}},
		&traces.Sample{Head: traces.Head{TS: 4000}, StackID: 1, Weight: 5, ReconcileID: 3},
		&traces.Log{Head: traces.Head{TS: 4000}, Process: hostile, Stream: hostile, Level: hostile, Message: hostile, Fields: hostile},
	)
}

// A spreadsheet finds texts, each the trace's own but for the apostrophe, and as many rows as there are.
func TestHostileCSV(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "csv")
	if _, err := export.CSV(t.Context(), hostileTrace(t), dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil || len(files) != 6 {
		t.Fatalf("%q, %v", files, err)
	}
	// A reader of CSV takes CR LF within quotes for LF (encoding/csv says so).
	want := "'" + strings.ReplaceAll(stored, "\r\n", "\n")
	kept := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("%s: %d rows, %v", file, len(rows), err)
		}
		for i, cell := range rows[1] {
			if cell != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(cell)[0]) {
				t.Errorf("%s: column %s begins as a formula: %.40q", file, rows[0][i], cell)
			}
			if cell == want {
				kept++
			}
		}
	}
	if kept < 30 {
		t.Errorf("%d cells hold the text as it was", kept)
	}
}

// What begins a formula in a spreadsheet (OWASP, "CSV Injection") gets an apostrophe.
func TestFormulas(t *testing.T) {
	for _, text := range []string{"=1", "+1", "-1", "@A1", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠A1"} {
		dir := t.TempDir()
		if _, err := export.CSV(t.Context(), trace(t, &traces.Log{Message: text}), dir); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "logs.csv"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got), "'"+text) {
			t.Errorf("%q is written %q", text, got)
		}
	}
}

// Perfetto's file is valid, of one line a value, and no page that it is put into runs anything of it.
func TestHostilePerfetto(t *testing.T) {
	var b bytes.Buffer
	if _, err := export.Perfetto(t.Context(), hostileTrace(t), &b); err != nil {
		t.Fatal(err)
	}
	inert(t, b.Bytes())
	valid, err := gojsonschema.Validate(gojsonschema.NewStringLoader(traceEventSchema), gojsonschema.NewBytesLoader(b.Bytes()))
	if err != nil || !valid.Valid() {
		t.Fatal(err, valid.Errors())
	}
	var file struct {
		TraceEvents []struct {
			Name, Ph string
			Args     map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, e := range file.TraceEvents {
		if e.Ph == "X" {
			names[e.Name]++
		}
	}
	for _, name := range []string{"create " + stored + " " + stored, stored, stored + " " + stored + "/" + stored} {
		if names[name] != 1 {
			t.Errorf("no slice %q in %v", name, names)
		}
	}
}

// Spans hold the texts as they are, in either form of OTLP.
func TestHostileOTLP(t *testing.T) {
	request, _, err := export.OTLP(t.Context(), hostileTrace(t))
	if err != nil {
		t.Fatal(err)
	}
	body, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var back collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &back); err != nil {
		t.Fatal(err)
	}
	if pass := find(t, &back, "reconcile "+stored, true); pass.Status.Message != stored {
		t.Errorf("the error is %q", pass.Status.Message)
	}
	var b bytes.Buffer
	if err := export.OTLPJSON(&b, request); err != nil {
		t.Fatal(err)
	}
	inert(t, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	if bytes.Count(b.Bytes(), []byte("\n")) != 1 {
		t.Error("more than a line")
	}
}

// pprof's own library reads the profile; the tool prints nothing that a terminal obeys.
func TestHostilePprof(t *testing.T) {
	var b bytes.Buffer
	if _, err := export.Pprof(t.Context(), hostileTrace(t), &b); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Sample) != 1 || p.Sample[0].Value[0] != 5 || !strings.Contains(p.Sample[0].Label["controller"][0], "</script>") {
		t.Errorf("samples %v", p.Sample)
	}
	file := filepath.Join(t.TempDir(), "t.pb.gz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, view := range []string{"-top", "-tags"} {
		out, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", view, file).Output()
		if err != nil {
			t.Fatalf("%s: %v", view, err)
		}
		if i := slices.IndexFunc([]rune(string(out)), obeyed); i >= 0 {
			t.Errorf("%s prints what a terminal obeys: %q", view, out)
		}
	}
}

// obeyed is whether a terminal does something about a character, but for ends of lines and tabs.
func obeyed(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// inert holds a file of JSON to have no markup and no control characters.
func inert(t *testing.T, text []byte) {
	t.Helper()
	if bytes.Contains(text, []byte("</script")) || bytes.Contains(text, []byte("<script")) {
		t.Error("markup in the file")
	}
	if bytes.ContainsAny(text, "\x00\x07\x1b\r") {
		t.Error("control characters in the file")
	}
}

package export_test

import (
	"bytes"
	_ "embed" // a schema
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xeipuuv/gojsonschema"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlptrace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/opreplay/opreplay/analysis/report/export"
	"github.com/opreplay/opreplay/traces"
)

// loop is a write, the event of it, the reconcile that it queues, and that one's write, which overlaps another's.
func loop(t *testing.T) *traces.Trace {
	id := func(version int64) traces.Identity {
		return traces.Identity{Version: "v1", Resource: "pods", Namespace: "shop", Name: "=cmd()", UID: "u", ResourceVersion: version}
	}
	head := func(ts int64) traces.Head { return traces.Head{TS: ts} }
	return trace(t,
		&traces.Request{Head: head(2000), Identity: id(1), Start: 1000, Verb: "create", Code: 201, UserAgent: "kubectl"},
		&traces.WatchEvent{Head: head(3000), Identity: id(1), Type: "ADDED", Process: "op", Stream: "w"},
		&traces.Request{Head: head(6000), Identity: id(2), Start: 4500, Process: "op", Verb: "update", Code: 200, ReconcileID: 5},
		&traces.Request{Head: head(6500), Identity: id(0), Start: 5000, Process: "op", Verb: "update", Code: 409, Reason: "Conflict", ReconcileID: 5},
		&traces.Reconcile{Head: head(7000), Process: "op", Controller: "pods", Namespace: "shop", Name: "=cmd()", Start: 4000, GoID: 9, Trigger: 2, Outcome: "error", Error: "conflict"},
		&traces.Request{Head: head(9000), Start: 1000, Identity: traces.Identity{Resource: "pods"}, Process: "op", Verb: "watch", Code: 200},
		&traces.Stack{StackID: 1, Frames: []traces.Frame{{Function: "main.f", File: "main.go", Line: 7}}},
	)
}

//go:embed testdata/trace-event.schema.json
var traceEventSchema string

// The format's rules hold: slices of one thread don't overlap, arrows begin and end in slices; and all rows are there.
func TestPerfetto(t *testing.T) {
	var b bytes.Buffer
	n, err := export.Perfetto(t.Context(), loop(t), &b)
	if err != nil || n != (export.Counts{Events: 1, Requests: 4, Reconciles: 1}) {
		t.Fatalf("%+v, %v", n, err)
	}
	valid, err := gojsonschema.Validate(gojsonschema.NewStringLoader(traceEventSchema), gojsonschema.NewBytesLoader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range valid.Errors() {
		t.Error(e)
	}
	type traceEvent struct {
		Name, Ph string
		Ts, Dur  float64
		PID, TID int
		ID       int
	}
	var file struct{ TraceEvents []traceEvent }
	if err := json.Unmarshal(b.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	phases := map[string]int{}
	arrows := map[int][]string{}
	for i, e := range file.TraceEvents {
		phases[e.Ph]++
		switch e.Ph {
		case "X":
			for _, o := range file.TraceEvents[:i] {
				if o.Ph == "X" && o.TID == e.TID && o.Ts < e.Ts+e.Dur && e.Ts < o.Ts+o.Dur {
					t.Errorf("%s and %s overlap on thread %d", o.Name, e.Name, e.TID)
				}
			}
		case "s", "f":
			in := slices.IndexFunc(file.TraceEvents, func(o traceEvent) bool {
				return o.Ph == "X" && o.TID == e.TID && o.Ts <= e.Ts && e.Ts <= o.Ts+o.Dur
			})
			if in < 0 {
				t.Fatalf("an arrow's end lies in no slice: %+v", e)
			}
			arrows[e.ID] = append(arrows[e.ID], e.Ph+" "+file.TraceEvents[in].Name)
		}
	}
	if phases["X"] != 6 {
		t.Errorf("%d slices of 6 rows", phases["X"])
	}
	want := map[int][]string{1: {"s create pods shop/=cmd()", "f ADDED"}, 2: {"s ADDED", "f pods shop/=cmd()"}}
	for id, ends := range want {
		if !slices.Equal(arrows[id], ends) {
			t.Errorf("arrow %d: %v, want %v", id, arrows[id], ends)
		}
	}
	if len(arrows) != len(want) {
		t.Errorf("%d arrows, want %d", len(arrows), len(want))
	}
}

// find is the span of a name and a status code.
func find(t *testing.T, r *collector.ExportTraceServiceRequest, name string, failed bool) *otlptrace.Span {
	t.Helper()
	for _, rs := range r.ResourceSpans {
		for _, s := range rs.ScopeSpans[0].Spans {
			if s.Name == name && failed == (s.GetStatus().GetCode() == otlptrace.Status_STATUS_CODE_ERROR) {
				return s
			}
		}
	}
	t.Fatalf("no span %s", name)
	return nil
}

// Calls are children of their reconcile, which links to the write that queued it; what a collector gets is what was sent.
func TestOTLP(t *testing.T) {
	tr := loop(t)
	r, n, err := export.OTLP(t.Context(), tr)
	if err != nil || n != (export.Counts{Requests: 3, Reconciles: 1}) {
		t.Fatalf("%+v, %v", n, err)
	}
	pass, create := find(t, r, "reconcile pods", true), find(t, r, "create pods", false)
	for _, failed := range []bool{false, true} {
		if c := find(t, r, "update pods", failed); !bytes.Equal(c.ParentSpanId, pass.SpanId) || !bytes.Equal(c.TraceId, pass.TraceId) {
			t.Errorf("the update is no child of the reconcile: %v", c)
		}
	}
	if len(pass.Links) != 1 || !bytes.Equal(pass.Links[0].SpanId, create.SpanId) || !bytes.Equal(pass.Links[0].TraceId, create.TraceId) {
		t.Errorf("the reconcile's links: %v", pass.Links)
	}
	if pass.StartTimeUnixNano != 4000 || pass.EndTimeUnixNano != 7000 || pass.Status.Message != "conflict" {
		t.Errorf("the reconcile: %v", pass)
	}

	var got collector.ExportTraceServiceRequest
	answer := &collector.ExportTraceServiceResponse{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil || q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("asked for %s with %s: %v", q.URL.Path, q.Header.Get("Content-Type"), err)
		}
		if err := proto.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
		text, _ := proto.Marshal(answer)
		_, _ = w.Write(text)
	}))
	defer server.Close()
	if err := export.SendOTLP(t.Context(), server.URL+"/", r); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&got, r) {
		t.Error("the collector has other spans than were sent")
	}
	answer.PartialSuccess = &collector.ExportTracePartialSuccess{RejectedSpans: 2, ErrorMessage: "too old"}
	if err := export.SendOTLP(t.Context(), server.URL, r); err == nil || !strings.Contains(err.Error(), "refused 2 spans: too old") {
		t.Errorf("of a collector that refuses: %v", err)
	}

	var b bytes.Buffer
	if err := export.OTLPJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	back := &collector.ExportTraceServiceRequest{}
	if err := protojson.Unmarshal([]byte(base64IDs(b.String(), r)), back); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(back, r) || strings.Count(b.String(), "\n") != 1 {
		t.Errorf("read back from JSON: other spans, or more than a line: %s", b.String())
	}
}

// base64IDs puts protobuf's form of ids in the place of OTLP's.
func base64IDs(text string, r *collector.ExportTraceServiceRequest) string {
	for _, rs := range r.ResourceSpans {
		for _, s := range rs.ScopeSpans[0].Spans {
			for _, id := range [][]byte{s.TraceId, s.SpanId} {
				text = strings.ReplaceAll(text, hex.EncodeToString(id), base64.StdEncoding.EncodeToString(id))
			}
		}
	}
	return text
}

// A CSV reader finds each row, and no cell that a spreadsheet would run.
func TestCSV(t *testing.T) {
	tr, dir := loop(t), filepath.Join(t.TempDir(), "csv")
	rows, err := export.CSV(t.Context(), tr, dir)
	if err != nil {
		t.Fatal(err)
	}
	for table, want := range map[traces.Table]int64{traces.TableWatch: 1, traces.TableRequests: 4, traces.TableReconciles: 1, traces.TableStacks: 1} {
		text, err := os.ReadFile(filepath.Join(dir, string(table)+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		cells, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if rows[table] != want || int64(len(cells)) != want+1 {
			t.Errorf("%s: %d rows, said to be %d, want %d", table, len(cells)-1, rows[table], want)
		}
		for _, cell := range slices.Concat(cells...) {
			if strings.HasPrefix(cell, "=") {
				t.Errorf("%s: a formula: %s", table, cell)
			}
		}
		column := func(name string) string { return cells[1][slices.Index(cells[0], name)] }
		if table == traces.TableReconciles {
			if column("start") != "1970-01-01T00:00:00.000004Z" || column("name") != "'=cmd()" || column("goid") != "9" {
				t.Errorf("the reconcile: %v", cells[1])
			}
		}
		if table == traces.TableStacks {
			if want := `[{"Function":"main.f","File":"main.go","Line":7,"Inlined":false}]`; column("frames") != want {
				t.Errorf("frames %s, want %s", column("frames"), want)
			}
		}
		if info, err := os.Stat(filepath.Join(dir, string(table)+".csv")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", table, info.Mode(), err)
		}
	}
}

// Of a recording that comes with the programs each form has as many rows as its tables.
func TestCountsAreTheTables(t *testing.T) {
	tr, err := traces.Open("../../../traces/cases/statusloop.optrace")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tr.Close() }()
	want := map[traces.Table]int64{}
	for _, f := range tr.Manifest().Files {
		want[f.Table] += f.Rows
	}
	if want[traces.TableWatch] == 0 || want[traces.TableRequests] == 0 || want[traces.TableLogs] == 0 {
		t.Fatalf("the recording has %v", want)
	}

	var b bytes.Buffer
	if _, err := export.Perfetto(t.Context(), tr, &b); err != nil {
		t.Fatal(err)
	}
	var file struct{ TraceEvents []struct{ Cat, Ph string } }
	if err := json.Unmarshal(b.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	drawn := map[string]int64{}
	for _, e := range file.TraceEvents {
		if e.Ph == "X" {
			drawn[e.Cat]++
		}
	}
	if drawn["watch"] != want[traces.TableWatch] || drawn["request"] != want[traces.TableRequests] {
		t.Errorf("Perfetto has %v of %v", drawn, want)
	}

	dir := t.TempDir()
	if _, err := export.CSV(t.Context(), tr, dir); err != nil {
		t.Fatal(err)
	}
	for table, n := range want {
		f, err := os.Open(filepath.Join(dir, string(table)+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(f).ReadAll()
		_ = f.Close()
		if err != nil || int64(len(rows)) != n+1 {
			t.Errorf("%s.csv has %d rows and a header, %v; the table has %d", table, len(rows)-1, err, n)
		}
	}
}

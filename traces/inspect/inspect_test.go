package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/opreplay/opreplay/traces"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// traceOf writes the scenario of a name into a trace folder of that name, and opens it.
func traceOf(t *testing.T, scenario string) *traces.Trace {
	t.Helper()
	t.Chdir(t.TempDir()) // so that the summary has no path of this machine
	dir := scenario + ".optrace"
	code := 0
	m := traces.Manifest{
		Tool: "oprec v0.1.0", Source: "run", Created: noon, Cluster: traces.Cluster{Version: "v1.37.2", Server: "https://127.0.0.1:6443"},
		Operators: []traces.Operator{{Process: "rabbit-operator", ExitCode: &code}}, Redaction: traces.Redaction{Secrets: "hmac-sha256"},
	}
	if scenario == "simulated" {
		m.Source, m.Operators = "sim", nil
		m.Run = &traces.Run{Trace: "busy.optrace", Plan: "seed: 7\nfaults:\n- latency: {}\n", Seed: 7, Mode: "wall", Reason: "real clock"}
	}
	w, err := traces.Create(dir, m, traces.WriterOptions{RotateAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	if scenario != "empty" {
		busy(t, w)
	}
	if scenario == "lossy" {
		w.Lose(traces.Loss{Source: "watch pods", From: noon, To: noon.Add(time.Second), Count: -1, Reason: "410 Gone, relisted"})
		w.Lose(traces.Loss{Source: "logs", From: noon, To: noon.Add(time.Minute), Count: 1234, Reason: "line\nlonger \x1b[31mthan 1 MiB"})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if scenario == "open" {
		path := filepath.Join(dir, traces.ManifestName)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(b), `"complete": true`, `"complete": false`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := traces.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// busy is a minute of an operator that writes its status every second, and of a user who creates three
// objects and deletes one.
func busy(t *testing.T, w *traces.Writer) {
	t.Helper()
	add := func(at time.Duration, r traces.Record) {
		r.Header().TS = noon.Add(at).UnixNano()
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	rabbit := func(i, version int) traces.Identity {
		return traces.Identity{
			Group: "rabbitmq.com", Version: "v1beta1", Resource: "rabbitmqclusters", Namespace: "default",
			Name: fmt.Sprint("rabbit-", i), UID: fmt.Sprint("uid-", i), ResourceVersion: int64(version),
		}
	}
	for i := range 3 {
		add(0, &traces.WatchEvent{Identity: traces.Identity{Version: "v1", Resource: "pods", UID: fmt.Sprint("pod-", i)}, Type: "SYNC", Stream: "list"})
	}
	for i := range 3 {
		at := time.Duration(i) * 20 * time.Second
		add(at, &traces.WatchEvent{Identity: rabbit(i, 10+i), Type: "ADDED", Stream: "watch"})
		add(at, &traces.Request{Identity: rabbit(i, 10+i), Verb: "create", Code: 201, UserAgent: "kubectl/v1.37.2", User: "admin\x1b[2J"})
	}
	for s := range 60 {
		at := time.Duration(s) * time.Second
		code := int32(200)
		if s%10 == 9 {
			code = 409
		}
		add(at, &traces.Request{Identity: rabbit(0, 100+s), Verb: "update", Subresource: "status", Code: code, Process: "rabbit-operator", UserAgent: "manager/v0 (linux/amd64)", User: "sa"})
		if code == 200 {
			add(at, &traces.WatchEvent{Identity: rabbit(0, 100+s), Type: "MODIFIED", Stream: "watch"})
		}
	}
	add(59*time.Second, &traces.Request{Identity: rabbit(2, 0), Verb: "delete", Code: 200, UserAgent: "kubectl/v1.37.2", User: "admin\x1b[2J"})
	add(59*time.Second, &traces.WatchEvent{Identity: rabbit(2, 200), Type: "DELETED", Stream: "watch"})
	add(time.Minute, &traces.WatchEvent{Identity: rabbit(0, 201), Type: "BOOKMARK", Stream: "watch"})
	add(time.Minute, &traces.Request{Identity: traces.Identity{Version: "v1", Resource: "pods"}, Verb: "list", Process: "rabbit-operator", UserAgent: "manager/v0 (linux/amd64)", User: "sa"})
	add(time.Minute, &traces.Request{Verb: "get", Path: "/version", Code: 200, UserAgent: "curl/8"})
	add(time.Minute, &traces.Log{Message: "bye"})
}

// The page as a person sees it, for each scenario that traceOf knows. -rewrite writes it anew.
func TestText(t *testing.T) {
	datadriven.RunTest(t, "testdata/text", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "inspect" { // inspect SCENARIO
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		s, err := Summarize(t.Context(), traceOf(t, d.CmdArgs[0].Key))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := Text(&b, s); err != nil {
			t.Fatal(err)
		}
		return b.String()
	})
}

// The numbers are those of busy, counted by hand.
func TestSummarize(t *testing.T) {
	got, err := Summarize(t.Context(), traceOf(t, "busy"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Rows != 3+3+3+60+54+2+1+2+1 || got.Seconds != 60 || got.Objects != 6 || got.Streams != 2 || !got.Complete {
		t.Errorf("rows %d, seconds %v, objects %d, streams %d, complete %v", got.Rows, got.Seconds, got.Objects, got.Streams, got.Complete)
	}
	for what, diff := range map[string]string{
		"events": cmp.Diff([]Count{{"MODIFIED", 54}, {"ADDED", 3}, {"SYNC", 3}, {"BOOKMARK", 1}, {"DELETED", 1}}, got.Events),
		"resources": cmp.Diff([]Resource{
			{Resource: "rabbitmqclusters.rabbitmq.com", Objects: 3, Events: 59, Added: 3, Modified: 54, Deleted: 1, Writes: 64},
			{Resource: "pods", Objects: 3, Events: 3, Sync: 3, Reads: 1},
		}, got.Resources),
		"callers": cmp.Diff([]Caller{
			{Process: "rabbit-operator", UserAgent: "manager/v0 (linux/amd64)", User: "sa", Reads: 1, Writes: 60, Failed: 7, WritesPerMinute: 60},
			{UserAgent: "kubectl/v1.37.2", User: "admin\x1b[2J", Writes: 4, WritesPerMinute: 4},
			{UserAgent: "curl/8", Reads: 1},
		}, got.Callers),
		"codes": cmp.Diff([]Code{{0, 1}, {200, 54 + 2}, {201, 3}, {409, 6}}, got.Codes),
	} {
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if e, w := got.Timeline.Events, got.Timeline.Writes; e[0] != 2 || e[1] != 1 || e[9] != 0 || e[20] != 2 || w[0] != 2 || w[1] != 1 || w[59] != 2 {
		t.Errorf("timeline: events %v, writes %v", e, w)
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		number(0): "0", number(999): "999", number(1000): "1,000", number(-1234567): "-1,234,567",
		size(999): "999 B", size(1000): "1 kB", size(82_345): "82.3 kB", size(999_900): "1 MB", size(3_700_000): "3.7 MB",
		short(time.Second).String(): "1s", short(1234567 * time.Microsecond).String(): "1.23s", short(0).String(): "0s",
		plural(1, "loss"): "1 loss", plural(2, "loss"): "2 losses", plural(0, "row"): "0 rows",
		clean("a\x1b[2J\nb"):      "a·[2J·b",
		spark([]int64{0, 1, 100}): " ▁█", spark([]int64{0, 0}): "  ", spark([]int64{7}): "█",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSummarizeSaysWhatIsBroken(t *testing.T) {
	tr := traceOf(t, "busy")
	path := filepath.Join(tr.Dir(), "watch-0001.parquet")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[100] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Summarize(t.Context(), tr); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("error %v, want one that names %s", err, path)
	}
}

// A resource that changed stands above one that was only listed, however long the list.
func TestChangesRankAboveLists(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.optrace")
	w, err := traces.Create(dir, traces.Manifest{}, traces.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := w.Append(&traces.WatchEvent{Identity: traces.Identity{Resource: "roles"}, Type: string(traces.Sync)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Append(&traces.WatchEvent{Identity: traces.Identity{Resource: "pods"}, Type: string(traces.Added)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tr, err := traces.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Summarize(t.Context(), tr)
	if err != nil || s.Resources[0].Resource != "pods" {
		t.Errorf("%+v, %v; want pods first", s.Resources, err)
	}
}

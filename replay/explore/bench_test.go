//go:build unix

package explore

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/traces"
)

// cpu is what this process (unix.RUSAGE_SELF) or its children that have ended (unix.RUSAGE_CHILDREN) have used.
func cpu(b *testing.B, who int) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkExplore: what a plan costs on a server that is warm, with one worker. A schedule of the small operator and of
// the large one (four controllers, 60 objects, testdata/large), and how it grows with the recording: 1, 4 and 16 times as
// many changes by others, in as many times the time.
func BenchmarkExplore(b *testing.B) {
	needVirtual(b)
	for _, name := range []string{"halfcreate", "statusrace"} {
		b.Run("small/"+name, func(b *testing.B) {
			o, err := trialOf([]string{zooOperator(b, name), "--fixed"})
			if err != nil {
				b.Fatal(err)
			}
			benchmark(b, o)
		})
	}
	large := filepath.Join(b.TempDir(), "large")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", large, "./testdata/large").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, times := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("large/%dx", times), func(b *testing.B) {
			benchmark(b, trial.Options{Replay: replay.Options{
				Trace:     manyApps(b, 15*times),
				Operators: []replay.Operator{{Command: []string{large}, Identity: replay.Identity{Process: "large"}}},
			}})
		})
	}
}

// benchmark runs plans of an exploration, one after the other.
func benchmark(b *testing.B, o trial.Options) {
	b.Helper()
	runner, err := trial.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer runner.Close()
	ref, err := runner.Reference(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	plans, _ := enumerate(read(ref.Rows, runner.Session().Names()), 0, DefaultBudget)
	var c trial.Cost
	n, events := 0, 0
	own, operators := cpu(b, unix.RUSAGE_SELF), cpu(b, unix.RUSAGE_CHILDREN)
	for b.Loop() {
		// Some of each kind, and of the whole recording.
		out, err := runner.Run(b.Context(), plans[n*37%len(plans)].Try)
		if err != nil {
			b.Fatal(err)
		}
		if out.Verdict == trial.Failed {
			b.Fatal(out.Error)
		}
		n++
		events += len(out.Rows)
		c.Start, c.Sync, c.Run, c.Judge = c.Start+out.Cost.Start, c.Sync+out.Cost.Sync, c.Run+out.Cost.Run, c.Judge+out.Cost.Judge
		c.Wall += out.Cost.Wall
	}
	own, operators = cpu(b, unix.RUSAGE_SELF)-own, cpu(b, unix.RUSAGE_CHILDREN)-operators
	used := (own + operators).Seconds() / float64(n)
	b.ReportMetric(float64(n)/c.Wall.Minutes(), "plans/min")
	b.ReportMetric(60/used, "plans/min/core")
	b.ReportMetric(used*1e3, "cpu-ms/plan")
	b.ReportMetric(operators.Seconds()*1e3/float64(n), "operator-cpu-ms/plan")
	b.ReportMetric(float64(events)/float64(n), "rows/plan")
	for _, part := range []struct {
		of   time.Duration
		name string
	}{{c.Start, "start"}, {c.Sync, "sync"}, {c.Run, "run"}, {c.Judge, "judge"}} {
		b.ReportMetric(part.of.Seconds()*1e3/float64(n), part.name+"-ms/plan")
	}
}

// manyApps is a recording in which a user creates ConfigMaps that are apps to the large operator, three a second.
func manyApps(b *testing.B, n int) *traces.Trace {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "many.optrace")
	m := traces.Manifest{Tool: "test", Source: "capture"}
	for _, r := range []string{"configmaps", "namespaces", "serviceaccounts", "services"} {
		m.Resources = append(m.Resources, traces.Resource{Version: "v1", Resource: r})
	}
	w, err := traces.Create(dir, m, traces.WriterOptions{})
	if err != nil {
		b.Fatal(err)
	}
	at := time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)
	add := func(r traces.Record) {
		at = at.Add(time.Second / 3)
		r.Header().TS = at.UnixNano()
		if q, ok := r.(*traces.Request); ok {
			q.Start = r.Header().TS
		}
		if err := w.Append(r); err != nil {
			b.Fatal(err)
		}
	}
	object := func(typ traces.EventType, resource, kind, namespace, name string, rv int64, labels string) {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", rv)
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d","creationTimestamp":%q,"labels":%s}}`,
			kind, name, namespace, uid, rv, at.Format(time.RFC3339), labels)
		add(&traces.WatchEvent{
			Identity: traces.Identity{Version: "v1", Resource: resource, Namespace: namespace, Name: name, UID: uid, ResourceVersion: rv},
			Process:  "oprec", Stream: "oprec/" + resource, Type: string(typ), Object: text, ObjectHash: traces.HashObject(text),
		})
	}
	object(traces.Sync, "namespaces", "Namespace", "", "default", 1, `{}`)
	add(&traces.Request{Identity: traces.Identity{Version: "v1", Resource: "configmaps"}, Process: "large", Verb: "list", Code: 200, Path: "/api/v1/configmaps"})
	for i := range n {
		object(traces.Added, "configmaps", "ConfigMap", "default", fmt.Sprintf("app-%d", i), int64(i+2), `{"kind":"app"}`)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	trace, err := traces.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = trace.Close() })
	return trace
}

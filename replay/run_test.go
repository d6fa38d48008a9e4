package replay

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/traces"
)

var zoo = struct {
	sync.Mutex
	dir string
}{}

// guestDir is for binaries of testdata.
var guestDir string

func TestMain(m *testing.M) {
	if task := os.Getenv(taskEnv); task != "" {
		doTask(task)
		return
	}
	var err error
	if guestDir, err = os.MkdirTemp("", "guests-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(guestDir)
	if zoo.dir != "" {
		_ = os.RemoveAll(zoo.dir)
	}
	os.Exit(code)
}

// zooOperator is the path of an operator of the zoo, which the first who asks for it builds.
func zooOperator(t testing.TB, name string) string {
	t.Helper()
	zoo.Lock()
	defer zoo.Unlock()
	if zoo.dir == "" {
		var err error
		if zoo.dir, err = os.MkdirTemp("", "zoo-"); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(zoo.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/opreplay/opreplay/examples/operators/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}

func openTrace(t testing.TB, dir string) *traces.Trace {
	t.Helper()
	trace, err := traces.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trace.Close() })
	return trace
}

// replayCase replays a bundled case with an operator of the zoo, as fast as its changes allow.
func replayCase(t testing.TB, name, plan string, args ...string) (*Result, *traces.Trace) {
	t.Helper()
	p, err := fault.Parse("plan", []byte(plan))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "run.optrace")
	r, err := Run(context.Background(), Options{
		Trace: openTrace(t, filepath.Join("..", "traces", "cases", name+".optrace")), Out: out, Plan: p,
		Operators: []Operator{{Command: append([]string{zooOperator(t, name)}, args...)}}, MaxGap: 300 * time.Millisecond, Settle: time.Second, Clock: ClockWall,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, openTrace(t, out)
}

func rows[T any](t testing.TB, trace *traces.Trace) (all []*T) {
	t.Helper()
	for r, err := range traces.Rows[T](context.Background(), trace, traces.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// TestRunMakesAllWritesAgain: the same binary in the same cluster with the same outsiders writes the same. Not so on the
// wall clock one whose writes depend on which of its two controllers is faster, as those of statusrace do, where the one
// works for 150 ms while the other's call is under way: virtual time has no such race (TestVirtualRunsAreIdentical).
func TestRunMakesAllWritesAgain(t *testing.T) {
	for _, name := range []string{"statusloop", "orphanfinalizer"} {
		t.Run(name, func(t *testing.T) {
			r, trace := replayCase(t, name, "seed: 5")
			var text strings.Builder
			if err := r.Text(&text); err != nil {
				t.Fatal(err)
			}
			d := r.Divergence
			if d.Recorded == 0 || d.Again != d.Recorded || d.Equal != d.Recorded {
				t.Errorf("not all writes were made again:\n%s", text.String())
			}
			if r.Applied != r.Steps || r.Steps == 0 || r.Operators[0].ExitEarly {
				t.Errorf("not all changes were applied:\n%s", text.String())
			}
			checkRunTrace(t, r, trace)
		})
	}
}

// checkRunTrace: the run's trace is whole, says what it is, and shows the cluster as a recorder would.
func checkRunTrace(t *testing.T, r *Result, trace *traces.Trace) {
	t.Helper()
	problems, err := trace.Verify(context.Background())
	if err != nil || len(problems) > 0 {
		t.Errorf("trace: %v, %v", problems, err)
	}
	m := trace.Manifest()
	if m.Source != "sim" || !m.Complete || m.Run == nil || m.Run.Mode != "wall" || m.Run.Deterministic || m.Run.Seed != 5 || len(m.Run.TraceSHA256) != 64 {
		t.Errorf("source %q, complete %v, run %+v", m.Source, m.Complete, m.Run)
	}
	if len(m.Operators) != 1 || m.Operators[0].Process != r.Operators[0].Name || m.Operators[0].ExitCode == nil || len(m.Operators[0].UserAgents) == 0 {
		t.Errorf("operators: %+v", m.Operators)
	}
	// Every successful write is followed by what it brought about, in the rows of the whole cluster.
	seen := map[string]bool{}
	for _, w := range rows[traces.WatchEvent](t, trace) {
		if w.Process == captureProcess {
			seen[fmt.Sprint(w.UID, w.ResourceVersion)] = true
		}
	}
	calls := 0
	for _, q := range rows[traces.Request](t, trace) {
		if q.Process == captureProcess {
			t.Errorf("the run's own call is in the trace: %+v", q)
		}
		if q.Process != r.Operators[0].Name {
			continue
		}
		calls++
		if isWrite(q.Verb) && succeeded(q) && q.ResourceVersion > 0 && q.Verb != "delete" && !seen[fmt.Sprint(q.UID, q.ResourceVersion)] && !endsObject(q) {
			t.Errorf("%s %s/%s gave version %d, which no watch row shows", q.Verb, q.Resource, q.Name, q.ResourceVersion)
		}
	}
	if calls != r.Calls || calls == 0 {
		t.Errorf("%d calls of the operator in the trace, %d counted", calls, r.Calls)
	}
	logged := slices.ContainsFunc(rows[traces.Log](t, trace), func(l *traces.Log) bool { return l.Process == r.Operators[0].Name && l.Level != "" })
	if !logged {
		t.Error("no line of the operator's log was understood")
	}
	if n := len(rows[traces.Decision](t, trace)); n < r.Steps+2 {
		t.Errorf("%d decisions for %d steps", n, r.Steps)
	}
}

// endsObject: the write took the last finalizer of an object in deletion, so that its version is in no event
// but DELETED, which has another.
func endsObject(q *traces.Request) bool {
	return strings.Contains(q.RequestBody, `"finalizers":null`) || strings.Contains(q.RequestBody, `"deletionTimestamp"`)
}

// TestRunMendedTwin: another program does otherwise, and that shows.
func TestRunMendedTwin(t *testing.T) {
	r, _ := replayCase(t, "orphanfinalizer", "", "--fixed")
	var fresh []string
	for _, target := range r.Divergence.Targets {
		if len(target.New) > 0 {
			fresh = append(fresh, target.String())
		}
	}
	slices.Sort(fresh)
	want := []string{
		"delete configmaps/provider-rig -n dns", "delete configmaps/provider-scope -n dns",
		"patch records.dns.example.com/rig -n dns", "patch records.dns.example.com/scope -n dns",
	}
	if !slices.Equal(fresh, want) || r.Divergence.Missing != 0 {
		t.Errorf("new writes are %q, missing %d; want %q", fresh, r.Divergence.Missing, want)
	}
}

func TestRunHolds(t *testing.T) {
	const rule = `hold: {watch: sites, client: operator, from: "ADDED shop", until: "DELETE sites/blog"}`
	_, trace := replayCase(t, "statusloop", "faults:\n- "+rule)
	var released int64 // seq of the outsider's delete
	for _, q := range rows[traces.Request](t, trace) {
		if q.Process == "" && q.Verb == "delete" && q.Resource == "sites" {
			released = q.Seq
		}
		if q.Process == "statusloop" && isWrite(q.Verb) && released == 0 {
			t.Errorf("the operator wrote (seq %d: %s %s) before it could know of anything", q.Seq, q.Verb, q.Name)
		}
	}
	if released == 0 {
		t.Fatal("the outsider's delete is not in the trace")
	}
	last, events := map[string]int64{}, 0
	for _, w := range rows[traces.WatchEvent](t, trace) {
		if w.Process != "statusloop" || w.Resource != "sites" || w.Type == string(traces.Bookmark) || w.UID == "" {
			continue
		}
		events++
		// The delete's own row may come after the first event that its commit released.
		if w.Seq < released-5 {
			t.Errorf("event %s %s (seq %d) was not held until the delete (seq %d)", w.Type, w.Name, w.Seq, released)
		}
		if w.ResourceVersion <= last[w.Stream] {
			t.Errorf("events of a stream were reordered: %d after %d", w.ResourceVersion, last[w.Stream])
		}
		last[w.Stream] = w.ResourceVersion
	}
	if events == 0 {
		t.Error("nothing was delivered after the hold")
	}
	if !slices.ContainsFunc(rows[traces.Decision](t, trace), func(d *traces.Decision) bool { return d.Rule == rule }) {
		t.Error("no decision names the rule")
	}
}

func TestRunAnswersAndDelays(t *testing.T) {
	r, trace := replayCase(t, "statusloop", `
faults:
- latency: {request: "PATCH */status", between: [150ms, 150ms]}
- latency: {watch: sites, between: [100ms, 100ms]}
- answer: {request: "CREATE configmaps", nth: 1, code: lost, committed: true}
- answer: {request: "UPDATE configmaps", nth: 1, code: 429}
- answer: {request: "PATCH sites/*/status #2", code: 500}
- hold: {watch: pods}
`)
	var lost, throttled, failed *traces.Request
	retried := false
	for _, q := range rows[traces.Request](t, trace) {
		if q.Process != "statusloop" {
			continue
		}
		took := time.Duration(q.TS - q.Start)
		if q.Verb == "patch" && q.Subresource == "status" && q.Code != 0 && took < 150*time.Millisecond {
			t.Errorf("a patch of a status took %s", took)
		}
		switch {
		case q.Verb == "create" && q.Resource == "configmaps" && lost == nil:
			lost = q
		case q.Verb == "create" && q.Name == nameOf(lost) && succeeded(q):
			t.Error("the call whose answer was lost was not committed: the same create succeeded later")
		case q.Code == 429:
			throttled = q
		case throttled != nil && q.Attempt == 2 && q.Name == throttled.Name:
			retried = true
			if wait := time.Duration(q.Start - throttled.TS); wait < 900*time.Millisecond {
				t.Errorf("repeated after %s, though told to wait for a second", wait)
			}
		case q.Code == 500:
			failed = q
		}
	}
	if lost == nil || lost.Code != 0 {
		t.Fatalf("the first create is answered: %+v", lost)
	}
	made := slices.ContainsFunc(rows[traces.WatchEvent](t, trace), func(w *traces.WatchEvent) bool {
		return w.Resource == "configmaps" && w.Name == lost.Name && w.Type == string(traces.Added)
	})
	if !made {
		t.Error("the call whose answer was lost was not committed")
	}
	if throttled == nil || throttled.Reason != "TooManyRequests" || !retried {
		t.Errorf("429: %v, repeated %v", throttled != nil, retried)
	}
	if failed == nil || failed.Reason != "InternalError" || failed.Verb != "patch" {
		t.Errorf("500: %+v", failed)
	}
	delayed(t, trace)
	if want := []string{`watch pods matched nothing in hold: {watch: pods}`}; !slices.Equal(r.Unmatched, want) {
		t.Errorf("unmatched: %q, want %q", r.Unmatched, want)
	}
}

// TestRunStatesOnTheWallClock: states of the cluster begin and end by the wall's clock too.
func TestRunStatesOnTheWallClock(t *testing.T) {
	r, trace := replayCase(t, "statusloop", `
faults:
- token: {client: operator, at: 600ms, for: 400ms}
- storage: {commit: 120ms}
- token: {client: operator, at: 1h}
`)
	var first int64
	unauthorized, after := 0, 0
	for _, q := range rows[traces.Request](t, trace) {
		if q.Process != "statusloop" {
			continue
		}
		if first == 0 || q.Start < first {
			first = q.Start
		}
		switch since := time.Duration(q.Start - first); {
		case q.Code == 401:
			unauthorized++
			if since < 500*time.Millisecond {
				t.Errorf("401 after %s", since)
			}
		case unauthorized > 0 && succeeded(q):
			after++
		}
		if took := time.Duration(q.TS - q.Start); isWrite(q.Verb) && succeeded(q) && took < 120*time.Millisecond {
			t.Errorf("a write took %s", took)
		}
	}
	if unauthorized == 0 || after == 0 {
		t.Errorf("%d calls were refused, %d taken later", unauthorized, after)
	}
	if len(r.Unmatched) != 1 || !strings.HasPrefix(r.Unmatched[0], "at 1h0m0s did not come") || r.Faults[0].Struck != unauthorized {
		t.Errorf("unmatched %q, faults %+v", r.Unmatched, r.Faults)
	}
}

// nameOf is the name of the object that the call was about.
func nameOf(q *traces.Request) string {
	if q == nil {
		return ""
	}
	return q.Name
}

// delayed: the operator is told of each change of a Site 100 ms after the whole cluster's rows show it.
func delayed(t *testing.T, trace *traces.Trace) {
	t.Helper()
	type key struct {
		uid string
		rv  int64
	}
	shown := map[key]int64{}
	n := 0
	for _, w := range rows[traces.WatchEvent](t, trace) {
		k := key{w.UID, w.ResourceVersion}
		switch {
		case w.Resource != "sites" || w.UID == "":
		case w.Process == captureProcess:
			shown[k] = w.TS
		case shown[k] != 0:
			n++
			// The capture's own row may lag a little.
			if d := time.Duration(w.TS - shown[k]); d < 50*time.Millisecond {
				t.Errorf("version %d came %s later", w.ResourceVersion, d)
			}
		}
	}
	if n == 0 {
		t.Error("no event to compare")
	}
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	trace := openTrace(t, filepath.Join("..", "traces", "cases", "statusloop.optrace"))
	for _, c := range []struct {
		name string
		o    Options
		code int
		want string
	}{
		{"no such command", Options{Operators: []Operator{{Command: []string{"./gone"}}}}, cli.ExitUsage, `operator command "./gone": no such file`},
		{"no operator", Options{}, cli.ExitUsage, `no operator to run`},
		{"no command", Options{Operators: []Operator{{}}}, cli.ExitUsage, `empty; want the operator's program`},
		{"a folder with something in it", Options{Operators: []Operator{{Command: []string{os.Args[0]}}}, Out: dir}, cli.ExitUsage, "is not empty"},
		{"nobody", Options{Operators: []Operator{{Command: []string{os.Args[0]}, Identity: Identity{Process: "nobody"}}}}, cli.ExitUsage, "no call or write in it is the operator's"},
		{"ends at once", Options{Operators: []Operator{{Command: []string{os.Args[0], "-test.run", "^$"}}}}, cli.ExitCannotRun, "the operator ended before its first call to the API server: exit code 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Trace, c.o.Clock = trace, ClockWall
			if c.o.Out == "" {
				c.o.Out = filepath.Join(t.TempDir(), "run.optrace")
			}
			_, err := Run(context.Background(), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
			if got := cli.ExitCode(err); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
		})
	}
}

// TestRunEnds: a run that is interrupted, and one with a limit, end in order.
func TestRunEnds(t *testing.T) {
	trace := openTrace(t, filepath.Join("..", "traces", "cases", "statusloop.optrace"))
	o := Options{Trace: trace, Operators: []Operator{{Command: []string{zooOperator(t, "statusloop")}}}, Out: filepath.Join(t.TempDir(), "run.optrace"), Limit: 500 * time.Millisecond, Clock: ClockWall}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.NotReached == 0 || r.Took > 5*time.Second || !r.Operators[0].Exit.Stopped {
		t.Errorf("took %s, %d steps not reached, exit %s", r.Took, r.NotReached, r.Operators[0].Exit)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o.Out = filepath.Join(t.TempDir(), "run.optrace")
	if _, err := Run(ctx, o); cli.ExitCode(err) != cli.ExitCannotRun {
		t.Errorf("an interrupted run: %v", err)
	}
}

// BenchmarkReplay: what a replay costs beyond the operator's own time.
func BenchmarkReplay(b *testing.B) {
	var overhead, cpu, operator, calls float64
	for b.Loop() {
		r, _ := replayCase(b, "statusloop", "")
		overhead += (r.Wall - r.Took).Seconds()
		cpu += r.CPU.Seconds()
		operator += r.OperatorCPU.Seconds()
		calls += float64(r.Calls)
	}
	n := float64(b.N)
	b.ReportMetric(overhead/n, "s-beyond-the-span")
	b.ReportMetric(cpu/n, "cpu-s/run")
	b.ReportMetric(operator/n, "operator-cpu-s/run")
	b.ReportMetric(calls/n, "calls/run")
}

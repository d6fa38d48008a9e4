package recorder_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/examples/operators/scenario"
	"github.com/opreplay/opreplay/internal/livecluster"
	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

const zooFolder = "../examples/operators/"

// zooChosen are the operators that a plain test looks at, which write in all the ways that the zoo does. All of it,
// with RECORDER_ZOO=all, takes some minutes (make zoo-lines); it may name some, too.
func zooChosen(t testing.TB) []scenario.Scenario {
	t.Helper()
	names := "statusrace,staleclaim,fatalconflict"
	if chosen := os.Getenv("RECORDER_ZOO"); chosen == "all" {
		return must[[]scenario.Scenario](t)(scenario.All())
	} else if chosen != "" {
		names = chosen
	}
	var some []scenario.Scenario
	for name := range strings.SplitSeq(names, ",") {
		some = append(some, must[scenario.Scenario](t)(scenario.For(name)))
	}
	return some
}

// strippedZoo compiles all operators of the zoo without symbols or debug information.
func strippedZoo(t testing.TB, all []scenario.Scenario) (folder string) {
	t.Helper()
	folder = t.TempDir()
	args := []string{"build", "-ldflags=-s -w", "-o", folder + "/"}
	for _, s := range all {
		args = append(args, zooFolder+s.Name)
	}
	build := exec.Command("go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	return folder
}

// writingCalls are what of a source line makes a write of each verb.
var writingCalls = map[string][]string{
	"create": {".Create(", ".CreateOrUpdate("},
	"update": {".Update(", ".CreateOrUpdate("},
	"patch":  {".Patch(", ".Apply("},
	"delete": {".Delete("},
}

// wantCall wants the line to be one that makes such a write.
func wantCall(t *testing.T, q *traces.Request, source []string, line int32) {
	t.Helper()
	text := ""
	if line > 0 && int(line) <= len(source) {
		text = source[line-1]
	}
	for _, call := range writingCalls[q.Verb] {
		if strings.Contains(text, call) && (q.Subresource == "status") == strings.Contains(text, ".Status()") {
			return
		}
	}
	t.Errorf("%s %s/%s of %s came from line %d: %s", q.Verb, q.Resource, q.Subresource, q.Name, line, strings.TrimSpace(text))
}

// Each operator of the zoo, stripped, at its user's session: each write is known with the line that made it, and with
// the pass that it belongs to, whose key is what woke it.
func TestRunNamesTheLinesOfTheZoo(t *testing.T) {
	needEBPF(t)
	all := zooChosen(t)
	folder := strippedZoo(t, all)
	cluster := must[*livecluster.Cluster](t)(livecluster.Up(t.Context(), livecluster.Options{}))
	t.Cleanup(cluster.Stop)
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			if err := s.Install(t.Context(), cluster.Config()); err != nil {
				t.Fatal(err)
			}
			r := record(t, func(ctx context.Context, o recorder.Options) (*recorder.Result, error) {
				return recorder.Run(ctx, recorder.RunOptions{Options: o, Command: []string{filepath.Join(folder, s.Name)}, NoCapture: true})
			}, recorder.Options{Config: cluster.Config(), EBPF: recorder.EBPFOn})
			await(r, "its workers", func(l *traces.Log) bool { return strings.Contains(l.Message, "Starting workers") })
			if err := s.Play(t.Context(), cluster.Config()); err != nil {
				t.Fatal(err)
			}
			trace := r.end()
			x := indexOf(t, trace)
			source := strings.Split(string(must[[]byte](t)(os.ReadFile(zooFolder+s.Name+"/main.go"))), "\n")
			writes := 0
			for _, q := range rows[traces.Request](t, trace) {
				if !write(q.Verb) || q.Resource == "leases" || q.Resource == "events" { // client-go's, on goroutines of its own
					continue
				}
				writes++
				_, line := lineIn(x.stacks[q.StackID], s.Name+"/main.go")
				wantCall(t, q, source, line)
				if s.Name == "throttled" && q.Resource == "configmaps" { // on goroutines of its own, which nothing says the pass of
					continue
				}
				// A pass that fails may have given up a call that goes on.
				if p := x.reconciles[q.ReconcileID]; p == nil || p.Process != s.Name || q.Start < p.Start || p.Outcome == "success" && q.TS > p.TS {
					t.Errorf("%s %s belongs to %+v", q.Verb, q.Resource, p)
				}
			}
			passes, woken := rows[traces.Reconcile](t, trace), 0
			for _, p := range passes {
				if p.Trigger != 0 {
					woken++
				}
			}
			t.Logf("%d writes; %d passes, of which %d go back to an event", writes, len(passes), woken)
			if writes == 0 || woken == 0 {
				t.Errorf("%d writes, %d passes that go back to an event", writes, woken)
			}
		})
	}
}

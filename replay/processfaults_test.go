//go:build linux && amd64

package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/traces"
)

// play plays a recording twice in virtual time, and sees to it that both runs are the same byte for byte.
func play(t *testing.T, o Options, plan string) (*Result, *traces.Trace) {
	t.Helper()
	needVirtual(t)
	var err error
	if o.Plan, err = fault.Parse("plan", []byte(plan)); err != nil {
		t.Fatal(err)
	}
	o.Out = filepath.Join(t.TempDir(), "run.optrace")
	k, err := Check(context.Background(), o, CheckOptions{Runs: 2})
	if err != nil {
		t.Fatal(err)
	}
	if k.Identical != 2 || !k.First.Deterministic {
		t.Errorf("two runs differ: %+v; reasons %q", k.Difference, k.First.Reasons)
	}
	return k.First, openTrace(t, o.Out)
}

// playCase plays a bundled case with its operator.
func playCase(t *testing.T, name, plan string) (*Result, *traces.Trace) {
	t.Helper()
	return play(t, Options{
		Trace:     openTrace(t, filepath.Join("..", "traces", "cases", name+".optrace")),
		Operators: []Operator{{Command: []string{zooOperator(t, name)}}},
		Settle:    3 * time.Second, // client-go waits a while before it lists anew
	}, plan)
}

// TestLiveAfterAPanic: in a live run a process that ends when nothing else is due until the run is over comes back all the
// same, after the kubelet's back-off.
func TestLiveAfterAPanic(t *testing.T) {
	needVirtual(t)
	r, trace := play(t, Options{
		Trace:     openTrace(t, bundled("tombstone")),
		Operators: []Operator{{Command: []string{zooOperator(t, "tombstone")}}}, Live: true, Settle: time.Minute,
	}, `faults: [{cut: {watch: routes, client: operator, from: "DELETED backup", resume: gone}}]`)
	if len(r.Ends) != 1 || r.Ends[0].Code != 2 || r.Operators[0].ExitEarly {
		t.Fatalf("ends %+v, at the end %+v", r.Ends, r.Operators[0].Exit)
	}
	back := decision(t, trace, "tombstone is started again")
	if after := time.Unix(0, back.TS).Sub(r.Ends[0].Time); after != firstRevival {
		t.Errorf("it came back after %s, want %s", after, firstRevival)
	}
}

// decision finds the first decision about SUBJECT.
func decision(t *testing.T, trace *traces.Trace, subject string) *traces.Decision {
	t.Helper()
	all := rows[traces.Decision](t, trace)
	i := slices.IndexFunc(all, func(d *traces.Decision) bool { return d.Subject == subject })
	if i < 0 {
		t.Fatalf("no decision %q", subject)
	}
	return all[i]
}

// calls are a process's, in the order in which they were made.
func calls(t *testing.T, trace *traces.Trace, process string) (all []*traces.Request) {
	t.Helper()
	for _, q := range rows[traces.Request](t, trace) {
		if q.Process == process {
			all = append(all, q)
		}
	}
	slices.SortStableFunc(all, func(a, b *traces.Request) int { return int(a.Start - b.Start) })
	return all
}

// TestPlanCrash: killed between its second create and the answer, away for two seconds, and then it finishes.
func TestPlanCrash(t *testing.T) {
	const rule = `crash: {process: operator, after: "CREATE configmaps #2", restartAfter: 2s}`
	r, trace := playCase(t, "statusloop", "faults:\n- "+rule)
	if len(r.Unmatched) > 0 || r.Operators[0].ExitEarly {
		t.Errorf("unmatched %q, ended early %v", r.Unmatched, r.Operators[0].ExitEarly)
	}
	kill, start := decision(t, trace, "kill statusloop"), decision(t, trace, "start statusloop")
	all := rows[traces.Decision](t, trace)
	again := all[slices.IndexFunc(all, func(d *traces.Decision) bool { return d.Subject == "start statusloop" && d.TS > kill.TS })]
	if kill.Rule != rule || again.Rule != rule || start.Rule != "" || again.TS-kill.TS != int64(2*time.Second) {
		t.Errorf("killed at %d by %q, started at %d by %q", kill.TS, kill.Rule, again.TS, again.Rule)
	}
	var made *traces.Request
	after := 0
	for _, q := range calls(t, trace, "statusloop") {
		switch {
		case q.Start > kill.TS && q.Start < again.TS:
			t.Errorf("a dead process calls: %s %s", q.Verb, q.Resource)
		case q.Start >= again.TS:
			after++
		case q.Verb == "create" && q.Resource == "configmaps":
			made = q
		}
	}
	if made == nil || made.Code != 0 || made.TS != kill.TS {
		t.Fatalf("the create was answered: %+v", made)
	}
	there := slices.ContainsFunc(rows[traces.WatchEvent](t, trace), func(w *traces.WatchEvent) bool {
		return w.Process == captureProcess && w.Type == string(traces.Added) && w.Name == made.Name
	})
	if !there || after == 0 {
		t.Errorf("its write was committed: %v; %d calls after the restart", there, after)
	}
}

// TestPlanRestartInThePast: the operator believes in a site that is gone, and publishes it again. Without the
// view it does not.
func TestPlanRestartInThePast(t *testing.T) {
	for _, c := range []struct {
		view   string
		fooled bool
	}{{"before DELETE sites/blog", true}, {"current", false}} {
		r, trace := playCase(t, "statusloop", fmt.Sprintf("faults:\n- restart: {process: operator, at: \"DELETE sites/blog\", restartAfter: 0s, view: %q}", c.view))
		deleted := int64(0)
		for _, q := range rows[traces.Request](t, trace) {
			if q.Process == "" && q.Verb == "delete" && q.Resource == "sites" {
				deleted = q.TS
			}
		}
		fooled := slices.ContainsFunc(calls(t, trace, "statusloop"), func(q *traces.Request) bool {
			return q.Start > deleted && isWrite(q.Verb) && strings.HasPrefix(q.Name, "blog")
		})
		if deleted == 0 || fooled != c.fooled {
			t.Errorf("view %s: the site was deleted at %d; the operator acts on it %v", c.view, deleted, fooled)
		}
		if noted := slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "the most recent state") }); noted != c.fooled {
			t.Errorf("notes %q", r.Notes)
		}
	}
}

// TestPlanCut: when its versions are gone the operator lists anew, else it resumes.
func TestPlanCut(t *testing.T) {
	for _, resume := range []string{"gone", "ok"} {
		r, trace := playCase(t, "statusloop", "faults:\n- cut: {watch: sites, client: operator, at: 3s, resume: "+resume+"}")
		cut := decision(t, trace, "watches end").TS
		lists := 0
		for _, w := range rows[traces.WatchEvent](t, trace) {
			if w.Process == "statusloop" && w.Name == "shop" && w.TS > cut && w.Type == string(traces.Added) {
				lists++ // it has been there since long before
			}
		}
		if len(r.Unmatched) > 0 || (lists > 0) != (resume == "gone") {
			t.Errorf("resume: %s: %d sites were listed anew; unmatched %q", resume, lists, r.Unmatched)
		}
		if d := r.Divergence; d.Missing > 0 || d.New > 0 {
			t.Errorf("resume: %s: %d writes not made, %d new ones", resume, d.Missing, d.New)
		}
	}
}

// TestPlanMerge: the operator never sees what becomes of a site after its second change, and learns of its end by
// its absence from the next list.
func TestPlanMerge(t *testing.T) {
	seen := func(plan string) (blog []string, relisted bool) {
		r, trace := playCase(t, "statusloop", plan)
		if len(r.Unmatched) > 0 {
			t.Errorf("unmatched %q", r.Unmatched)
		}
		shop := 0
		for _, w := range rows[traces.WatchEvent](t, trace) {
			if w.Process != "statusloop" || w.Resource != "sites" {
				continue
			}
			if w.Name == "blog" && w.Type != string(traces.Sync) {
				blog = append(blog, w.Type)
			}
			if w.Name == "shop" && w.Type == string(traces.Added) {
				shop++
			}
		}
		return blog, shop > 1
	}
	all, relisted := seen("")
	if relisted || !slices.Contains(all, "DELETED") || len(all) < 5 {
		t.Fatalf("without a plan it sees %q, and lists anew: %v", all, relisted)
	}
	got, relisted := seen(`faults: [{merge: {watch: sites, client: operator, from: "MODIFIED blog #2", to: "DELETED blog"}}]`)
	if want := all[:2]; !slices.Equal(got, want) || !relisted {
		t.Errorf("it sees %q, want %q; lists anew: %v", got, want, relisted)
	}
}

// TestPlanPauseAndSkip: both show in the times of the trace, to the nanosecond.
func TestPlanPauseAndSkip(t *testing.T) {
	r, trace := playCase(t, "statusloop", `
faults:
- pause: {process: operator, at: 2s, for: 2500ms}
- skip: {clock: 1h, at: 5s}
`)
	first := calls(t, trace, "statusloop")[0].Start
	paused, resumed := first+int64(2*time.Second), first+int64(4500*time.Millisecond)
	before, between := 0, 0
	for _, q := range calls(t, trace, "statusloop") {
		switch at := q.Start; {
		case at > paused && at < resumed:
			t.Errorf("it calls %s after the first call, while it stands still", time.Duration(at-first))
		case at > first+int64(5*time.Second) && at < first+int64(time.Hour):
			t.Errorf("it calls %s after the first call, in the hour that is skipped", time.Duration(at-first))
		case at < paused:
			before++
		case at < first+int64(5*time.Second):
			between++
		}
	}
	if before == 0 || between == 0 || r.Applied != r.Steps || r.Took < time.Hour || r.Took > time.Hour+time.Minute {
		t.Errorf("%d calls before, %d between; %d of %d steps; took %s", before, between, r.Applied, r.Steps, r.Took)
	}
	if at := decision(t, trace, "pause statusloop").TS; at != paused {
		t.Errorf("paused %s after the first call", time.Duration(at-first))
	}
}

// TestPlanFindsStaleChild: an operator that deletes by name what belongs to an object of the past. The fault shows
// with a restart into the past, as an API server may answer a list with resourceVersion=0, and neither with a
// restart into the present nor without one, nor in the mended twin.
func TestPlanFindsStaleChild(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "stalechild")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./testdata/stalechild").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	trace := databaseTwice(t)
	restart := "faults:\n- restart: {process: operator, at: \"CREATE secrets/db-data #2\", view: %q, reads: cached, for: 10s}"
	past := fmt.Sprintf(restart, "configmaps/db after DELETE configmaps/db")
	for _, c := range []struct {
		name, plan string
		args       []string
		lost       bool
	}{
		{"restart into the past", past, nil, true},
		{"mended", past, []string{"--fixed"}, false},
		{"restart", "faults:\n- restart: {process: operator, at: \"CREATE secrets/db-data #2\"}", nil, false},
		{"no plan", "", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, run := play(t, Options{
				Trace: trace, Operators: []Operator{{Command: append([]string{bin}, c.args...)}},
				Env: []string{"KUBE_FEATURE_WatchListClient=false"}, // as up to client-go 0.34
			}, c.plan)
			if len(r.Unmatched) > 0 || slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "the most recent state") }) {
				t.Errorf("unmatched %q, notes %q", r.Unmatched, r.Notes)
			}
			creates, lost := 0, false
			for _, q := range calls(t, run, "op") {
				if q.Resource != "secrets" || q.Name != "db-data" {
					continue
				}
				if q.Verb == "create" {
					creates++
				}
				lost = lost || creates == 2 && q.Verb == "delete" && q.Code == 200
			}
			if creates < 2 || lost != c.lost {
				t.Errorf("the volume was made %d times; the second one was deleted: %v", creates, lost)
			}
		})
	}
}

// databaseTwice is a recording in which a database is made, deleted, and made again.
func databaseTwice(t *testing.T) *traces.Trace {
	t.Helper()
	s := newScene(t, byProcess)
	event := func(typ traces.EventType, uid string, rv int, deleting bool) {
		meta := map[string]any{
			"name": "db", "namespace": "default", "uid": uid, "resourceVersion": fmt.Sprint(rv), "labels": map[string]any{"app": "database"},
			"creationTimestamp": s.at.Format(time.RFC3339), "finalizers": []string{"example.com/volume"},
		}
		if deleting {
			meta["deletionTimestamp"] = s.at.Format(time.RFC3339)
		}
		text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
		if err != nil {
			t.Fatal(err)
		}
		e, err := apicall.Event(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, typ, text)
		if err != nil {
			t.Fatal(err)
		}
		e.TS, e.Process, e.Stream = s.tick(), "oprec", "oprec/configmaps"
		s.append(e)
	}
	wait := func(d time.Duration) { s.at = s.at.Add(d) }
	s.call("op", "list", "configmaps", 200, "", nil)
	wait(time.Second)
	event(traces.Added, "00000000-0000-0000-0000-00000000000a", 20, false)
	wait(3 * time.Second)
	event(traces.Modified, "00000000-0000-0000-0000-00000000000a", 22, true)
	wait(time.Second)
	free := thing{name: "db", uid: "00000000-0000-0000-0000-00000000000a", rv: 24}
	s.call("op", "update", "configmaps", 200, `{"metadata":{"finalizers":null}}`, &free)
	event(traces.Deleted, "00000000-0000-0000-0000-00000000000a", 24, true)
	wait(3 * time.Second)
	event(traces.Added, "00000000-0000-0000-0000-00000000000b", 30, false)
	wait(30 * time.Second)
	s.call("op", "get", "configmaps", 404, "", nil)
	return s.open()
}

func TestPlanIsRefused(t *testing.T) {
	trace := openTrace(t, filepath.Join("..", "traces", "cases", "statusloop.optrace"))
	for _, c := range []struct {
		plan, want string
		clock      Clock
	}{
		{"skip: {clock: 1h, at: 1s}", "plan: skip: {clock: 1h0m0s, at: 1s}: needs --clock virtual", ClockWall},
		{"crash: {process: web, at: 1s}", "no process of this run is called web; there is statusloop", ClockVirtual},
	} {
		p, err := fault.Parse("plan", []byte("faults:\n- "+c.plan))
		if err != nil {
			t.Fatal(err)
		}
		if c.clock == ClockVirtual && virtual.Probe() != nil {
			continue
		}
		_, err = Run(context.Background(), Options{
			Trace: trace, Operators: []Operator{{Command: []string{zooOperator(t, "statusloop")}}}, Plan: p, Clock: c.clock,
			Out: filepath.Join(t.TempDir(), "run.optrace"),
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%s: %v, want %q", c.plan, err, c.want)
		}
	}
	// On a machine that has no virtual clock it is not the user's mistake.
	p, _ := fault.Parse("plan", []byte("faults:\n- pause: {process: operator, at: 1s, for: 1s}"))
	err := checkPlan(&Options{Plan: p, Clock: ClockWall, fellBack: errors.New("no seccomp here")}, nil)
	if cli.ExitCode(err) != cli.ExitCannotRun || !strings.Contains(err.Error(), "no seccomp here") {
		t.Errorf("without a virtual clock: %v", err)
	}
}

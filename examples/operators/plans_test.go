package operators_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/opreplay/opreplay/examples/operators"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/traces"
)

// right says by the objects that there are in the end whether an operator has done its work.
var right = map[string]func(end) error{
	"halfcreate":    brokersAreReachable,
	"staleclaim":    workspacesHaveTheirDisks,
	"doublecreate":  buildsHaveOneJob,
	"earlyrelease":  machinesHaveTheirFleets,
	"fatalconflict": rolloutsAreRolledOut,
}

// Each faulty operator ends in a wrong state under its plan, and only there; its mended twin never does.
func TestPlansShowTheFaults(t *testing.T) {
	if err := virtual.Probe(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	for _, o := range operators.Zoo() {
		if o.Plan == nil {
			continue
		}
		t.Run(o.Name, func(t *testing.T) {
			plan, err := fault.Parse(o.Name+"/plan.yaml", o.Plan)
			if err != nil {
				t.Fatal(err)
			}
			check := right[o.Name]
			if check == nil {
				t.Fatal("nothing says when it has done its work")
			}
			for _, twin := range []struct {
				name string
				args []string
				sane bool // under the plan too
			}{{"faulty", nil, false}, {"fixed", []string{"--fixed"}, true}} {
				session := open(t, o, twin.args...)
				if err := check(play(t, session, o, nil)); err != nil {
					t.Errorf("%s, plain: %v", twin.name, err)
				}
				err := check(play(t, session, o, plan))
				if (err == nil) != twin.sane {
					t.Errorf("%s, under the plan: %v", twin.name, err)
				}
				session.Close()
			}
		})
	}
}

// open makes an operator's bundled trace ready to be played against it.
func open(t *testing.T, o operators.Operator, args ...string) *replay.Session {
	t.Helper()
	trace, err := traces.Open(filepath.Join("..", "..", "traces", "cases", o.Name+".optrace"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trace.Close() })
	session, err := replay.Open(t.Context(), replay.Options{
		Trace: trace, Clock: replay.ClockVirtual, Patience: -1,
		Settle:    20 * time.Second, // for what comes back, and for retries
		Operators: []replay.Operator{{Command: append([]string{filepath.Join(zoo(t), o.Name)}, args...)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// play plays it and returns the objects that there are in the end.
func play(t *testing.T, session *replay.Session, o operators.Operator, plan *fault.Plan) end {
	t.Helper()
	rows := &replay.Rows{}
	result, err := session.Play(t.Context(), replay.Variant{Plan: plan, Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	if !result.Deterministic || len(result.Unmatched) > 0 {
		t.Errorf("deterministic %v (%q), unmatched %q", result.Deterministic, result.Reasons, result.Unmatched)
	}
	return endOf(t, rows.All)
}

// zoo is the folder of the operators' binaries, which the first who asks builds.
func zoo(t *testing.T) string {
	t.Helper()
	dir, err := buildZoo()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var buildZoo = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "zoo-")
	if err != nil {
		return "", err
	}
	binaries = dir
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, o := range operators.Zoo() {
		if o.Plan != nil {
			args = append(args, "./"+o.Name)
		}
	}
	if out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the zoo: %w\n%s", err, out)
	}
	return dir, nil
})

// binaries is what buildZoo leaves behind.
var binaries string

func TestMain(m *testing.M) {
	code := m.Run()
	if binaries != "" {
		_ = os.RemoveAll(binaries)
	}
	os.Exit(code)
}

// end is the cluster at the end of a run: the objects by resource.
type end map[string][]unstructured.Unstructured

// endOf has the objects that were made in the run, as the whole cluster's watch shows them.
func endOf(t *testing.T, rows []traces.Record) end {
	t.Helper()
	type key struct{ resource, namespace, name string }
	last := map[key]*traces.WatchEvent{}
	for _, row := range rows {
		if w, ok := row.(*traces.WatchEvent); ok && w.Process == "opsim" && w.Type != string(traces.Sync) {
			last[key{w.Resource, w.Namespace, w.Name}] = w
		}
	}
	all := end{}
	for _, w := range last {
		if w.Type == string(traces.Deleted) {
			continue
		}
		var object unstructured.Unstructured
		if err := json.Unmarshal([]byte(w.Object), &object.Object); err != nil {
			t.Fatalf("seq %d: %v", w.Seq, err)
		}
		all[w.Resource] = append(all[w.Resource], object)
	}
	return all
}

// find returns the object of that name.
func (e end) find(resource, name string) (unstructured.Unstructured, error) {
	for _, o := range e[resource] {
		if o.GetName() == name {
			return o, nil
		}
	}
	return unstructured.Unstructured{}, fmt.Errorf("there is no %s/%s", resource, name)
}

// all returns the objects of a resource, of which there must be that many.
func (e end) all(resource string, n int) ([]unstructured.Unstructured, error) {
	if len(e[resource]) != n {
		return nil, fmt.Errorf("%d %s, want %d", len(e[resource]), resource, n)
	}
	return e[resource], nil
}

// field is the value at a path such as "status.phase", nil if there is none.
func field(o unstructured.Unstructured, path string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...)
	return value
}

// brokersAreReachable: where a status says that a broker is reachable, it is.
func brokersAreReachable(e end) error {
	brokers, err := e.all("brokers", 2)
	if err != nil {
		return err
	}
	for _, b := range brokers {
		if field(b, "status.endpoint") == nil {
			return fmt.Errorf("%s says of no endpoint", b.GetName())
		}
		if _, err := e.find("services", b.GetName()); err != nil {
			return err
		}
		if _, err := e.find("configmaps", b.GetName()+"-settings"); err != nil {
			return err
		}
	}
	return nil
}

// workspacesHaveTheirDisks: the workspace that there is has the disk that was made for it.
func workspacesHaveTheirDisks(e end) error {
	workspaces, err := e.all("workspaces", 1)
	if err != nil {
		return err
	}
	disk, err := e.find("configmaps", "disk-"+workspaces[0].GetName())
	if err != nil {
		return err
	}
	if owner := disk.GetAnnotations()["dev.example.com/owner-uid"]; owner != string(workspaces[0].GetUID()) {
		return fmt.Errorf("the disk is that of %s, the workspace is %s", owner, workspaces[0].GetUID())
	}
	return nil
}

// buildsHaveOneJob: each image is built once.
func buildsHaveOneJob(e end) error {
	builds, err := e.all("builds", 2)
	if err != nil {
		return err
	}
	jobs := map[string]int{}
	for _, j := range e["jobs"] {
		jobs[j.GetLabels()["ci.example.com/build"]]++
	}
	for _, b := range builds {
		if n := jobs[b.GetName()]; n != 1 {
			return fmt.Errorf("%s has %d jobs", b.GetName(), n)
		}
	}
	return nil
}

// machinesHaveTheirFleets: a fleet has all of its machines, and nobody pays for machines without a fleet.
func machinesHaveTheirFleets(e end) error {
	fleets, err := e.all("fleets", 1)
	if err != nil {
		return err
	}
	machines, err := e.all("configmaps", 2)
	if err != nil {
		return err
	}
	for _, m := range machines {
		if fleet := m.GetLabels()["fleet.example.com/fleet"]; fleet != fleets[0].GetName() {
			return fmt.Errorf("%s is rented for %s", m.GetName(), fleet)
		}
	}
	return nil
}

// rolloutsAreRolledOut: the Deployment is as the Rollout wants it.
func rolloutsAreRolledOut(e end) error {
	rollout, err := e.find("rollouts", "web")
	if err != nil {
		return err
	}
	deployment, err := e.find("deployments", "web")
	if err != nil {
		return err
	}
	if have, want := field(deployment, "spec.replicas"), field(rollout, "spec.replicas"); have != want {
		return fmt.Errorf("%v replicas, want %v; phase %v: %v", have, want, field(rollout, "status.phase"), field(rollout, "status.message"))
	}
	return nil
}

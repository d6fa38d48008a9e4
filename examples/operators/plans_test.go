package operators_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/opreplay/opreplay/analysis"
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
	"droppedstatus": accountsHaveTheirNumbers,
	"missedsize":    ringsHaveTheirSize,
	"tombstone":     tablesHaveTheirRoutes,
	"twoleaders":    ordersHaveOneInvoice,
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
				plain, result := play(t, session, o, nil)
				if err := check(endOf(t, plain)); err != nil {
					t.Errorf("%s, plain: %v", twin.name, err)
				}
				mustBeQuiet(t, plain)
				if d := result.Divergence; twin.args == nil && o.Replicas == 0 && (d.Recorded == 0 || d.Equal != d.Recorded || d.New > 0) {
					t.Errorf("%d of %d recorded writes made again, %d new", d.Equal, d.Recorded, d.New)
				}
				planned, _ := play(t, session, o, plan)
				err := check(endOf(t, planned))
				if (err == nil) != twin.sane {
					t.Errorf("%s, under the plan: %v", twin.name, err)
				}
				t.Logf("%s, under the plan: %v", twin.name, err)
				session.Close()
			}
			mustBeQuiet(t, openTrace(t, bundled(o)))
		})
	}
}

// mustBeQuiet: there is nothing in the trace that the analysis minds.
func mustBeQuiet(t *testing.T, trace *traces.Trace) {
	t.Helper()
	result, err := analysis.Analyze(t.Context(), trace, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range result.Findings {
		t.Errorf("%s: finding %s: %s", trace.Dir(), f.Detector, f.What)
	}
}

// bundled is an operator's recorded trace, of a run that went well.
func bundled(o operators.Operator) string {
	return filepath.Join("..", "..", "traces", "cases", o.Name+".optrace")
}

func openTrace(t *testing.T, dir string) *traces.Trace {
	t.Helper()
	trace, err := traces.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trace.Close() })
	return trace
}

// open makes an operator's bundled trace ready to be played against it.
func open(t *testing.T, o operators.Operator, args ...string) *replay.Session {
	t.Helper()
	session, err := replay.Open(t.Context(), replay.Options{
		Trace: openTrace(t, bundled(o)), Clock: replay.ClockVirtual, Patience: -1,
		Settle:    20 * time.Second, // for what comes back, and for retries
		Operators: []replay.Operator{{Command: append([]string{filepath.Join(zoo(t), o.Name)}, args...)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// play plays it once and returns the run's trace.
func play(t *testing.T, session *replay.Session, o operators.Operator, plan *fault.Plan) (*traces.Trace, *replay.Result) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run.optrace")
	result, err := session.Play(t.Context(), replay.Variant{Plan: plan, Replicas: o.Replicas, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if !result.Deterministic || len(result.Unmatched) > 0 {
		t.Errorf("deterministic %v (%q), unmatched %q", result.Deterministic, result.Reasons, result.Unmatched)
	}
	return openTrace(t, out), result
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
	args := []string{"build", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)} // links in half the time
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
func endOf(t *testing.T, trace *traces.Trace) end {
	t.Helper()
	type key struct{ resource, namespace, name string }
	last := map[key]*traces.WatchEvent{}
	for record, err := range trace.Records(t.Context(), traces.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := record.(*traces.WatchEvent); ok && w.Process == "opsim" && w.Type != string(traces.Sync) {
			last[key{w.Resource, w.Namespace, w.Name}] = w
		}
	}
	all := end{}
	for _, w := range last {
		if w.Type == string(traces.Deleted) {
			continue
		}
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON([]byte(w.Object)); err != nil {
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

// accountsHaveTheirNumbers: each account says under which number the provider has it.
func accountsHaveTheirNumbers(e end) error {
	accounts, err := e.all("accounts", 2)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		entry, err := e.find("configmaps", "provider-"+a.GetName())
		if err != nil {
			return err
		}
		if have, want := field(a, "status.number"), field(entry, "data.number"); have != want {
			return fmt.Errorf("%s has number %v, the provider has %v", a.GetName(), have, want)
		}
	}
	return nil
}

// ringsHaveTheirSize: a ring has as many members as its size says.
func ringsHaveTheirSize(e end) error {
	rings, err := e.all("rings", 1)
	if err != nil {
		return err
	}
	for _, path := range []string{"spec.size", "status.size"} {
		if n := field(rings[0], path); n != int64(3) {
			return fmt.Errorf("%s is %v, want 3", path, n)
		}
	}
	_, err = e.all("configmaps", 3)
	return err
}

// tablesHaveTheirRoutes: the table has the ways of the routes that there are, and no others.
func tablesHaveTheirRoutes(e end) error {
	table, err := e.find("configmaps", "main")
	if err != nil {
		return err
	}
	ways, _, _ := unstructured.NestedStringMap(table.Object, "data")
	for _, r := range e["routes"] {
		if have, want := ways[r.GetName()], field(r, "spec.via"); have != want {
			return fmt.Errorf("%s goes by %q, want %v", r.GetName(), have, want)
		}
	}
	if len(ways) != len(e["routes"]) {
		return fmt.Errorf("the table has %d ways for %d routes", len(ways), len(e["routes"]))
	}
	return nil
}

// ordersHaveOneInvoice: each order is invoiced once.
func ordersHaveOneInvoice(e end) error {
	orders, err := e.all("orders", 2)
	if err != nil {
		return err
	}
	invoices := map[string]int{}
	for _, i := range e["configmaps"] {
		invoices[i.GetLabels()["shop.example.com/order"]]++
	}
	for _, o := range orders {
		if n := invoices[o.GetName()]; n != 1 {
			return fmt.Errorf("%s has %d invoices", o.GetName(), n)
		}
	}
	return nil
}

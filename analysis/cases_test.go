package analysis_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// The bundled traces were recorded from the zoo on a real API server: each finding names the fault that the
// operator's own source confesses, and there is nothing else.
func TestBundledTraces(t *testing.T) {
	for name, want := range map[string]struct {
		findings []string // in the order of rank
		objects  string   // resource of the objects
		total    int64
		field    string
		cause    string
	}{
		"statusloop":      {[]string{"self-loop", "churn"}, "sites", 2, "status.conditions[*].lastTransitionTime", "fresh time"},
		"statusrace":      {[]string{"lost-status", "conflict-storm"}, "databases", 3, "status.conditions[*]", "replaces the whole list status.conditions"},
		"orphanfinalizer": {[]string{"finalizer-hang"}, "records", 2, "metadata.finalizers", "zones.dns.example.com dns/lab"},
		"prunedfield":     {[]string{"normalise", "churn"}, "caches", 1, "spec.eviction", "it is pruned"},
		"tugofwar":        {[]string{"fight", "self-loop"}, "deployments", 1, "spec.replicas", "tugofwar writes 2 (update), and tugofwar (field manager load-scaler) writes 5 (merge patch)"},
		"wronglabel":      {[]string{"observed-generation"}, "grids", 2, "status.observedGeneration", "the status was made from generation 3"},
		"farowner":        {[]string{"owner-reference"}, "configmaps", 2, "metadata.ownerReferences[*]", "takes tenants.tenancy.example.com tenancy/acme for deleted and will delete configmaps default/tenancy-acme"},
	} {
		t.Run(name, func(t *testing.T) {
			trace, err := traces.Open("../traces/cases/" + name + ".optrace")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = trace.Close() }()
			r, err := analysis.Analyze(context.Background(), trace, analysis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range r.Findings {
				got = append(got, f.Detector)
				if f.Process != name || f.Group != "F1" || !strings.Contains(f.Reproduce, "opsim replay") || f.Evidence.Total == 0 {
					t.Errorf("%+v", f)
				}
			}
			if strings.Join(got, " ") != strings.Join(want.findings, " ") {
				t.Fatalf("found %v, want %v", got, want.findings)
			}
			f := r.Findings[0]
			if f.Objects[0].Resource != want.objects || f.Total != want.total || f.Field != want.field || !strings.Contains(f.Cause, want.cause) {
				t.Errorf("%s\n%s\n%v of %d, %s", f.What, f.Cause, f.Objects, f.Total, f.Field)
			}
			severity := analysis.Error
			if name == "prunedfield" { // what is asked for is not stored, and nothing else comes of it
				severity = analysis.Warning
			}
			if f.Severity != severity {
				t.Error("severity", f.Severity)
			}
		})
	}
}

// The runs under the plans of the cases: what and cause name the object, the field and the writer that are at fault.
func TestCausesOfLabelledRuns(t *testing.T) {
	for _, want := range []struct{ trace, detector, object, field, manager, what, cause string }{
		{"halfcreate", "crash-gap", "brokers.mq.example.com mq/orders", "", "halfcreate", "has configmaps mq/orders-settings but not services orders", "went down right after it had created configmaps mq/orders-settings"},
		{"staleclaim", "wrong-incarnation", "configmaps dev/disk-alice", "", "staleclaim", "deleted configmaps dev/disk-alice, which belongs to the workspaces.dev.example.com dev/alice of today", "without the uid as a precondition"},
		{"staleclaim", "stale-read", "workspaces.dev.example.com dev/alice", "", "staleclaim", "made a delete of configmaps dev/disk-alice on it", "had known resourceVersion 225, and was then told of resourceVersion 221"},
		{"doublecreate", "duplicate-create", "jobs.batch ci/shop-tfb5v", "", "doublecreate", "created jobs.batch ci/shop-6nwsf", "had itself written shop-6nwsf into builds.ci.example.com ci/shop"},
		{"earlyrelease", "finalizer-early", "fleets.fleet.example.com fleet/vans", "metadata.finalizers", "earlyrelease", "configmaps fleet/machine-vans-0 and configmaps fleet/machine-vans-1", "configmaps fleet/machine-vans-0 was not in it yet"},
		{"fatalconflict", "observed-generation", "rollouts.deploy.example.com deploy/web", "status.observedGeneration", "fatalconflict", "was told of generation 3", "its update of deployments.apps deploy/web was refused with 409 Conflict"},
		{"missedsize", "missed-state", "configmaps ring/main-member-3", "spec.size", "", "made by machine while spec.size of rings.ring.example.com ring/main was 5", "missedsize never saw spec.size at 5"},
		{"tombstone", "tombstone", "routes.net.example.com net/backup", "", "", "panics on the deletion of routes.net.example.com net/backup", "in main.(*listener).deleted (main.go:84)"},
		{"twoleaders", "two-leaders", "configmaps shop/invoice-pen-kw5rx", "", "twoleaders", "after twoleaders-2 had taken the lease leases.coordination.k8s.io shop/invoices", "both write configmaps"},
		{"tugofwar", "fight", "deployments.apps load/day", "spec.replicas", "tugofwar", "take turns at spec.replicas of deployments.apps load/day", "tugofwar (field manager load-scaler) writes 5 (merge patch)"},
		{"prunedfield", "normalise", "caches.cache.example.com cache/pages", "spec.eviction", "prunedfield", `sends "lru" to spec.eviction of caches.cache.example.com cache/pages`, "it is pruned"},
		{"wronglabel", "observed-generation", "grids.grid.example.com grid/roof", "status.observedGeneration", "wronglabel", "spec.panels changed from 8 to 12", "made from generation 3"},
		{"farowner", "owner-reference", "configmaps default/tenancy-acme", "metadata.ownerReferences[*]", "farowner", "tenants.tenancy.example.com tenancy/acme in another namespace", "will delete configmaps default/tenancy-acme"},
	} {
		t.Run(want.trace+"/"+want.detector, func(t *testing.T) {
			trace, err := traces.Open("../traces/labelled/" + want.trace + "-faulty.optrace")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = trace.Close() }()
			r, err := analysis.Analyze(t.Context(), trace, analysis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(r.Findings, func(f analysis.Finding) bool { return f.Detector == want.detector })
			if i < 0 {
				t.Fatalf("no %s", want.detector)
			}
			f := r.Findings[i]
			if f.Process != want.trace || f.Objects[0].String() != want.object || f.Field != want.field || f.Manager != want.manager {
				t.Errorf("process %s, object %s, field %s, manager %s", f.Process, f.Objects[0], f.Field, f.Manager)
			}
			if !strings.Contains(f.What, want.what) || !strings.Contains(f.Cause, want.cause) {
				t.Errorf("%s\n%s", f.What, f.Cause)
			}
		})
	}
}

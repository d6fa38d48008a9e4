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

// The runs under the plans of the cases, every finding of every pair: what and cause name the object, the field and the
// writer that are at fault.
func TestCausesOfLabelledRuns(t *testing.T) {
	checked := map[string]bool{}
	for _, want := range []struct{ trace, detector, object, field, manager, what, cause string }{
		{"statusloop", "self-loop", "sites.web.example.com web/shop", "status.conditions[*].lastTransitionTime", "statusloop", "each queued by the event of an own write", "each pass writes a fresh time to status.conditions[*].lastTransitionTime though nothing else changed"},
		{"statusloop", "churn", "sites.web.example.com web/shop", "status.conditions[*].lastTransitionTime", "statusloop", "changed only a transition time", "is set to the current time though the condition's status did not change"},
		{"statusrace", "lost-status", "databases.data.example.com data/orders", "status.conditions[*]", "statusrace", "status.conditions[BackupScheduled] of databases.data.example.com data/orders, written by statusrace (update of status), was overwritten", "was made from a copy older than resourceVersion 222, and it replaces the whole list status.conditions"},
		{"statusrace", "conflict-storm", "databases.data.example.com data/billing", "", "statusrace", "is refused 12 of its 24 writes", "the newer version was its own write, so it conflicts with itself"},
		{"orphanfinalizer", "finalizer-hang", "records.dns.example.com dns/rig", "metadata.finalizers", "", "finalizer dns.example.com/provider is still there", "zones.dns.example.com dns/lab, which it names, had gone"},
		{"droppedstatus", "lost-status", "accounts.billing.example.com billing/acme", "status.number", "", "wanted to write to status.number of accounts.billing.example.com billing/acme was refused (409 Conflict) and never written again", "took the conflict for the end of the matter"},
		{"retrystorm", "retry-storm", "mirrors.copy.example.com copy/flags", "", "", `every 250 ms: ConfigMap "flags-source" not found`, "the error is answered by a fixed delay (250 ms)"},
		{"panicloop", "panic-loop", "poolers.pool.example.com pool/old-pool", "", "", "at main.limit (main.go:", "something that may be absent is used without a check"},
		{"missingkind", "missing-kind", "stores.cache.example.com cache/hot", "", "", "uses the kind v1.PodDisruptionBudget", "AddToScheme of the package that has v1.PodDisruptionBudget is not called"},
		{"starvation", "starvation", "exports.jobs.example.com jobs/archive", "", "", "held a worker of starvation", "polls in line (30 calls meanwhile, mostly reads) rather than return with RequeueAfter"},
		{"staleclaim", "conflict-storm", "workspaces.dev.example.com dev/alice", "", "staleclaim", "never gets its write to workspaces.dev.example.com dev/alice accepted", "made from a copy read early"},
		{"tugofwar", "self-loop", "deployments.apps load/day", "spec.replicas", "load-scaler", "the spec changed by itself", "each pass changes spec.replicas again"},
		{"prunedfield", "churn", "caches.cache.example.com cache/pages", "", "prunedfield", "changed nothing", "sends its update on every pass without comparing"},
		{"eventflood", "amplification", "feeds.feed.example.com feed/news", "", "", `Events "SourceMissing" about feeds.feed.example.com feed/news`, "with a text or name that differs each time"},
		{"openbreaker", "circuit-breaker", "links.link.example.com link/mail", "", "", "the circuit breaker of link link/mail in openbreaker has been open", "nothing puts it half-open"},
		{"oldpods", "environment", "pods apps/shop-0", "spec.containers[*].env", "", "older than configmaps apps/shop-settings", "does not roll the pods"},
		{"alwaysready", "probe", "stands.market.example.com market/fruit", "status.conditions[*]", "alwaysready", "said Ready for", "not taken back when it is down"},
		{"narrowschema", "schema", "rooms.hotel.example.com hotel/my-suite", "spec.type", "narrowschema", "is stored with spec.type that its definition does not admit", "has become stricter than what is stored (changed by narrowschema as version 224)"},
		{"lostgauge", "resource-exhaustion", "", "", "", "lostgauge was refused 49 connections by 127.0.0.1:", "nobody listens there"},
		{"nodeadline", "no-deadline", "configmaps forms/tax-file", "", "", "for the answer to its create of configmaps, the longest time for 34.0 s", "neither rest.Config.Timeout nor the context of the call sets a deadline"},
		{"nodeadline", "starvation", "form forms/tax", "", "", "form forms/tax held a worker of nodeadline for 34.0 s", "waits for the answer to its create, which took 34.0 s"},
		{"latehook", "webhook-bypass", "configmaps note/note-0", "data.signed", "latehook", "created without data.signed, which 5 others that latehook created in the same way have", "for its failurePolicy is Ignore"},
		{"busywait", "hot-stack", "", "", "", "of a processor at main.waitFor (main.go:60), for 14.0 s", "a loop without a pause"},
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
		checked[want.trace+"-faulty.optrace/"+want.detector] = true
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
			object := "" // what wears out a machine is about none
			if len(f.Objects) > 0 {
				object = f.Objects[0].String()
			}
			if f.Process != want.trace || object != want.object || f.Field != want.field || f.Manager != want.manager {
				t.Errorf("process %s, object %s, field %s, manager %s", f.Process, object, f.Field, f.Manager)
			}
			if !strings.Contains(f.What, want.what) || !strings.Contains(f.Cause, want.cause) {
				t.Errorf("%s\n%s", f.What, f.Cause)
			}
		})
	}
	for _, l := range analysis.LabelledRuns(t) {
		if !checked[l] {
			t.Errorf("%s is labelled, and nobody looks at its cause", l)
		}
	}
}

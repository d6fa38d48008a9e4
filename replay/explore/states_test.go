package explore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

const second = int64(1e9)

// pastOf is the unaltered run of an operator that creates a ConfigMap and writes a Database's status after each of two
// changes by a user. Of a lease that it holds it speaks if it has one.
func pastOf(lease bool) []traces.Record {
	const crdText = `{"metadata":{"name":"databases.x.io","uid":"c"},"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object",
		"properties":{"status":{"type":"object","properties":{"ready":{"type":"integer"},"phase":{"type":"string"}}}}}}}]}}`
	db := traces.Identity{Group: "x.io", Version: "v1", Resource: "databases", Namespace: "a", Name: "db", UID: "d", ResourceVersion: 2}
	cm := traces.Identity{Version: "v1", Resource: "configmaps", Namespace: "a", Name: "db-settings", UID: "m", ResourceVersion: 3}
	crd := traces.Identity{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions", Name: "databases.x.io", UID: "c", ResourceVersion: 1}
	var all []traces.Record
	at := func(seconds int64) traces.Head {
		return traces.Head{Seq: int64(len(all) + 1), TS: 1000*second + seconds*second}
	}
	call := func(seconds int64, process, verb, sub, body string, id traces.Identity) {
		h := at(seconds)
		all = append(all, &traces.Request{
			Head: h, Identity: id, Process: process, Verb: verb, Subresource: sub, Start: h.TS - second/100, Code: 200, RequestBody: body,
		})
	}
	watch := func(seconds int64, process, typ, object string, id traces.Identity) {
		all = append(all, &traces.WatchEvent{Head: at(seconds), Identity: id, Process: process, Stream: process + id.Resource, Type: typ, Object: object})
	}
	watch(0, everything, "ADDED", crdText, crd)
	call(0, "op", "list", "", "", db)
	watch(0, "op", "BOOKMARK", "initial-events-end", traces.Identity{Resource: "databases"})
	if lease {
		id := traces.Identity{Group: "coordination.k8s.io", Version: "v1", Resource: "leases", Namespace: "a", Name: "op", UID: "l", ResourceVersion: 1}
		call(0, "op", "create", "", `{"spec":{"leaseDurationSeconds":10}}`, id)
	}
	call(1, "kubectl", "create", "", `{}`, db)
	watch(1, everything, "ADDED", `{"metadata":{"name":"db"},"spec":{"size":1}}`, db)
	watch(1, "op", "ADDED", `{"metadata":{"name":"db"},"spec":{"size":1}}`, db)
	call(2, "op", "create", "", `{"metadata":{"name":"db-settings"}}`, cm)
	watch(2, everything, "ADDED", `{"metadata":{"name":"db-settings"}}`, cm)
	call(3, "op", "update", "status", `{"metadata":{"resourceVersion":"2"},"spec":{"size":1},"status":{"ready":1,"phase":"Up"}}`, db)
	call(100, "kubectl", "update", "", `{"metadata":{"resourceVersion":"2"}}`, db)
	return all
}

// Each state of the cluster is tried where the operator meets it, and what is left out is counted by reason.
func TestStates(t *testing.T) {
	p := read(pastOf(false), []string{"op"})
	plans, pruned := enumerate(p, 0, mostPlans)
	count := map[Kind]int{}
	texts := ""
	for _, x := range plans {
		count[x.Kind]++
		if x.Kind != KindRandom {
			texts += x.Try.Plan.String()
		}
	}
	for kind, want := range map[Kind]int{
		KindStorage: 1, // not after the second change, on which nothing is written
		KindToken:   1,
		KindQuota:   1,
		KindWebhook: 6, // two writes, three ways
		KindSchema:  4, // two fields, refused and pruned
		KindUnserve: 2, // the CRD's version at each change; v1 never
	} {
		if count[kind] != want {
			t.Errorf("%s: %d plans, want %d", kind, count[kind], want)
		}
	}
	for _, line := range []string{
		`storage: {commit: 2s, at: "CREATE databases.x.io/db -n a #1", for: 15s}`,
		`token: {client: operator, at: "CREATE databases.x.io/db -n a #1", for: 15s}`,
		`quota: {request: "CREATE configmaps/db-settings -n a", client: operator, at: "CREATE databases.x.io/db -n a #1", for: 15s}`,
		`webhook: {request: "UPDATE databases.x.io/db/status -n a", client: operator, fails: denied, at: "CREATE configmaps/db-settings -n a #1", for: 15s}`,
		`schema: {crd: databases.x.io, field: status.ready, maximum: 0, at: "CREATE configmaps/db-settings -n a #1"}`,
		`schema: {crd: databases.x.io, field: status.phase, removed: true, at: "CREATE configmaps/db-settings -n a #1"}`,
		`unserve: {version: "x.io/v1", at: "UPDATE databases.x.io/db -n a #1"}`,
	} {
		if !strings.Contains(texts, line) {
			t.Errorf("no %s in\n%s", line, texts)
		}
	}
	for _, why := range []string{
		"slow storage when the operator writes nothing", "an expired token when the operator writes nothing", "a quota for a write that creates nothing",
		"a conversion webhook for a resource of one version", "a schema of a resource that no CRD defines", "an API version that no upgrade takes away",
	} {
		if pruned[why] == 0 {
			t.Errorf("nothing was left out as %q: %v", why, pruned)
		}
	}
}

// Plans of chance give each actor a place of its own, and let few of them fall; a run that has no time at all has some too.
func TestPlansOfChance(t *testing.T) {
	p := read(pastOf(false), []string{"op"})
	l := &list{past: p, all: map[Kind][]candidate{}, texts: map[string]bool{}}
	actors := l.actors()
	if len(actors) != 3 { // the watch of Databases, calls about ConfigMaps, about the status of Databases
		t.Fatalf("actors %+v", actors)
	}
	falls := map[int]int{} // by how many there are
	for n := range 60 {
		faults := l.random(n).Plan.Faults
		extra := 0
		for _, f := range faults {
			switch f.Kind() {
			case "hold", "crash", "answer", "cut":
				extra++
			case "latency":
				if strings.Contains(f.String(), "#") {
					extra++
				}
			}
		}
		if places := len(faults) - extra; places != len(actors)-1 { // the first is not late
			t.Errorf("plan %d: %d of %d actors are late: %s", n, places, len(actors), l.random(n).Plan)
		}
		if n%3 != 2 {
			falls[extra]++
			if points := faults[len(faults)-extra:]; extra == 2 && points[0].String() == points[1].String() {
				t.Errorf("plan %d falls twice at one step: %s", n, points[0])
			}
		}
	}
	for d := range deepest {
		if falls[d] == 0 {
			t.Errorf("no plan of depth %d: %v", d+1, falls)
		}
	}
	p.span = 0
	for n := range 60 {
		l.random(n)
	}
}

// The operator is started afresh from each state that the unaltered run goes through: after each of its own writes and after
// each change by others, where the clock jumps as well; and at each write it loses its lease, if it has one.
func TestAfreshFromEachState(t *testing.T) {
	texts := func(lease bool) string {
		all := ""
		for _, x := range Plans(pastOf(lease), []string{"op"}, 0) {
			all += fmt.Sprintf("%d: %s", x.Try.Replicas, x.Try.Plan)
		}
		return all
	}
	without, with := texts(false), texts(true)
	for _, write := range []string{"CREATE configmaps/db-settings -n a #1", "UPDATE databases.x.io/db/status -n a #1"} {
		if line := fmt.Sprintf("crash: {process: operator, after: %q, answered: true, restartAfter: 1s}", write); !strings.Contains(without, line) {
			t.Errorf("no %s", line)
		}
		// Longer than the lease lasts and than another replica waits for it.
		for _, process := range []string{"operator", "op-2"} {
			line := fmt.Sprintf("2: seed: 0\nfaults:\n- pause: {process: %s, from: %q, for: 17s}", process, write)
			if !strings.Contains(with, line) || strings.Contains(without, line) {
				t.Errorf("not with a lease only: %s", line)
			}
		}
	}
	for _, change := range []string{"CREATE databases.x.io/db -n a #1", "UPDATE databases.x.io/db -n a #1"} {
		for _, line := range []string{
			fmt.Sprintf("restart: {process: operator, at: %q, restartAfter: 1s}", change), fmt.Sprintf("skip: {clock: 1h0m0s, at: %q}", change),
		} {
			if !strings.Contains(without, line) {
				t.Errorf("no %s", line)
			}
		}
	}
}

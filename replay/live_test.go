package replay

import (
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// What has lost its owners goes, but not when the version that it knows an owner by was not served any more by then; that
// it is not a moment later makes no difference.
func TestCollectorLooksForOwnersByTheirVersion(t *testing.T) {
	c := newCollector()
	see := func(typ traces.EventType, uid, resource, text string) {
		c.see(&traces.WatchEvent{Identity: traces.Identity{Resource: resource, Name: uid, UID: uid}, Type: string(typ), Object: text})
	}
	var asked string
	take := func(served bool) []*owned {
		return c.take(func(group, version, resource string) bool {
			asked = group + " " + version + " " + resource
			return served
		})
	}
	const page = `{"metadata":{"ownerReferences":[{"apiVersion":"web.example.com/v1","kind":"Site","uid":"site"}]}}`
	see(traces.Added, "site", "sites", `{}`)
	see(traces.Added, "page", "configmaps", page)
	if due := take(true); len(due) > 0 {
		t.Fatalf("%s is due, and its owner is there", due[0].Name)
	}
	see(traces.Deleted, "site", "sites", `{}`)
	if due := take(false); len(due) != 0 {
		t.Errorf("%d objects are due whose owner's version is not served", len(due))
	}
	if want := "web.example.com v1 sites"; asked != want {
		t.Errorf("asked for %q, want %q", asked, want)
	}
	see(traces.Modified, "page", "configmaps", page)
	due := take(true)
	if len(due) != 1 || len(take(false)) != 0 || !c.doomed(due[0]) {
		t.Fatalf("%d objects are due, want the one, and for good", len(due))
	}
	see(traces.Deleted, "page", "configmaps", `{}`)
	if c.doomed(due[0]) {
		t.Error("what is gone is deleted again")
	}
}

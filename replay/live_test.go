package replay

import (
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// What has lost its owners goes, but not while the version that it knows an owner by is not served.
func TestCollectorLooksForOwnersByTheirVersion(t *testing.T) {
	c := newCollector()
	see := func(typ traces.EventType, uid, resource, text string) {
		c.see(&traces.WatchEvent{Identity: traces.Identity{Resource: resource, Name: uid, UID: uid}, Type: string(typ), Object: text})
	}
	see(traces.Added, "site", "sites", `{}`)
	see(traces.Added, "page", "configmaps", `{"metadata":{"ownerReferences":[{"apiVersion":"web.example.com/v1","kind":"Site","uid":"site"}]}}`)
	if len(c.due) > 0 {
		t.Fatalf("%s is due, and its owner is there", c.due[0].Name)
	}
	see(traces.Deleted, "site", "sites", `{}`)
	if len(c.due) != 1 {
		t.Fatalf("%d objects are due", len(c.due))
	}
	var asked string
	served := func(yes bool) func(group, version, resource string) bool {
		return func(group, version, resource string) bool {
			asked = group + " " + version + " " + resource
			return yes
		}
	}
	if !c.doomed(c.due[0], served(true)) || c.doomed(c.due[0], served(false)) {
		t.Error("it goes by something else than whether its owner's version is served")
	}
	if want := "web.example.com v1 sites"; asked != want {
		t.Errorf("asked for %q, want %q", asked, want)
	}
	see(traces.Deleted, "page", "configmaps", `{}`)
	if c.doomed(c.due[0], served(true)) {
		t.Error("what is gone is deleted again")
	}
}

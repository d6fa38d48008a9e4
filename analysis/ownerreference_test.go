package analysis

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// kinds is what a manifest says of the resources that were recorded.
var kinds = []traces.Resource{
	{Group: "web.example.com", Version: "v1", Resource: "sites", Kind: "Site", Namespaced: true},
	{Group: "", Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true},
}

// owned makes a ConfigMap with one owner reference.
func owned(c *cluster, by, name string, ref m) {
	c.create(by, configMap(name), m{"metadata": m{"ownerReferences": []any{ref}}})
}

func configMap(name string) ref { return ref{configs, name} }

func (c *cluster) uid(r ref) string { return c.get(r)["metadata"].(m)["uid"].(string) }

func ownerTo(c *cluster, r ref) m {
	return m{"apiVersion": r.group + "/" + r.version, "kind": r.kind.kind, "name": r.name, "uid": c.uid(r), "controller": true, "blockOwnerDeletion": true}
}

// recorded analyzes what happened as a recording of the kinds.
func (c *cluster) recorded(detectors ...Detector) *Result {
	c.t.Helper()
	r, err := Records(context.Background(), c.records(), &traces.Manifest{Source: "run", Resources: kinds}, "t.optrace", Options{Detectors: detectors})
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// elsewhere is a change of where an object is, in all rows about it so far.
func (c *cluster) elsewhere(r ref, namespace string) {
	for _, row := range c.rows {
		switch x := row.(type) {
		case *traces.WatchEvent:
			if x.Resource == r.resource && x.Name == r.name {
				x.Namespace = namespace
			}
		case *traces.Request:
			if x.Resource == r.resource && x.Name == r.name {
				x.Namespace = namespace
			}
		}
	}
}

func TestOwnerReference(t *testing.T) {
	for name, x := range map[string]struct {
		play        func(c *cluster, s ref)
		what, cause string
	}{
		"cross-namespace": {func(c *cluster, s ref) {
			owned(c, "op", "child", ownerTo(c, s))
			c.elsewhere(configMap("child"), "other")
		}, "which is sites.web.example.com shop/front in another namespace", "will delete configmaps other/child"},
		"scope": {func(c *cluster, s ref) {
			owned(c, "op", "child", ownerTo(c, s))
			c.elsewhere(configMap("child"), "")
		}, "namespaced, while the dependent is not", "configmaps child is never collected"},
		"wrong uid": {func(c *cluster, s ref) {
			o := ownerTo(c, s)
			o["uid"] = "another"
			owned(c, "op", "child", o)
		}, "which is not sites.web.example.com shop/front, whose uid is uid-front-1000", "will delete configmaps shop/child"},
		"identity": {func(c *cluster, s ref) {
			o := ownerTo(c, s)
			o["kind"] = "ConfigMap"
			owned(c, "op", "child", o)
		}, "while that uid is sites.web.example.com shop/front", "different objects"},
		"missing": {func(c *cluster, s ref) {
			o := ownerTo(c, s)
			o["uid"], o["name"] = "nobody", "nobody"
			owned(c, "op", "child", o)
		}, "which does not exist: sites.web.example.com shop/nobody", "no owner that exists"},
		"long gone": {func(c *cluster, s ref) {
			o := ownerTo(c, s)
			c.delete("kubectl", s)
			c.sleep(time.Minute)
			c.quiet(time.Second)
			owned(c, "op", "child", o)
		}, "which does not exist: sites.web.example.com shop/front", "no owner that exists"},
		"cycle": {func(c *cluster, s ref) {
			owned(c, "op", "child", ownerTo(c, s))
			c.begin("op", "patch", "", s).commit(func(o m) {
				o["metadata"].(m)["ownerReferences"] = []any{m{"apiVersion": "v1", "kind": "ConfigMap", "name": "child", "uid": c.uid(configMap("child"))}}
			})
		}, "which is itself owned by it", "own each other"},
		"terminating": {func(c *cluster, s ref) {
			c.finalizers("kubectl", s, "foregroundDeletion")
			c.delete("kubectl", s)
			c.sleep(3 * time.Second)
			c.quiet(time.Second)
			owned(c, "op", "child", ownerTo(c, s))
		}, "in foreground deletion", "holds up its owner's end"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			x.play(c, site(c, "front"))
			c.quiet(2 * time.Second)
			f := c.recorded(NewOwnerReference()).only(t, "owner-reference")
			if f.Process != "op" || f.Manager != "op" || f.Severity != Error || f.Certainty != Sure || f.Total != 1 {
				t.Errorf("%+v", f)
			}
			if !strings.Contains(f.What, x.what) || !strings.Contains(f.Cause, x.cause) {
				t.Errorf("%s\n%s", f.What, f.Cause)
			}
		})
	}
}

func TestNoOwnerReference(t *testing.T) {
	for name, play := range map[string]func(c *cluster, s ref){
		"a good one": func(c *cluster, s ref) { owned(c, "op", "child", ownerTo(c, s)) },
		"seen before its owner": func(c *cluster, s ref) {
			o := ownerTo(c, s)
			c.rows = nil
			owned(c, "op", "child", o)
			c.show("oprec", s, c.get(s))
		},
		"of a kind that was not recorded": func(c *cluster, _ ref) {
			owned(c, "op", "child", m{"apiVersion": "other.example.com/v1", "kind": "Thing", "name": "x", "uid": "y"})
		},
		"the owner goes at the same time": func(c *cluster, s ref) {
			o := ownerTo(c, s)
			c.delete("kubectl", s)
			owned(c, "op", "child", o)
		},
		"made in background deletion": func(c *cluster, s ref) {
			c.finalizers("kubectl", s, "op/backup")
			c.delete("kubectl", s)
			c.sleep(3 * time.Second)
			c.quiet(time.Second)
			owned(c, "op", "backup-job", ownerTo(c, s))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "op")
			play(c, site(c, "front"))
			c.quiet(2 * time.Second)
			c.recorded(NewOwnerReference()).none(t)
		})
	}
}

package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/traces"
)

var (
	roles        = kind{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"}
	roleBindings = kind{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding"}
)

// granted gives the operator's service account a role for all namespaces.
func granted(c *cluster, rules ...any) {
	c.create("kubectl", ref{roles, "op"}, m{"rules": rules})
	c.create("kubectl", ref{roleBindings, "op"}, m{"roleRef": m{"kind": "ClusterRole", "name": "op"}, "subjects": []any{m{"kind": "ServiceAccount", "name": "op", "namespace": "shop"}}})
	// The helper puts every object into one namespace; these have none.
	for _, row := range c.rows {
		if w, ok := row.(*traces.WatchEvent); ok && w.Group == roles.group {
			w.Namespace = ""
		}
	}
}

func TestPermissionsGrantedAndUsed(t *testing.T) {
	c := newCluster(t, "op")
	granted(
		c, m{"apiGroups": []any{"web.example.com"}, "resources": []any{"sites", "sites/status"}, "verbs": []any{"get", "patch"}},
		m{"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{"*"}},
	)
	s := site(c, "front")
	for i := range 20 {
		c.sleep(time.Second)
		c.status("op", s, m{"n": i})
	}
	c.begin("op", "get", "", ref{configs, "x"}).refuse(403, "Forbidden")
	r := c.analyze(NewRBAC())
	r.none(t)
	var all []string
	for _, n := range r.Notes {
		all = append(all, n.What)
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{
		"shop:op was refused what it is not granted (403): get configmaps",
		"shop:op never used 4 of the 5 permissions that it has, in this trace: * secrets, get sites.web.example.com, get sites/status.web.example.com, patch sites.web.example.com",
		"shop:op used 1 of the 5 permissions that it has for all namespaces in one only: patch sites/status.web.example.com (in shop)",
		"shop:op has 1 of its 5 permissions by wildcard: * secrets",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestPermissionsOfAnAdministrator(t *testing.T) {
	c := newCluster(t, "op")
	granted(c, m{"apiGroups": []any{"*"}, "resources": []any{"*"}, "verbs": []any{"*"}})
	s := site(c, "front")
	for i := range 30 {
		k := c.begin("op", "patch", "status", s)
		k.row.User = "kubernetes-admin"
		k.commit(func(o m) { o["status"] = m{"n": i} })
	}
	c.analyze(NewRBAC()).silent(t)
}

// A watch that brings its first state along needs no list, and its client may have to list all the same.
func TestWatchesThatBeginWithAllListToo(t *testing.T) {
	c := newCluster(t, "op")
	granted(c, m{"apiGroups": []any{"web.example.com"}, "resources": []any{"sites"}, "verbs": []any{"list", "watch"}}, m{"apiGroups": []any{"web.example.com"}, "resources": []any{"sites/status"}, "verbs": []any{"patch"}})
	k := c.begin("op", "watch", "", ref{sites, ""})
	k.row.Query = "allowWatchBookmarks=true&sendInitialEvents=true"
	k.end(200, "")
	s := site(c, "front")
	for i := range 20 {
		c.sleep(time.Second)
		c.status("op", s, m{"n": i})
	}
	for _, n := range c.analyze(NewRBAC()).Notes {
		if strings.Contains(n.What, "never used") {
			t.Error(n.What)
		}
	}
}

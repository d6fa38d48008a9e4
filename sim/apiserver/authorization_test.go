package apiserver

import (
	"net/http"
	"strings"
	"testing"
)

const rbacPath = "/apis/rbac.authorization.k8s.io/v1/"

// With RBAC a user has the permissions that the world's roles give at the moment, no more.
func TestRBAC(t *testing.T) {
	w := newWorld(t, Options{RBAC: true})
	alice := []string{"X-Remote-User", "alice", "X-Remote-Group", "devs"}
	const forbidden = `configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"`
	w.refused(http.StatusForbidden, forbidden, "GET", configMapPath, "", "", alice...)
	w.post(rbacPath+"namespaces/default/roles", `{"metadata":{"name":"reader"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list"]}]}`)
	w.post(rbacPath+"namespaces/default/rolebindings", `{"metadata":{"name":"devs"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"reader"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"devs"}]}`)
	w.must(http.StatusOK, "GET", configMapPath, "", "", alice...)
	w.refused(http.StatusForbidden, `cannot create resource \"configmaps\"`, "POST", configMapPath, jsonType, `{"metadata":{"name":"x"}}`, alice...)
	// Nobody gives what he does not have.
	w.refused(http.StatusForbidden, "cannot create resource", "POST", rbacPath+"namespaces/default/roles", jsonType, `{"metadata":{"name":"more"},"rules":[]}`, alice...)

	review := func(resource, verb string) string {
		u := w.must(http.StatusCreated, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", jsonType,
			`{"spec":{"user":"alice","groups":["devs"],"resourceAttributes":{"namespace":"default","resource":"`+resource+`","verb":"`+verb+`"}}}`)
		return field(u, "status.allowed")
	}
	if got := review("configmaps", "get") + review("secrets", "get"); got != "truefalse" {
		t.Errorf("subject access reviews: %s", got)
	}
	rules := w.must(http.StatusCreated, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", jsonType, `{"spec":{"namespace":"default"}}`, alice...)
	if s := field(rules, "status.resourceRules"); !strings.Contains(s, "configmaps") {
		t.Errorf("rules: %s", s)
	}
	// The administrator acts as another one; that one has no such right.
	w.refused(http.StatusForbidden, `User \"bob\" cannot list`, "GET", configMapPath, "", "", "Impersonate-User", "bob")
	w.refused(http.StatusForbidden, `User \"alice\" cannot impersonate`, "GET", configMapPath, "", "", append(alice, "Impersonate-User", "bob")...)
	w.must(http.StatusOK, "DELETE", rbacPath+"namespaces/default/rolebindings/devs", jsonType, "")
	w.refused(http.StatusForbidden, forbidden, "GET", configMapPath, "", "", alice...)
}

// What the server says of its two halves as one is said to those who may see it.
func TestDiscoveryIsAuthorized(t *testing.T) {
	w := newWorld(t, Options{RBAC: true})
	alice := []string{"X-Remote-User", "alice"} // who is authenticated
	nobody := []string{"X-Remote-User", "system:anonymous", "X-Remote-Group", "system:unauthenticated"}
	for _, path := range []string{"/apis", "/apis/", "/apis/apps", "/openapi/v2", "/openapi/v3"} {
		if code, text := w.do("GET", path, "", "", alice...); code != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, code, text)
		}
		w.refused(http.StatusForbidden, `User \"system:anonymous\" cannot get path`, "GET", path, "", "", nobody...)
		// What is answered whatever the method is, is asked for with one.
		w.refused(http.StatusForbidden, `User \"alice\" cannot post path`, "POST", path, jsonType, "{}", alice...)
	}
	if code, text := w.do("GET", "/version", "", "", nobody...); code != http.StatusOK {
		t.Errorf("GET /version: %d %s", code, text)
	}
}

// Each world with RBAC begins with the same roles at the same versions.
func TestRBACIsRepeatable(t *testing.T) {
	w := newWorld(t, Options{RBAC: true})
	first := dump(w.Server)
	w.Close()
	if again := dump(newWorld(t, Options{RBAC: true}).Server); again != first {
		t.Error(firstDifference(first, again))
	}
	for _, role := range []string{"cluster-admin", "edit", "system:kube-controller-manager"} {
		if !strings.Contains(first, "/registry/clusterroles/"+role+" ") {
			t.Errorf("no ClusterRole %s", role)
		}
	}
}

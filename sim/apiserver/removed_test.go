package apiserver

import (
	"net/http"
	"strings"
	"testing"
)

// An old cluster has the versions that operators of its time ask for, over the objects of today.
func TestRemovedVersions(t *testing.T) {
	w := newWorld(t, Options{Version: "v1.15.3"})
	for _, c := range []struct{ old, now, body string }{
		{"/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", `{"spec":{"maxUnavailable":1}}`},
		{
			"/apis/batch/v1beta1/namespaces/default/cronjobs", "/apis/batch/v1/namespaces/default/cronjobs",
			`{"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`,
		},
		{"/apis/extensions/v1beta1/namespaces/default/ingresses", "/apis/networking.k8s.io/v1/namespaces/default/ingresses", `{"spec":{"backend":{"serviceName":"s","servicePort":80}}}`},
		{"/apis/extensions/v1beta1/namespaces/default/deployments", deployPath, `{"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
		{
			"/apis/apps/v1beta1/namespaces/default/statefulsets", "/apis/apps/v1/namespaces/default/statefulsets",
			`{"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
		},
		{"/apis/rbac.authorization.k8s.io/v1beta1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"rules":[]}`},
		{"/apis/coordination.k8s.io/v1beta1/namespaces/default/leases", "/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"spec":{"holderIdentity":"me"}}`},
		{
			"/apis/events.k8s.io/v1beta1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events",
			`{"eventTime":"2020-01-01T00:00:00.000000Z","reportingController":"x.y/z","reportingInstance":"i","action":"a","reason":"r","type":"Normal","regarding":{"namespace":"default"}}`,
		},
		{"/apis/discovery.k8s.io/v1beta1/namespaces/default/endpointslices", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"addressType":"IPv4","endpoints":[]}`},
		{"/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions", crdPath, `{"spec":{"group":"old.example.com","version":"v1","scope":"Namespaced","names":{"plural":"xs","singular":"x","kind":"X","listKind":"XList"},
			"preserveUnknownFields":false,"validation":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}}`},
	} {
		name := "x"
		if strings.Contains(c.old, "customresource") {
			name = "xs.old.example.com"
		}
		old := w.post(c.old, strings.Replace(c.body, "{", `{"metadata":{"name":"`+name+`"},`, 1))
		now := w.get(c.now + "/" + name)
		if old.GetUID() != now.GetUID() || !strings.HasPrefix(c.old, "/apis/"+old.GetAPIVersion()+"/") || !strings.HasPrefix(c.now, "/apis/"+now.GetAPIVersion()+"/") {
			t.Errorf("%s: %s and %s", c.old, old.GetAPIVersion(), now.GetAPIVersion())
		}
		w.must(http.StatusOK, "PATCH", c.old+"/"+name, mergePatch, `{"metadata":{"labels":{"by":"old"}}}`)
		want(t, w.get(c.now+"/"+name), "metadata.labels.by", "old")
	}
	// A scale subresource in the version of its time.
	want(t, w.get("/apis/extensions/v1beta1/namespaces/default/deployments/x/scale"), "apiVersion", "extensions/v1beta1", "spec.replicas", "1")
	want(t, w.post("/apis/old.example.com/v1/namespaces/default/xs", `{"apiVersion":"old.example.com/v1","kind":"X","metadata":{"name":"a"},"spec":{"size":1}}`), "spec.size", "1")
	_, doc := w.do("GET", "/apis", "", "")
	for _, gv := range []string{"policy/v1beta1", "extensions/v1beta1", "apps/v1beta2", "apiextensions.k8s.io/v1beta1"} {
		if !strings.Contains(doc, `"`+gv+`"`) {
			t.Errorf("discovery lacks %s", gv)
		}
	}
	if i, k := strings.Index(doc, `"apps/v1"`), strings.Index(doc, `"apps/v1beta1"`); i < 0 || i > k {
		t.Error("apps/v1 is not preferred")
	}
}

// A cluster has what its version still had.
func TestVersionsByAge(t *testing.T) {
	for version, want := range map[string]string{
		"": "", "v1.25.0": "", "v1.24.1-gke.3": "policy/v1beta1", "v1.21.14": "networking.k8s.io/v1beta1 extensions/v1beta1 policy/v1beta1",
	} {
		w := newWorld(t, Options{Version: version})
		_, doc := w.do("GET", "/apis", "", "")
		var got []string
		for _, gv := range []string{"networking.k8s.io/v1beta1", "extensions/v1beta1", "policy/v1beta1", "apps/v1beta1"} {
			if strings.Contains(doc, `"groupVersion":"`+gv+`"`) {
				got = append(got, gv)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: %q, want %q", version, s, want)
		}
		w.Close()
	}
}

// APIServices can be kept, and nothing follows from them.
func TestAPIServices(t *testing.T) {
	w := newWorld(t, Options{})
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	w.post(path, `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1beta1.metrics.k8s.io"},
		"spec":{"group":"metrics.k8s.io","version":"v1beta1","groupPriorityMinimum":100,"versionPriority":100,"service":{"name":"m","namespace":"kube-system"}}}`)
	want(t, w.get(path+"/v1beta1.metrics.k8s.io"), "spec.service.port", "443")
	if code, _ := w.do("GET", "/apis/metrics.k8s.io/v1beta1", "", ""); code != http.StatusNotFound {
		t.Errorf("an aggregated API: %d", code)
	}
}

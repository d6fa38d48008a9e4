package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/internal/livecluster"
)

// call is one request of the sequence that both servers get.
type call struct {
	method, path, contentType, body string
}

const (
	deployPath    = "/apis/apps/v1/namespaces/default/deployments"
	configMapPath = "/api/v1/namespaces/default/configmaps"
	jsonType      = "application/json"
)

func sequence(t *testing.T) []call {
	deploy := asJSON(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "example.com/c", resources: {limits: {cpu: 1000m}}}]}`)
	return []call{
		{"POST", widgetPath, jsonType, widget("a", `,"spec":{"size":3,"unknown":1},"status":{"phase":"x"}`)},
		{"POST", widgetPath, jsonType, widget("a", "")},
		{"POST", widgetPath + "?fieldValidation=Strict", jsonType, widget("s", `,"spec":{"unknown":1}`)},
		{"POST", widgetPath + "?dryRun=All", jsonType, widget("dry", `,"spec":{}`)},
		{"POST", widgetPath, jsonType, widget("Bad_Name", "")},
		{"POST", widgetPath, jsonType, widget("b", `,"spec":{"size":"three"}`)},
		{"POST", widgetPath, jsonType, widget("b", `,"spec":{"replicas":11}`)},
		{"POST", widgetPath, jsonType, `{"kind":"Widget"`},
		{"GET", widgetPath + "/a", "", ""},
		{"GET", widgetPath + "/none", "", ""},
		{"PATCH", widgetPath + "/a/status", mergePatch, `{"status":{"phase":"Ready","replicas":1},"spec":{"size":9}}`},
		{"PATCH", widgetPath + "/a", mergePatch, `{"spec":{"color":"red"},"status":null}`},
		{"PATCH", widgetPath + "/a", "application/json-patch+json", `[{"op":"test","path":"/spec/color","value":"green"}]`},
		{"PATCH", widgetPath + "/a", "application/strategic-merge-patch+json", `{"spec":{"color":"red"}}`},
		{"PATCH", widgetPath + "/a?fieldManager=one", applyPatch, widget("a", `,"spec":{"color":"green"}`)},
		{"PATCH", widgetPath + "/a?fieldManager=one&force=true", applyPatch, widget("a", `,"spec":{"color":"green"}`)},
		{"GET", widgetPath + "/a/scale", "", ""},
		{"PUT", widgetPath + "/a", jsonType, widget("a", `,"spec":{}`)},
		{"GET", widgetPath, "", ""},
		{"DELETE", widgetPath + "/a", jsonType, `{"preconditions":{"uid":"other"}}`},
		{"PATCH", widgetPath + "/a", mergePatch, `{"metadata":{"finalizers":["example.com/hold"]}}`},
		{"DELETE", widgetPath + "/a", "", ""},
		{"PATCH", widgetPath + "/a", mergePatch, `{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}`},
		{"PATCH", widgetPath + "/a", mergePatch, `{"metadata":{"finalizers":null}}`},
		{"GET", widgetPath + "/a", "", ""},
		{"POST", deployPath, jsonType, deploy},
		{"PATCH", deployPath + "/web", "application/strategic-merge-patch+json", `{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"d"}]}}}}`},
		{"PATCH", deployPath + "/web", mergePatch, `{"spec":{"selector":{"matchLabels":{"app":"other"}}}}`},
		{"PATCH", deployPath + "/web/scale", mergePatch, `{"spec":{"replicas":3}}`},
		{"PATCH", deployPath + "/web/status", mergePatch, `{"status":{"replicas":3},"spec":{"replicas":9}}`},
		{"PATCH", deployPath + "/web?fieldManager=two", applyPatch, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":5}}`},
		{"GET", "/apis/apps/v1/deployments?labelSelector=none", "", ""},
		{"DELETE", deployPath + "/web?propagationPolicy=Orphan", "", ""},
		{"DELETE", deployPath + "/web?propagationPolicy=Foreground", "", ""},
		{"POST", configMapPath, jsonType, `{"metadata":{"name":"cm"},"data":{"k":"v"},"immutable":true}`},
		{"PATCH", configMapPath + "/cm", mergePatch, `{"data":{"k":"w"}}`},
		{"POST", configMapPath, jsonType, `{"metadata":{"name":"x","namespace":"other"}}`},
		{"POST", "/api/v1/namespaces/none/configmaps", jsonType, `{"metadata":{"name":"x"}}`},
		{"DELETE", "/api/v1/namespaces/default", "", ""},
		{"DELETE", configMapPath + "?labelSelector=none", "", ""},
		{"POST", "/api/v1/namespaces/default/services", jsonType, `{"metadata":{"name":"svc"},"spec":{"ports":[{"port":80}],"selector":{"a":"b"}}}`},
		{"PATCH", "/api/v1/namespaces/default/services/svc", mergePatch, `{"spec":{"clusterIP":"10.200.200.200"}}`},
		{"PATCH", "/api/v1/namespaces/default/services/svc", mergePatch, `{"spec":{"type":"NodePort"}}`},
		{"DELETE", "/api/v1/namespaces/default/services/svc", "", ""},
		{"POST", "/api/v1/namespaces", jsonType, `{"metadata":{"name":"team"}}`},
		{"DELETE", "/api/v1/namespaces/team", "", ""},
		{"POST", "/api/v1/namespaces/team/configmaps", jsonType, `{"metadata":{"name":"x"}}`},
		{"GET", "/apis/example.com/v1", "", ""},
		{"GET", "/apis/nothing.example.com/v1/things", "", ""},
	}
}

// TestAgainstRealServer sends one sequence to this server and to a real kube-apiserver of the same
// version, and compares the answers.
func TestAgainstRealServer(t *testing.T) {
	cluster := livecluster.Start(t, livecluster.Options{})
	w := newWorld(t, Options{})
	real := endpoint(t, cluster.Config())
	ours := endpoint(t, w.config("doer/v1"))
	for _, e := range []func(call) string{real, ours} {
		e(call{"POST", crdPath, jsonType, asJSON(t, widgetCRD)})
		eventually(t, "widgets are served", func() bool {
			return strings.HasPrefix(e(call{"GET", widgetPath, "", ""}), "200")
		})
		eventually(t, "widgets are in discovery", func() bool {
			return strings.HasPrefix(e(call{"GET", "/apis/example.com/v1", "", ""}), "200")
		})
	}
	for _, c := range sequence(t) {
		if diff := cmp.Diff(real(c), ours(c)); diff != "" {
			t.Errorf("%s %s %s (- real, + ours):\n%s", c.method, c.path, c.body, diff)
		}
	}
}

// endpoint makes requests of one server and gives code and normalised answer.
func endpoint(t *testing.T, config *rest.Config) func(call) string {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return func(c call) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), c.method, config.Host+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", jsonType)
		req.Header.Set("User-Agent", "doer/v1")
		if c.contentType != "" {
			req.Header.Set("Content-Type", c.contentType)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // test
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		warnings := strings.Join(resp.Header.Values("Warning"), "\n")
		if body[0] != '{' {
			return fmt.Sprintf("%d %s\n%s", resp.StatusCode, warnings, body)
		}
		u := object(t, string(body))
		normalise(u.Object)
		out, err := (&unstructured.Unstructured{Object: u.Object}).MarshalJSON()
		if err != nil {
			out = body // a Status without kind cannot be marshalled that way
		}
		text := uidInText.ReplaceAllString(string(out), "…")
		return fmt.Sprintf("%d %s\n%s", resp.StatusCode, warnings, strings.ReplaceAll(text, `,"`, ",\n\""))
	}
}

var uidInText = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// normalise takes out what cannot be the same: uids, versions, times, addresses.
func normalise(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "clusterIP", "clusterIPs", "nodePort"} {
			if _, ok := v[k]; ok {
				v[k] = "…"
			}
		}
		if fields, ok := v["managedFields"].([]any); ok {
			// Entries of one second are in no particular order.
			sort.Slice(fields, func(i, j int) bool { return fmt.Sprint(fields[i]) < fmt.Sprint(fields[j]) })
		}
		for _, x := range v {
			normalise(x)
		}
	case []any:
		for _, x := range v {
			normalise(x)
		}
	}
}

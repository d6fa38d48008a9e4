package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	podPath = "/api/v1/namespaces/default/pods"
	pvcPath = "/api/v1/namespaces/default/persistentvolumeclaims"
)

func podBody(name, rest string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{` + rest + `"containers":[{"name":"c","image":"example.com/c"}]}}`
}

// refused makes a request that must fail with a code and a text.
func (w *world) refused(code int, text, method, path, contentType, body string, header ...string) {
	w.t.Helper()
	if got, answer := w.do(method, path, contentType, body, header...); got != code || !strings.Contains(answer, text) {
		w.t.Errorf("%s %s: %d, want %d with %q: %s", method, path, got, code, text, answer)
	}
}

// The plugins that a real API server has without flags, each by what it does.
func TestAdmissionPlugins(t *testing.T) {
	w := newWorld(t, Options{EnableAdmission: []string{PluginStorageProtection}})

	p := w.post(podPath, podBody("plain", ""))
	want(t, p, "spec.priority", "0", "spec.preemptionPolicy", "PreemptLowerPriority")
	if s := field(p, "spec.tolerations"); strings.Count(s, "tolerationSeconds:300") != 2 {
		t.Errorf("tolerations: %s", s)
	}
	w.post("/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"high"},"value":1000}`)
	want(t, w.post(podPath, podBody("high", `"priorityClassName":"high",`)), "spec.priority", "1000")
	w.refused(http.StatusForbidden, "no PriorityClass with name none was found", "POST", podPath, jsonType, podBody("none", `"priorityClassName":"none",`))

	w.post("/api/v1/namespaces", `{"metadata":{"name":"tight","labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	w.refused(http.StatusForbidden, `violates PodSecurity \"restricted:latest\"`, "POST", "/api/v1/namespaces/tight/pods", jsonType, podBody("p", ""))

	w.post("/api/v1/namespaces", `{"metadata":{"name":"small"}}`)
	w.post("/api/v1/namespaces/small/limitranges", `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","max":{"cpu":"1"},"default":{"cpu":"500m"}}]}}`)
	small := w.post("/api/v1/namespaces/small/pods", podBody("p", ""))
	if s := field(small, "spec.containers"); !strings.Contains(s, "cpu:500m") {
		t.Errorf("the LimitRange's default is missing: %s", s)
	}
	w.refused(http.StatusForbidden, "maximum cpu usage per Container is 1", "POST", "/api/v1/namespaces/small/pods", jsonType,
		strings.Replace(podBody("big", ""), `"image"`, `"resources":{"limits":{"cpu":"2"}},"image"`, 1))

	w.post("/apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"fast","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"example.com/p"}`)
	claim := w.post(pvcPath, `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	want(t, claim, "spec.storageClassName", "fast", "metadata.finalizers", "[kubernetes.io/pvc-protection]")

	w.post("/apis/networking.k8s.io/v1/ingressclasses", `{"metadata":{"name":"web","annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}},"spec":{"controller":"example.com/c"}}`)
	ingress := w.post("/apis/networking.k8s.io/v1/namespaces/default/ingresses", `{"metadata":{"name":"i"},"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}`)
	want(t, ingress, "spec.ingressClassName", "web")

	node := w.post("/api/v1/nodes", `{"metadata":{"name":"n"}}`)
	if s := field(node, "spec.taints"); !strings.Contains(s, "node.kubernetes.io/not-ready") {
		t.Errorf("taints of a new node: %s", s)
	}
}

// Without a controller that would take them away, claims have no protection.
func TestNoStorageProtection(t *testing.T) {
	w := newWorld(t, Options{})
	claim := w.post(pvcPath, `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	want(t, claim, "metadata.finalizers", "")
}

const policyPath = "/apis/admissionregistration.k8s.io/v1/"

// A validating policy is in force with the answer to its binding's write, for built-in and custom
// resources, and gone with that to its deletion; its parameters are those of the moment.
func TestValidatingAdmissionPolicy(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	w.addConfigMap("free")
	w.post(configMapPath, `{"metadata":{"name":"limits"},"data":{"max":"2"}}`)
	w.post(policyPath+"validatingadmissionpolicies", `{"metadata":{"name":"few"},"spec":{
		"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},
		"matchConstraints":{"resourceRules":[{"apiGroups":["apps","example.com"],"apiVersions":["*"],"operations":["CREATE","UPDATE"],"resources":["deployments","widgets"]}]},
		"validations":[{"expression":"object.spec.replicas <= int(params.data.max)","messageExpression":"'at most ' + params.data.max"}]}}`)
	w.post(widgetPath, widget("before", `,"spec":{"replicas":5}`))
	binding := policyPath + "validatingadmissionpolicybindings"
	w.post(binding, `{"metadata":{"name":"b"},"spec":{"policyName":"few","validationActions":["Deny"],"paramRef":{"name":"limits","namespace":"default","parameterNotFoundAction":"Deny"}}}`)
	w.refused(http.StatusUnprocessableEntity, `ValidatingAdmissionPolicy 'few' with binding 'b' denied request: at most 2`, "POST", widgetPath, jsonType, widget("w", `,"spec":{"replicas":5}`))
	w.must(http.StatusOK, "PATCH", configMapPath+"/limits", mergePatch, `{"data":{"max":"9"}}`)
	w.post(widgetPath, widget("w", `,"spec":{"replicas":5}`))
	w.refused(http.StatusUnprocessableEntity, "at most 9", "POST", deployPath, jsonType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},
		"spec":{"replicas":10,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	w.must(http.StatusOK, "DELETE", binding+"/b", jsonType, "")
	w.post(widgetPath, widget("after", `,"spec":{"replicas":10}`))
}

// A mutating policy changes what it matches, typed by the schema that is served.
func TestMutatingAdmissionPolicy(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	for i, group := range []string{"example.com", ""} {
		name := fmt.Sprint("m", i)
		resource := map[string]string{"example.com": "widgets", "": "configmaps"}[group]
		w.post(policyPath+"mutatingadmissionpolicies", `{"metadata":{"name":"`+name+`"},"spec":{
			"matchConstraints":{"resourceRules":[{"apiGroups":["`+group+`"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["`+resource+`"]}]},
			"reinvocationPolicy":"Never","failurePolicy":"Fail","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":
			"Object{metadata: Object.metadata{labels: Object.metadata.labels{mutated: 'yes'}}}"}}]}}`)
		w.post(policyPath+"mutatingadmissionpolicybindings", `{"metadata":{"name":"`+name+`"},"spec":{"policyName":"`+name+`"}}`)
	}
	want(t, w.post(widgetPath, widget("a", `,"spec":{}`)), "metadata.labels.mutated", "yes", "spec.color", "blue")
	want(t, w.post(configMapPath, `{"metadata":{"name":"a"},"data":{"k":"v"}}`), "metadata.labels.mutated", "yes", "data.k", "v")
}

// What a policy adds that the schema does not allow is gone in the answer already, as after reading it from etcd.
func TestMutationsArePruned(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	w.post(policyPath+"mutatingadmissionpolicies", `{"metadata":{"name":"m"},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":["example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["widgets"]}]},
		"reinvocationPolicy":"Never","failurePolicy":"Fail","mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":
		"[JSONPatch{op: 'add', path: '/spec/unheardOf', value: 'x'}, JSONPatch{op: 'add', path: '/spec/size', value: 3}]"}}]}}`)
	w.post(policyPath+"mutatingadmissionpolicybindings", `{"metadata":{"name":"m"},"spec":{"policyName":"m"}}`)
	want(t, w.post(widgetPath, widget("a", `,"spec":{}`)), "spec.size", "3", "spec.unheardOf", "")
}

// An update that takes the last finalizer of a dying object is answered with what it made of it, which is never stored:
// its times are the world's.
func TestTimesOfWhatAnUpdateDeletes(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	for path, body := range map[string]string{configMapPath: `{"metadata":{"name":"a"},"data":{"k":"v"}}`, widgetPath: widget("a", `,"spec":{"size":1}`)} {
		w.post(path, body)
		w.must(http.StatusOK, "PATCH", path+"/a", mergePatch, `{"metadata":{"finalizers":["example.com/hold"]}}`)
		w.must(http.StatusOK, "DELETE", path+"/a", jsonType, "")
		last := w.must(http.StatusOK, "PATCH", path+"/a", mergePatch, `{"metadata":{"finalizers":null,"labels":{"new":"1"}}}`)
		fields := last.GetManagedFields()
		if len(fields) == 0 {
			t.Errorf("%s: the answer has no managedFields", path)
		}
		for _, f := range fields {
			if f.Time.After(last.GetDeletionTimestamp().Time) {
				t.Errorf("%s: %s changed at %s, after the deletion at %s, in a world that stands still", path, f.Manager, f.Time, last.GetDeletionTimestamp())
			}
		}
		if code, _ := w.do("GET", path+"/a", jsonType, ""); code != http.StatusNotFound {
			t.Errorf("%s/a is still there: %d", path, code)
		}
	}
}

// An APIService without a Service is available from when it is made, by the world's clock.
func TestLocalAPIServiceIsAvailable(t *testing.T) {
	w := newWorld(t, Options{})
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	body := `{"metadata":{"name":"v1.example.org"},"spec":{"group":"example.org","version":"v1","groupPriorityMinimum":1000,"versionPriority":15}}`
	for _, query := range []string{"?dryRun=All", ""} {
		u := w.must(http.StatusCreated, "POST", path+query, jsonType, body)
		if s, at := field(u, "status.conditions"), DefaultTime.Format(time.RFC3339); !strings.Contains(s, at) || !strings.Contains(s, "status:True") {
			t.Errorf("%s: %s, want it to be true since %s", query, s, at)
		}
	}
}

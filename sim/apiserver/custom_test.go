package apiserver

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A client that got the answer to its CRD can use the new kind at once: no poll, no wait.
func TestCRDIsServedWhenItsCreateIsAnswered(t *testing.T) {
	w := newWorld(t, Options{})
	for _, n := range []string{"a", "b", "c"} {
		w.post(crdPath, strings.ReplaceAll(asJSON(t, widgetCRD), "example.com", n+".example.com"))
		path := strings.ReplaceAll(widgetPath, "example.com", n+".example.com")
		start := time.Now()
		w.post(path, strings.ReplaceAll(widget("x", ""), "example.com", n+".example.com"))
		if d := time.Since(start); d > 1900*time.Millisecond {
			t.Errorf("create took %v: the CRD handler held it back", d)
		}
		if _, doc := w.do(http.MethodGet, "/apis/"+n+".example.com/v1", "", ""); !strings.Contains(doc, "widgets/status") {
			t.Errorf("discovery lacks widgets: %s", doc)
		}
	}
}

func TestCRDUpdateAndDelete(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	w.post(widgetPath, widget("a", `,"spec":{}`))

	// A new default, a new version: in force with the answer.
	crd := w.get(crdPath + "/widgets.example.com")
	text := mustJSON(t, crd)
	text = strings.Replace(text, `"default":"blue"`, `"default":"red"`, 1)
	w.must(http.StatusOK, http.MethodPut, crdPath+"/widgets.example.com", "application/json", text)
	want(t, w.post(widgetPath, widget("b", `,"spec":{}`)), "spec.color", "red")
	want(t, w.get(widgetPath+"/a"), "spec.color", "blue")
	w.must(http.StatusOK, http.MethodPatch, crdPath+"/widgets.example.com", "application/json-patch+json",
		`[{"op":"add","path":"/spec/versions/-","value":{"name":"v2","served":true,"storage":false,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}]`)
	want(t, w.get(strings.Replace(widgetPath, "v1", "v2", 1)+"/b"), "apiVersion", "example.com/v2", "spec.color", "red")

	w.must(http.StatusOK, http.MethodDelete, crdPath+"/widgets.example.com", "application/json", "")
	if code, _ := w.do(http.MethodGet, widgetPath, "", ""); code != http.StatusNotFound {
		t.Errorf("list after the CRD's deletion: %d, want 404", code)
	}
	if _, doc := w.do(http.MethodGet, "/apis", "", ""); strings.Contains(doc, "example.com") {
		t.Error("discovery still lists example.com")
	}
	// And again: nothing of the first life is left.
	w.addWidgets()
	want(t, w.post(widgetPath, widget("b", `,"spec":{}`)), "spec.color", "blue")
}

func TestCRDWithRefusedNamesSettles(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	other := strings.NewReplacer("widgets", "gadgets", "singular: widget", "singular: gadget").Replace(widgetCRD)
	w.post(crdPath, asJSON(t, other)) // kind and short name are taken
	crd := w.get(crdPath + "/gadgets.example.com")
	if s := field(crd, "status.conditions"); !strings.Contains(s, "type:NamesAccepted") || !strings.Contains(s, "KindConflict") && !strings.Contains(s, "ListKindConflict") && !strings.Contains(s, "ShortNamesConflict") {
		t.Errorf("conditions: %s", s)
	}
}

func TestCRDHeldByFinalizersSettles(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	w.post(widgetPath, strings.Replace(widget("a", ""), `"name"`, `"finalizers":["example.com/hold"],"name"`, 1))
	w.must(http.StatusOK, http.MethodDelete, crdPath+"/widgets.example.com", "application/json", "")
	if field(w.get(widgetPath+"/a"), "metadata.deletionTimestamp") == "" {
		t.Error("the custom resource is not being deleted")
	}
	w.addConfigMap("another")
	w.must(http.StatusOK, http.MethodPatch, widgetPath+"/a", mergePatch, `{"metadata":{"finalizers":null}}`)
	if code, _ := w.do(http.MethodGet, crdPath+"/widgets.example.com", "", ""); code != http.StatusNotFound {
		t.Errorf("after its last custom resource: %d, want 404", code)
	}
}

func TestCustomResource(t *testing.T) {
	// A second between writes: two writers' managedFields within one second are
	// reordered by the next write (in a real cluster too), which then is no longer an empty one.
	var seconds atomic.Int64
	w := newWorld(t, Options{Clock: func() time.Time { return DefaultTime.Add(time.Duration(seconds.Load()) * time.Second) }})
	w.addWidgets()

	a := w.post(widgetPath, widget("a", `,"spec":{"size":3,"unknown":true},"status":{"phase":"lost"}`))
	want(t, a, "spec.color", "blue", "spec.replicas", "1", "spec.unknown", "", "status", "", "metadata.generation", "1",
		"metadata.creationTimestamp", "2020-01-01T00:00:00Z")

	seconds.Add(1)
	status := strings.Replace(mustJSON(t, a), `"spec"`, `"status":{"phase":"Ready"},"spec"`, 1)
	b := w.must(http.StatusOK, http.MethodPut, widgetPath+"/a/status", "application/json", status)
	want(t, b, "status.phase", "Ready", "metadata.generation", "1")

	// Written from the copy before the status: a conflict.
	if code, text := w.do(http.MethodPut, widgetPath+"/a", "application/json", mustJSON(t, a)); code != http.StatusConflict ||
		!strings.Contains(text, "the object has been modified") {
		t.Errorf("stale update: %d %s", code, text)
	}
	seconds.Add(1)
	c := w.must(http.StatusOK, http.MethodPatch, widgetPath+"/a", mergePatch, `{"spec":{"color":"red"}}`)
	want(t, c, "spec.color", "red", "metadata.generation", "2", "status.phase", "Ready")

	// An update that changes nothing takes no version.
	d := w.must(http.StatusOK, http.MethodPatch, widgetPath+"/a", mergePatch, `{"spec":{"color":"red"}}`)
	want(t, d, "metadata.resourceVersion", c.GetResourceVersion())

	if code, text := w.do(http.MethodPatch, widgetPath+"/a", mergePatch, `{"spec":{"replicas":11}}`); code != http.StatusUnprocessableEntity ||
		!strings.Contains(text, "too many replicas") {
		t.Errorf("CEL: %d %s", code, text)
	}
	want(t, w.get(widgetPath+"/a/scale"), "kind", "Scale", "spec.replicas", "1")
	w.must(http.StatusOK, http.MethodPatch, widgetPath+"/a/scale", mergePatch, `{"spec":{"replicas":4}}`)
	want(t, w.get(widgetPath+"/a"), "spec.replicas", "4")
}

func TestServerSideApply(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	one := widget("a", `,"spec":{"color":"red"}`)
	w.must(http.StatusCreated, http.MethodPatch, widgetPath+"/a?fieldManager=one", applyPatch, one)
	two := widget("a", `,"spec":{"color":"green","size":1}`)
	if code, text := w.do(http.MethodPatch, widgetPath+"/a?fieldManager=two", applyPatch, two); code != http.StatusConflict ||
		!strings.Contains(text, `conflict with \"one\"`) {
		t.Errorf("apply over another's field: %d %s", code, text)
	}
	a := w.must(http.StatusOK, http.MethodPatch, widgetPath+"/a?fieldManager=two&force=true", applyPatch, two)
	want(t, a, "spec.color", "green", "spec.size", "1")
	again := w.must(http.StatusOK, http.MethodPatch, widgetPath+"/a?fieldManager=two", applyPatch, two)
	want(t, again, "metadata.resourceVersion", a.GetResourceVersion())
}

func TestFinalizer(t *testing.T) {
	now := DefaultTime
	w := newWorld(t, Options{Clock: func() time.Time { return now }})
	w.addWidgets()
	w.post(widgetPath, strings.Replace(widget("a", ""), `"name"`, `"finalizers":["example.com/hold"],"name"`, 1))
	now = now.Add(90 * time.Second)
	a := w.must(http.StatusOK, http.MethodDelete, widgetPath+"/a", "application/json", "")
	want(t, a, "metadata.deletionTimestamp", "2020-01-01T00:01:30Z", "metadata.creationTimestamp", "2020-01-01T00:00:00Z",
		"metadata.deletionGracePeriodSeconds", "0")
	w.must(http.StatusOK, http.MethodPatch, widgetPath+"/a", mergePatch, `{"metadata":{"finalizers":null}}`)
	if code, _ := w.do(http.MethodGet, widgetPath+"/a", "", ""); code != http.StatusNotFound {
		t.Errorf("after its last finalizer: %d, want 404", code)
	}
}

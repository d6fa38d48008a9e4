package apiserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/sim/store"
)

// teller makes requests and keeps all that the server answers, headers included.
type teller struct {
	t *testing.T
	h http.Handler
	b strings.Builder
}

func (l *teller) do(method, path, contentType, body string) string {
	l.t.Helper()
	r := httptest.NewRequestWithContext(l.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Accept", jsonType)
	w := httptest.NewRecorder()
	l.h.ServeHTTP(w, r)
	fmt.Fprintf(&l.b, "%s %s: %d %v\n%s\n", method, path, w.Code, w.Header(), w.Body)
	return w.Body.String()
}

// look asks for all that follows from CRDs, at once.
func (l *teller) look() {
	for _, path := range []string{"/apis", "/apis/example.com", "/apis/example.com/v1", "/openapi/v3", "/openapi/v3/apis/example.com/v1"} {
		l.do("GET", path, "", "")
	}
}

// schedule writes CRDs and custom resources; PROPERTY makes one unlike another.
func (l *teller) schedule(property string) string {
	crd := func(name string) string {
		return strings.NewReplacer("widgets", name+"s", "widget", name, "Widget", strings.ToUpper(name[:1])+name[1:], "wd", name[:2],
			"size:", property+":").Replace(widgetCRD)
	}
	l.do("POST", crdPath, jsonType, asJSON(l.t, crd("gadget")))
	l.look()
	gadgets := strings.Replace(widgetPath, "widgets", "gadgets", 1)
	l.do("POST", gadgets, jsonType, strings.Replace(widget("a", `,"spec":{"`+property+`":3}`), "Widget", "Gadget", 1))
	l.do("PATCH", crdPath+"/widgets.example.com", mergePatch, `{"spec":{"names":{"shortNames":["`+property[:1]+`w"]}}}`)
	l.do("PATCH", crdPath+"/widgets.example.com", "application/json-patch+json",
		`[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/default","value":"`+property+`"}]`)
	l.do("POST", widgetPath, jsonType, strings.Replace(widget("held", `,"spec":{}`), `"name"`, `"finalizers":["example.com/hold"],"name"`, 1))
	l.look()
	l.do("DELETE", crdPath+"/widgets.example.com", jsonType, "")
	l.look()
	l.do("POST", widgetPath, jsonType, widget("late", ""))
	l.do("GET", crdPath, "", "")
	l.do("PATCH", widgetPath+"/held", mergePatch, `{"metadata":{"finalizers":null}}`)
	l.do("GET", crdPath, "", "")
	l.do("POST", crdPath, jsonType, asJSON(l.t, crd("widget")))
	l.do("POST", widgetPath, jsonType, widget("b", `,"spec":{"`+property+`":1}`))
	l.do("DELETE", crdPath+"/gadgets.example.com", jsonType, "")
	l.look()
	l.do("GET", "/openapi/v2", "", "")
	return l.b.String()
}

// A run that writes CRDs is the same on a new server and on one where it, or another, has run before.
func TestCRDsAreRepeatable(t *testing.T) {
	type ground struct {
		*world
		kept *store.Snapshot
	}
	begin := func() ground {
		w := newWorld(t, Options{Seed: 5})
		w.addWidgets()
		return ground{w, w.Store().Snapshot()}
	}
	run := func(g ground, property string) string {
		if err := g.Restore(g.kept); err != nil {
			t.Fatal(err)
		}
		text := (&teller{t: t, h: g.Handler()}).schedule(property)
		return text + dump(g.Server)
	}
	g := begin()
	first := map[string]string{}
	for i, property := range []string{"size", "size", "girth", "size", "girth", "weight", "girth", "size"} {
		text := run(g, property)
		if was, ok := first[property]; ok && was != text {
			t.Fatalf("run %d, of %s, differs from the first of its kind:\n%s", i+1, property, firstDifference(was, text))
		}
		first[property] = text
	}
	for _, want := range []string{`"acceptedNames":{"plural":"gadgets"`, "InstanceDeletionInProgress", "create not allowed while custom resource definition is terminating"} {
		if !strings.Contains(first["size"], want) {
			t.Errorf("the run lacks %s", want)
		}
	}
	g.Close()
	if text := run(begin(), "girth"); text != first["girth"] {
		t.Errorf("on a new server:\n%s", firstDifference(first["girth"], text))
	}
}

// What follows from a CRD is there with the answer to its write: both forms of discovery, both of OpenAPI.
func TestDocumentsFollowCRDs(t *testing.T) {
	w := newWorld(t, Options{})
	has := func(want bool, version string) {
		t.Helper()
		for path, text := range map[string]string{
			"/apis": `"example.com"`, "/apis/example.com": `example.com/` + version, "/apis/example.com/" + version: `"widgets/scale"`,
			"/openapi/v3": `apis/example.com/` + version, "/openapi/v3/apis/example.com/" + version: `com.example.` + version + `.Widget`,
			"/openapi/v2": `com.example.` + version + `.Widget`,
		} {
			if code, doc := w.do("GET", path, "", ""); strings.Contains(doc, text) != want {
				t.Errorf("%s (%d) has %s: %v, want %v", path, code, text, !want, want)
			}
		}
	}
	has(false, "v1")
	w.addWidgets()
	has(true, "v1")
	w.must(http.StatusOK, "PATCH", crdPath+"/widgets.example.com", "application/json-patch+json", `[
		{"op":"copy","from":"/spec/versions/0","path":"/spec/versions/-"},
		{"op":"replace","path":"/spec/versions/1/name","value":"v2"},{"op":"replace","path":"/spec/versions/1/storage","value":false}]`)
	has(true, "v2")
	has(true, "v1")
	w.must(http.StatusOK, "PATCH", crdPath+"/widgets.example.com", "application/json-patch+json", `[{"op":"replace","path":"/spec/versions/0/served","value":false}]`)
	has(true, "v2")
	if code, _ := w.do("GET", "/apis/example.com/v1", "", ""); code != http.StatusNotFound {
		t.Errorf("a version that is no longer served: %d", code)
	}
	w.must(http.StatusOK, "DELETE", crdPath+"/widgets.example.com", jsonType, "")
	has(false, "v1")
	has(false, "v2")
}

// A freed name goes to the CRD that was refused it, with the write that frees it.
func TestFreedNames(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	other := asJSON(t, strings.NewReplacer("widgets", "gadgets", "singular: widget", "singular: gadget").Replace(widgetCRD))
	accepted := func() string { return field(w.get(crdPath+"/gadgets.example.com"), "status.acceptedNames.kind") }
	w.post(crdPath, other)
	if kind := accepted(); kind != "" {
		t.Fatalf("a kind that is taken was accepted: %q", kind)
	}
	w.must(http.StatusOK, "DELETE", crdPath+"/widgets.example.com", jsonType, "")
	if kind := accepted(); kind != "Widget" {
		t.Errorf("a freed kind: %q", kind)
	}
	if code, _ := w.do("GET", strings.Replace(widgetPath, "widgets", "gadgets", 1), "", ""); code != http.StatusOK {
		t.Errorf("the refused CRD is not served: %d", code)
	}
}

// The watches of a custom resource end when what serves them is replaced, after what was to be told.
func TestWatchEndsWithItsCRD(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	for _, change := range []func(){
		func() {
			w.must(http.StatusOK, "PATCH", crdPath+"/widgets.example.com", mergePatch, `{"spec":{"names":{"categories":["all"]}}}`)
		},
		func() { w.must(http.StatusOK, "DELETE", crdPath+"/widgets.example.com", jsonType, "") },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+widgetPath+"?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.do("POST", widgetPath, jsonType, widget("a", ""))
		change()
		text, err := io.ReadAll(resp.Body) // to its end
		if err != nil || !strings.Contains(string(text), `"name":"a"`) {
			t.Errorf("events: %s, %v", text, err)
		}
	}
}

// A definition that takes the place of another decides how objects are loaded from then on: here it has no namespaces.
func TestLoadByTheNewestDefinition(t *testing.T) {
	w := newWorld(t, Options{})
	w.addWidgets()
	w.post(widgetPath, widget("a", ""))
	w.must(http.StatusOK, http.MethodDelete, crdPath+"/widgets.example.com", jsonType, "")
	w.post(crdPath, asJSON(t, strings.Replace(widgetCRD, "Namespaced", "Cluster", 1)))
	if err := w.Load(t.Context(), []Recorded{{widgetGVR, []byte(`{"metadata":{"name":"b","uid":"u","resourceVersion":"9000"}}`)}}); err != nil {
		t.Fatal(err)
	}
	want(t, w.get("/apis/example.com/v1/widgets/b"), "metadata.uid", "u")
}

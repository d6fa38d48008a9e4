package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

var (
	widgetGVR = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	crdGVR    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// world is a Server behind a real HTTP server, and clients of it.
type world struct {
	*Server
	t   testing.TB
	url string
	dyn dynamic.Interface
	kub *kubernetes.Clientset // speaks protobuf
}

func newWorld(t testing.TB, o Options) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, timed := t.(*testing.B)
	o.Verify = !timed
	s, err := New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.Close() // ends the watches, without which the HTTP server would wait
		h.Close()
	})
	w := &world{Server: s, t: t, url: h.URL}
	w.dyn = dynamic.NewForConfigOrDie(w.config("tester/v1"))
	c := w.config("typed-tester/v1")
	c.ContentType = "application/vnd.kubernetes.protobuf"
	w.kub = kubernetes.NewForConfigOrDie(c)
	return w
}

func (w *world) config(userAgent string) *rest.Config {
	return &rest.Config{Host: w.url, QPS: -1, UserAgent: userAgent}
}

// do makes a request and returns the answer's code and body.
func (w *world) do(method, path, contentType, body string, header ...string) (int, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("User-Agent", "doer/v1")
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // test
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// must is do with an expected code; it returns the answer as an object.
func (w *world) must(code int, method, path, contentType, body string, header ...string) *unstructured.Unstructured {
	w.t.Helper()
	got, text := w.do(method, path, contentType, body, header...)
	if got != code {
		w.t.Fatalf("%s %s: %d, want %d: %s", method, path, got, code, text)
	}
	return object(w.t, text)
}

func (w *world) post(path, body string) *unstructured.Unstructured {
	w.t.Helper()
	return w.must(http.StatusCreated, http.MethodPost, path, "application/json", body)
}

func (w *world) get(path string) *unstructured.Unstructured {
	w.t.Helper()
	return w.must(http.StatusOK, http.MethodGet, path, "application/json", "")
}

const (
	crdPath    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	widgetPath = "/apis/example.com/v1/namespaces/default/widgets"
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

func (w *world) addWidgets() {
	w.t.Helper()
	w.post(crdPath, asJSON(w.t, widgetCRD))
}

func asJSON(t testing.TB, y string) string {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(y))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return u
}

func mustJSON(t testing.TB, u *unstructured.Unstructured) string {
	t.Helper()
	b, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// field reads a dotted path as text, "" for none.
func field(u *unstructured.Unstructured, path string) string {
	v, ok, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...)
	if !ok {
		return ""
	}
	return fmt.Sprint(v)
}

func want(t testing.TB, u *unstructured.Unstructured, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := field(u, pairs[i]); got != pairs[i+1] {
			t.Errorf("%s is %q, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

// dump is the whole world as text.
func dump(s *Server) string {
	var b bytes.Buffer
	for o := range s.Store().All() {
		fmt.Fprintf(&b, "%s %d %q\n", o.Key, o.ResourceVersion, o.Data)
	}
	return b.String()
}

func TestOneServerAtATime(t *testing.T) {
	first := newWorld(t, Options{})
	if s, err := New(t.Context(), Options{}); !errors.Is(err, ErrSecondServer) {
		if err == nil {
			s.Close()
		}
		t.Fatalf("second server: %v, want %v", err, ErrSecondServer)
	}
	first.Close()
	second := newWorld(t, Options{})
	second.addWidgets()
	second.post(widgetPath, widget("a", ""))
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"clock ahead of the wall": {Clock: func() time.Time { return time.Now().Add(time.Hour) }},
		"no CIDR":                 {ServiceCIDR: "10.0.0.0"},
		"IPv6, too large":         {ServiceCIDR: "fd00::/48"},
		"two of one family":       {ServiceCIDR: "10.0.0.0/24,10.1.0.0/24"},
	} {
		if s, err := New(t.Context(), o); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

func TestEveryClusterHas(t *testing.T) {
	w := newWorld(t, Options{})
	for _, ns := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		want(t, w.get("/api/v1/namespaces/"+ns), "status.phase", "Active", "metadata.creationTimestamp", "2020-01-01T00:00:00Z")
	}
	want(t, w.get("/api/v1/namespaces/default/services/kubernetes"), "spec.clusterIP", "10.96.0.1")
	want(t, w.get("/version"), "gitVersion", DefaultVersion, "minor", "37")
	want(t, w.get("/api"), "serverAddressByClientCIDRs", "[map[clientCIDR:0.0.0.0/0 serverAddress:127.0.0.1:6443]]")
}

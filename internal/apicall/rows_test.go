package apicall_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/traces"
)

func TestTargets(t *testing.T) {
	front, rows, _ := serve(t, false, apicall.Options{}, answer("application/json", `{}`))
	for i, c := range []struct{ method, url, want string }{
		{"GET", "/api/v1/namespaces/d/pods/p", "get /v1/pods d/p"},
		{"HEAD", "/api/v1/namespaces/d/pods/p", "get /v1/pods d/p"},
		{"GET", "/api/v1/pods", "list /v1/pods /"},
		{"GET", "/api/v1/pods?watch=false", "list /v1/pods /"},
		{"GET", "/api/v1/namespaces/d/pods?fieldSelector=metadata.name%3Dp", "list /v1/pods d/p"},
		{"GET", "/api/v1/namespaces", "list /v1/namespaces /"},
		{"GET", "/api/v1/namespaces/d", "get /v1/namespaces /d"},
		{"PUT", "/api/v1/namespaces/d/finalize", "update /v1/namespaces/finalize /d"},
		{"POST", "/apis/apps/v1/namespaces/d/deployments", "create apps/v1/deployments d/"},
		{"PATCH", "/apis/apps/v1/namespaces/d/deployments/x/status", "patch apps/v1/deployments/status d/x"},
		{"DELETE", "/apis/apps/v1/namespaces/d/deployments/x", "delete apps/v1/deployments d/x"},
		{"DELETE", "/apis/apps/v1/namespaces/d/deployments", "deletecollection apps/v1/deployments d/"},
		{"POST", "/api/v1/namespaces/d/pods/p/exec", "connect /v1/pods/exec d/p"},
		{"GET", "/api/v1/namespaces/d/services/s:80/proxy/x/y", "connect /v1/services/proxy d/s:80"},
		{"GET", "/api/v1/namespaces/d/pods/p/log", "get /v1/pods/log d/p"},
		{"GET", "/openapi/v3", "get path=/openapi/v3"},
		{"GET", "/apis/apps/v1", "get path=/apis/apps/v1"},
		{"POST", "/apis/apps", "post path=/apis/apps"},
	} {
		call(t, c.method, front.URL+c.url, "", "")
		rows.wait(t, 1)
		r := rows.requests()[i]
		got := fmt.Sprintf("%s path=%s", r.Verb, r.Path)
		if r.Resource != "" {
			got = fmt.Sprintf("%s %s/%s/%s", r.Verb, r.Group, r.Version, r.Resource)
			if r.Subresource != "" {
				got += "/" + r.Subresource
			}
			got += " " + r.Namespace + "/" + r.Name
		}
		if got != c.want {
			t.Errorf("%s %s: %s, want %s", c.method, c.url, got, c.want)
		}
		if strings.Contains(c.want, "path=") && r.ResponseBody != "" {
			t.Errorf("%s: the body is recorded: %s", c.url, r.ResponseBody)
		}
	}
}

func TestFieldManager(t *testing.T) {
	front, rows, _ := serve(t, false, apicall.Options{}, answer("application/json", `{}`))
	long := strings.Repeat("é", 100)
	for i, c := range []struct{ method, query, agent, want string }{
		{"PUT", "", "manager/v1 (linux/amd64)", "manager"},
		{"PUT", "", "no slash", "no slash"},
		{"PUT", "", "a\tb/c", "ab"},
		{"PUT", "", long + "/1", strings.Repeat("é", 64)},
		{"PATCH", "fieldManager=fm%2Fx&force=true", "manager/v1", "fm/x"},
		{"DELETE", "", "manager/v1", ""},
		{"GET", "", "manager/v1", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, front.URL+"/api/v1/namespaces/d/configmaps/c?"+c.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", c.agent)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		rows.wait(t, 1)
		if got := rows.requests()[i].FieldManager; got != c.want {
			t.Errorf("%s %s by %q: %q, want %q", c.method, c.query, c.agent, got, c.want)
		}
	}
}

func TestListForms(t *testing.T) {
	for name, c := range map[string]struct {
		body, envelope string
		items          []string
	}{
		"custom resources keep their own type": {
			`{"apiVersion":"zoo.example.com/v1","items":[{"apiVersion":"zoo.example.com/v1","kind":"Widget","metadata":{"name":"w"}}],"kind":"WidgetList","metadata":{"resourceVersion":"5"}}`,
			`{"apiVersion":"zoo.example.com/v1","kind":"WidgetList","metadata":{"resourceVersion":"5"}}`,
			[]string{`{"apiVersion":"zoo.example.com/v1","kind":"Widget","metadata":{"name":"w"}}`},
		},
		"no items": {
			`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":null}`,
			`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"}}`, nil,
		},
		"an empty item": {
			`{"kind":"PodList","apiVersion":"v1","items":[{}]}`, `{"kind":"PodList","apiVersion":"v1"}`, []string{`{"kind":"Pod","apiVersion":"v1"}`},
		},
		"metadata only": {
			`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{"metadata":{"name":"p"}}]}`,
			`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{}}`,
			[]string{`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"p"}}`},
		},
		"table": {
			`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},"columnDefinitions":[{"name":"Name"}],"rows":[{"cells":["p"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"p"}}},{"cells":["q"],"object":null}]}`,
			`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"}}`,
			[]string{`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"p"}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			front, rows, tap := serve(t, false, apicall.Options{}, answer("application/json", c.body))
			call(t, "GET", front.URL+"/api/v1/pods", "", "")
			rows.wait(t, len(c.items)+1)
			for i, e := range rows.watches() {
				if e.Object != c.items[i] || e.Type != string(traces.Sync) {
					t.Errorf("item %d: %s %s", i, e.Type, e.Object)
				}
			}
			if got := rows.requests()[0]; got.ResponseBody != c.envelope {
				t.Errorf("envelope %s", got.ResponseBody)
			}
			if l := tap.Losses(); len(l) > 0 {
				t.Errorf("losses: %v", l)
			}
		})
	}
}

// A streaming list's initial events stay ADDED, and its bookmarks are rows: they tell where it ends.
func TestWatchList(t *testing.T) {
	stream := `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"5"}}}` + "\n" +
		`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n" +
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired","code":410}}` + "\n"
	both(t, func(t *testing.T, proxy bool) {
		front, rows, tap := serve(t, proxy, apicall.Options{}, answer("application/json", stream))
		if _, got := call(t, "GET", front.URL+"/api/v1/pods?watch=1&sendInitialEvents=true", "", ""); got != stream {
			t.Fatalf("the client got %q", got)
		}
		rows.wait(t, 4)
		var got []string
		for _, e := range rows.watches() {
			got = append(got, fmt.Sprintf("%s %s %d", e.Type, e.Name, e.ResourceVersion))
		}
		if want := "[ADDED p 5 BOOKMARK  9 ERROR  0]"; fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
		if r := rows.requests()[0]; r.Verb != "watch" || r.ResponseBody != "" {
			t.Errorf("%+v", r)
		}
		if l := tap.Losses(); len(l) > 0 {
			t.Errorf("losses: %v", l)
		}
	})
}

// kubectl get -w asks for its events as Tables.
func TestWatchOfTables(t *testing.T) {
	stream := `{"type":"MODIFIED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},"columnDefinitions":null,"rows":[{"cells":["p"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"p","uid":"u"}}}]}}` + "\n"
	front, rows, _ := serve(t, false, apicall.Options{}, answer("application/json", stream))
	call(t, "GET", front.URL+"/api/v1/pods?watch=1", "", "")
	rows.wait(t, 2)
	if e := rows.watches()[0]; e.Type != "MODIFIED" || e.Name != "p" || e.Object != `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"p","uid":"u"}}` {
		t.Errorf("%+v", e)
	}
}

func TestRefusedWatch(t *testing.T) {
	front, rows, _ := serve(t, false, apicall.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(410)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
	})
	call(t, "GET", front.URL+"/api/v1/pods?watch=1", "", "")
	rows.wait(t, 1)
	if r := rows.requests()[0]; r.Code != 410 || r.Reason != "Expired" || r.ResponseBody == "" || len(rows.watches()) != 0 {
		t.Errorf("%+v", r)
	}
}

// What can't be recorded passes, and is counted.
func TestLosses(t *testing.T) {
	for name, c := range map[string]struct {
		method, url, requestType, request, answerType, answer, want string
	}{
		"a kind that protobuf has not": {
			"PUT", "/apis/zoo.example.com/v1/namespaces/d/widgets/w", "application/vnd.kubernetes.protobuf", "k8s\x00\x0a\x16\x0a\x12zoo.example.com/v1\x12\x00", "application/json", `{}`, "a protobuf body",
		},
		"an answer of rubbish": {"GET", "/api/v1/namespaces/d/pods/p", "", "", "application/json", `{"a":`, "not JSON"},
		"a watch of rubbish":   {"GET", "/api/v1/pods?watch=1", "", "", "application/json", `{"type":"ADDED","object":{}}]`, "events are not recorded"},
		"a watch in CBOR":      {"GET", "/api/v1/pods?watch=1", "", "", "application/cbor-seq", "\xa0", "application/cbor-seq"},
		"a frame that is none": {"GET", "/api/v1/pods?watch=1", "", "", "application/json", `{"no":"type"}`, "without a type"},
	} {
		t.Run(name, func(t *testing.T) {
			front, rows, tap := serve(t, false, apicall.Options{}, answer(c.answerType, c.answer))
			if code, got := call(t, c.method, front.URL+c.url, c.requestType, c.request); code != 200 || got != c.answer {
				t.Fatalf("the client got %d %q", code, got)
			}
			for len(rows.requests()) == 0 {
				rows.wait(t, 1)
			}
			l := tap.Losses()
			if len(l) != 1 || l[0].Count != 1 || !strings.Contains(l[0].Reason, c.want) || l[0].From.IsZero() || l[0].Source == "" {
				t.Errorf("losses: %+v", l)
			}
		})
	}
}

func TestRequestThatBreaksOff(t *testing.T) {
	front, rows, tap := serve(t, false, apicall.Options{}, answer("application/json", `{}`))
	r, err := http.NewRequestWithContext(t.Context(), "POST", front.URL+"/api/v1/namespaces/d/pods", io.MultiReader(strings.NewReader(`{"a`), failing{}))
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = 100
	if resp, err := http.DefaultClient.Do(r); err == nil {
		_ = resp.Body.Close()
		t.Fatal("no error")
	}
	rows.wait(t, 1)
	if got := rows.requests()[0]; got.RequestBody != "" {
		t.Errorf("%+v", got)
	}
	if l := tap.Losses(); len(l) == 0 || !strings.Contains(l[0].Reason, "ended early") {
		t.Errorf("losses: %+v", l)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("no more") }

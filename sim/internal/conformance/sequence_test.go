package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSameSeedSameSequence(t *testing.T) {
	all := map[string]bool{}
	for n := range 500 {
		s := Generate(7, n, "")
		if again := Generate(7, n, ""); s.String() != again.String() {
			t.Fatalf("sequence %d is another one the second time:\n%s", n, cmp.Diff(s.String(), again.String()))
		}
		all[s.Name] = true
	}
	for _, name := range Scenarios() {
		if !all[name] {
			t.Errorf("no sequence of 500 is about %s", name)
		}
	}
	if Generate(7, 1, "").String() == Generate(8, 1, "").String() {
		t.Error("the seed has no effect")
	}
}

// What the real server may answer from a watch cache that is behind is asked when it is not.
func TestStaleAnswersAreSettled(t *testing.T) {
	seen := 0
	for n := range 500 {
		for _, op := range Generate(7, n, "").Ops {
			if !strings.Contains(op.Path, "resourceVersion=0") || op.Area == "hostile" {
				continue
			}
			if seen++; op.Settle == "" {
				t.Errorf("sequence %d, operation %d: %s %s", n, op.ID, op.Method, op.Path)
			}
		}
	}
	if seen == 0 {
		t.Error("nothing asks for what may be stale")
	}
}

func TestSequencesReadBack(t *testing.T) {
	for n := range 60 {
		s := Generate(3, n, "")
		got, err := Parse("x", strings.NewReader("# a comment\n\n"+s.String()))
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != s.String() {
			t.Errorf("sequence %d:\n%s", n, cmp.Diff(s.String(), got.String()))
		}
	}
}

// The bodies of kinds.yaml are objects of their kinds: YAML takes a word such as n for something else.
func TestBodiesFitTheirKinds(t *testing.T) {
	for _, k := range builtins {
		obj, ok := kindOf(k.APIVersion, k.Kind)
		if !ok {
			continue // a CRD
		}
		dec := json.NewDecoder(strings.NewReader(asJSON(k.object("a"))))
		dec.DisallowUnknownFields()
		if err := dec.Decode(obj); err != nil {
			t.Errorf("%s: %v", k.id(), err)
		}
	}
}

// Addresses and ports that are asked for are of the part of the range that the real server draws from last
// (k8s.io/kubernetes/pkg/registry/core/service/ipallocator and portallocator): else they may be taken, by chance.
func TestAddressesAskedForAreFree(t *testing.T) {
	const lastOf24, lastPort = 16, 30085 // of 10.0.0.0/24; of 30000-32767
	seen := 0
	for _, e := range builtinKind("services").Edits {
		spec, _ := e["spec"].(map[string]any)
		if ip, ok := spec["clusterIP"].(string); ok && strings.HasPrefix(ip, "10.0.0.") {
			seen++
			if n, err := strconv.Atoi(strings.TrimPrefix(ip, "10.0.0.")); err != nil || n > lastOf24 {
				t.Errorf("clusterIP %s", ip)
			}
		}
		ports, _ := spec["ports"].([]any)
		for _, p := range ports {
			port, _ := p.(map[string]any)["nodePort"].(float64)
			if port > lastPort {
				t.Errorf("nodePort %v", port)
			}
		}
	}
	if seen == 0 {
		t.Error("no address is asked for")
	}
}

func TestParseSaysWhere(t *testing.T) {
	for text, want := range map[string]string{
		"{":                       "f:1: ",
		"{}\n{\"id\":\"x\"}":      "f:2: ",
		"{}\n\n{\"colour\":1}":    "f:3: ",
		"{}":                      "no operations",
		"{}\n{\"id\":1}\n{\"id\"": "f:3: ",
	} {
		_, err := Parse("f", strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
}

// fake is a server that gives the answers it is told to, by method and path.
func fake(t *testing.T, name string, answers map[string]string) *Server {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost && r.URL.Path == "/api/v1/namespaces" {
			w.WriteHeader(http.StatusCreated)
		}
		text := answers[r.Method+" "+r.URL.Path]
		if header, rest, ok := strings.Cut(text, "\n"); ok {
			w.Header().Set("Warning", header)
			text = rest
		}
		if text == "" {
			text = "{}"
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "NOW", time.Now().UTC().Format(time.RFC3339)))
	}))
	t.Cleanup(h.Close)
	return &Server{Name: name, URL: h.URL, Client: h.Client(), Now: time.Now}
}

func gets(paths ...string) *Sequence {
	s := &Sequence{}
	for i, p := range paths {
		s.Ops = append(s.Ops, &Op{ID: i + 1, Path: p})
		if strings.HasPrefix(p, "/w") {
			s.Ops[i].Do = Watch
		}
	}
	return s
}

func meta(rest string) string { return `{"metadata":{` + rest + `}}` }

// What servers decide by chance is compared by its order, all else as it is.
func TestWhatDiffers(t *testing.T) {
	const u1, u2, u3, u4 = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000003", "00000000-0000-4000-8000-000000000004"
	for name, c := range map[string]struct {
		real, ours []string // answers to GET /1, GET /2, …
		want       string   // "" none
	}{
		"the same":                     {[]string{`{"a":1}`}, []string{`{"a":1}`}, ""},
		"a value":                      {[]string{`{"a":{"b":[1,2]}}`}, []string{`{"a":{"b":[1,3]}}`}, "1 body.a.b[1]: real 2, ours 3"},
		"a number's form":              {[]string{`{"a":1}`}, []string{`{"a":1.0}`}, "1 body.a: real 1, ours 1.0"},
		"null and absent":              {[]string{`{"a":null}`}, []string{`{}`}, "1 body.a: real null, ours nothing"},
		"a warning":                    {[]string{"299 x\n{}"}, []string{`{}`}, `1 header.Warning: real "299 x", ours nothing`},
		"other uids":                   {[]string{meta(`"uid":"` + u1 + `"`), meta(`"uid":"` + u2 + `"`)}, []string{meta(`"uid":"` + u3 + `"`), meta(`"uid":"` + u4 + `"`)}, ""},
		"uids that should be the same": {[]string{meta(`"uid":"` + u1 + `"`), meta(`"uid":"` + u1 + `"`)}, []string{meta(`"uid":"` + u3 + `"`), meta(`"uid":"` + u4 + `"`)}, `2 body.metadata.uid: real "uid#1", ours "uid#2"`},
		"a uid in a text":              {[]string{meta(`"uid":"` + u1 + `"`), `{"message":"no ` + u1 + `"}`}, []string{meta(`"uid":"` + u3 + `"`), `{"message":"no ` + u4 + `"}`}, `2 body.message: real "no uid#1", ours "no uid#2"`},
		"other versions":               {[]string{meta(`"resourceVersion":"5"`), meta(`"resourceVersion":"9"`)}, []string{meta(`"resourceVersion":"100"`), meta(`"resourceVersion":"101"`)}, ""},
		"a version that does not rise": {[]string{meta(`"resourceVersion":"5"`), meta(`"resourceVersion":"9"`)}, []string{meta(`"resourceVersion":"100"`), meta(`"resourceVersion":"100"`)}, `2 body.metadata.resourceVersion: real "rv#2", ours "rv#1"`},
		"a list's version":             {[]string{meta(`"resourceVersion":"5"`), `{"items":[],"metadata":{"resourceVersion":"7"}}`}, []string{meta(`"resourceVersion":"100"`), `{"items":[],"metadata":{"resourceVersion":"100"}}`}, ""},
		"an older list":                {[]string{meta(`"resourceVersion":"5"`), `{"items":[],"metadata":{"resourceVersion":"7"}}`}, []string{meta(`"resourceVersion":"100"`), `{"items":[],"metadata":{"resourceVersion":"99"}}`}, `2 body.metadata.resourceVersion: real "rv>=#1", ours "rv>=#0"`},
		"the time":                     {[]string{`{"t":"NOW"}`}, []string{`{"t":"NOW"}`}, ""},
		"another time":                 {[]string{`{"t":"NOW"}`}, []string{`{"t":"2020-01-01T00:00:00Z"}`}, `1 body.t: real "now", ours "2020-01-01T00:00:00Z"`},
		"managers in another order":    {[]string{meta(`"managedFields":[{"manager":"a"},{"manager":"b"}]`)}, []string{meta(`"managedFields":[{"manager":"b"},{"manager":"a"}]`)}, ""},
		"another manager":              {[]string{meta(`"managedFields":[{"manager":"a"}]`)}, []string{meta(`"managedFields":[{"manager":"c"}]`)}, `1 body.metadata.managedFields[0].manager: real "a", ours "c"`},
		"other addresses":              {[]string{`{"clusterIP":"10.0.0.7"}`}, []string{`{"clusterIP":"10.0.0.9"}`}, ""},
		"other keys":                   {[]string{`{"keys":[{"kty":"RSA","n":"1"}]}`}, []string{`{"keys":[{"kty":"EC","x":"2"}]}`}, ""},
		"a key more":                   {[]string{`{"keys":[{"kty":"RSA"}]}`}, []string{`{"keys":[{"kty":"RSA"},{"kty":"RSA"}]}`}, `1 body.keys: real ["<key>"], ours ["<key>","<key>"]`},
		"a message that has the client's certificate": {
			[]string{`{"message":"{\"spec\":{\"extra\":{\"authentication.kubernetes.io/credential-id\":[\"X509SHA256=1\"]},\"a\":1}} {\"spec\":{\"a\":1,\"extra\":{\"authentication.kubernetes.io/credential-id\":[\"X509SHA256=1\"]}}}"}`},
			[]string{`{"message":"{\"spec\":{\"a\":1}} {\"spec\":{\"a\":1}}"}`},
			"",
		},
		"finalizers in another order": {[]string{meta(`"finalizers":["a","b"]`)}, []string{meta(`"finalizers":["b","a"]`)}, `1 body.metadata.finalizers[0]: real "a", ours "b"; 1 body.metadata.finalizers[1]: real "b", ours "a"`},
		"no JSON":                     {[]string{`<x>`}, []string{`<y>`}, `1 text: real "<x>", ours "<y>"`},
	} {
		t.Run(name, func(t *testing.T) {
			canned := func(texts []string) map[string]string {
				out := map[string]string{}
				for i, text := range texts {
					out[fmt.Sprintf("GET /%d", i+1)] = text
				}
				return out
			}
			p := &Pair{Real: fake(t, "real", canned(c.real)), Ours: fake(t, "ours", canned(c.ours))}
			s := gets("/1", "/2")
			s.Ops = s.Ops[:len(c.real)]
			if got := run(t, p, s); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The order of a namespace's finalizers is chance on the real server; which they are is not.
func TestFinalizersOfNamespaces(t *testing.T) {
	real := fake(t, "real", map[string]string{"GET /1": meta(`"finalizers":["a","b"]`), "GET /2": meta(`"finalizers":["a","b"]`)})
	ours := fake(t, "ours", map[string]string{"GET /1": meta(`"finalizers":["b","a"]`), "GET /2": meta(`"finalizers":["b","c"]`)})
	s := gets("/1", "/2")
	s.Ops[0].Kind, s.Ops[1].Kind = "namespaces", "namespaces"
	const want = `2 body.metadata.finalizers[0]: real "a", ours "b"; 2 body.metadata.finalizers[1]: real "b", ours "c"`
	if got := run(t, &Pair{Real: real, Ours: ours}, s); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// run gives the differences as text.
func run(t *testing.T, p *Pair, s *Sequence) string {
	t.Helper()
	outcomes, err := p.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range outcomes {
		for _, d := range o.Differences {
			out = append(out, fmt.Sprintf("%d %s", o.Op.ID, d))
		}
	}
	return strings.Join(out, "; ")
}

func TestWatchesAreCompared(t *testing.T) {
	const added, deleted, bookmark = `{"type":"ADDED","object":{"a":1}}`, `{"type":"DELETED","object":{"a":1}}`, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}`
	for name, c := range map[string]struct{ real, ours, want string }{
		"the same":       {added + deleted, added + deleted, ""},
		"another order":  {added + deleted, deleted + added, `1 events[0].type: real "ADDED", ours "DELETED"; 1 events[1].type: real "DELETED", ours "ADDED"`},
		"some bookmark":  {added + bookmark + deleted, added + deleted, ""},
		"an event short": {added + deleted, added, `1 events: real [{"object":{"a":1},"type":"ADDED"},{"object":{"a":1},"type":"DELETED"}], ours [{"object":{"a":1},"type":"ADDED"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Pair{Real: fake(t, "real", map[string]string{"GET /w": c.real}), Ours: fake(t, "ours", map[string]string{"GET /w": c.ours})}
			if got := run(t, p, gets("/w")); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	answers := map[string]string{"GET /1": `{"items":[{"name":"x"}]}`, "GET /x/at/nothing": `{"found":true}`}
	p := &Pair{Real: fake(t, "real", answers), Ours: fake(t, "ours", nil)}
	s := gets("/1", "/${1.items.0.name}/at/${1.none}")
	outcomes, err := p.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(outcomes[1].Real.Body); got != `{"found":true}` {
		t.Errorf("the second answer is %s", got)
	}
}

func TestShrink(t *testing.T) {
	same := map[string]string{"GET /5": `{"a":1}`}
	p := &Pair{Real: fake(t, "real", same), Ours: fake(t, "ours", map[string]string{"GET /5": `{"a":2}`})}
	s := gets("/1", "/2", "/3", "/4", "/5", "/6", "/7")
	s.Ops[4].Body = `{"x":1,"y":{"z":[{"w":2}]}}`
	outcomes, err := p.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	small, err := p.Shrink(t.Context(), s, outcomes[4].Differences, 100)
	if err != nil {
		t.Fatal(err)
	}
	if len(small.Ops) != 1 || small.Ops[0].Path != "/5" || small.Ops[0].Body != "{}" {
		t.Errorf("shrunk to\n%s", small)
	}
}

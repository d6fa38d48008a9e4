package fault

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSelectorsPrintAsTheyParse(t *testing.T) {
	for _, text := range []string{
		"*", "* #3", "* pods", "* pods/a", "GET pods/a/log", "UPDATE */status", "UPDATE */status #2", "PATCH */*", "LIST *",
		"PATCH widgets.example.com/*/scale -n prod #7", "CREATE statefulsets/rabbit-server #2", "* -n kube-system", "WATCH widgets/*/*",
	} {
		s, err := ParseCall(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.String() != text {
			t.Errorf("%q prints as %q", text, s)
		}
	}
	for _, text := range []string{"MODIFIED rabbit #2", "ADDED *", "* db-0 -n a", "DELETED db-0"} {
		s, err := ParseEvent(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.String() != text {
			t.Errorf("%q prints as %q", text, s)
		}
	}
	if s, err := ParseCall("UPDATE */*/status"); err != nil || s.String() != "UPDATE */status" {
		t.Errorf("*/*/status is %q, %v", s, err)
	}
}

func TestSelectorsMatch(t *testing.T) {
	call := Call{Client: "op", Verb: "update", Group: "apps", Resource: "statefulsets", Namespace: "prod", Name: "db"}
	status := call
	status.Subresource = "status"
	for _, c := range []struct {
		text          string
		plain, status bool
	}{
		{"*", true, true},
		{"UPDATE *", true, true},
		{"UPDATE statefulsets", true, false},
		{"UPDATE statefulsets.apps/db", true, false},
		{"UPDATE statefulsets/db/status", false, true},
		{"UPDATE */status", false, true},
		{"* statefulsets/*/*", false, true},
		{"PATCH statefulsets", false, false},
		{"UPDATE statefulsets.example.com", false, false},
		{"UPDATE statefulsets/web", false, false},
		{"* * -n prod", true, true},
		{"* * -n test", false, false},
	} {
		s, err := ParseCall(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if s.matchCall(call) != c.plain || s.matchCall(status) != c.status {
			t.Errorf("%q: matches the object %v, its status %v; want %v, %v", c.text, s.matchCall(call), s.matchCall(status), c.plain, c.status)
		}
	}
	bookmark := Event{Type: "BOOKMARK", Resource: "pods"}
	if s, _ := ParseEvent("* *"); s.matchEvent(bookmark) {
		t.Error("a bookmark counts as an event of an object")
	}
}

func TestPlanErrors(t *testing.T) {
	for _, c := range []struct{ name, plan, want string }{
		{"no YAML", "seed: 1\nfaults: [", "p.yaml:2: not YAML: "},
		{"a list", "- 1", "p.yaml:1: a plan is written as"},
		{"unknown member", "seed: 1\nfault: []", `p.yaml:2: a plan has no "fault"; it has seed, faults`},
		{"twice", "seed: 1\nseed: 2", `p.yaml:2: a plan has "seed" twice`},
		{"seed", "seed: -1", `p.yaml:1: seed of a plan is "-1"`},
		{"two documents", "seed: 1\n---\nseed: 2", "p.yaml:"},
		{"faults is no list", "faults:\n  hold: {}", "p.yaml:2: faults is no list"},
		{"unknown fault", "faults:\n- hodl: {watch: pods}", `p.yaml:2: unknown fault "hodl"; known are answer, crash, cut, hold, latency, merge, pause, quota, restart, schema, skip, storage, token, unserve, webhook`},
		{"later line", "seed: 1\nfaults:\n- hold: {watch: a}\n- crash: {process: operator}", `p.yaml:4: crash needs one of before, after and at`},
		{"crash of whom", "faults:\n- crash: {at: 1s}", "p.yaml:2: crash needs process"},
		{"crash of all", "faults:\n- crash: {process: \"*\", at: 1s}", "p.yaml:2: crash needs process"},
		{"crash twice", "faults:\n- crash: {process: a, at: 1s, after: \"CREATE pods\"}", "p.yaml:2: crash needs one of before, after and at"},
		{"answered before", "faults:\n- crash: {process: a, before: \"CREATE pods\", answered: true}", "p.yaml:2: answered of crash goes with after"},
		{"no comeback", "faults:\n- crash: {process: a, at: 1s, restartAfter: never, view: \"before CREATE pods\"}", "p.yaml:2: a process that never comes back has no view"},
		{"no view", "faults:\n- crash: {process: a, at: 1s, for: 1s}", "p.yaml:2: reads, until and for of crash go with the view of a past"},
		{"view", "faults:\n- restart: {process: a, at: 1s, view: \"yesterday\"}", `p.yaml:2: view of restart: "yesterday" is no view`},
		{"view of what", "faults:\n- restart: {process: a, at: 1s, view: \"before CREATE *\"}", `p.yaml:2: view of restart: view "before CREATE *" does not say of what`},
		{"view of an odd thing", "faults:\n- restart: {process: a, at: 1s, view: \"pods/a/log before CREATE pods\"}", `p.yaml:2: view of restart: view "pods/a/log before CREATE pods": "pods/a/log" is not RESOURCE`},
		{"view of half a list", "faults:\n- restart: {process: a, at: 1s, view: \"pods -n x before CREATE pods\"}", `p.yaml:2: view of restart: view "pods -n x before CREATE pods": "pods -n x" is not RESOURCE`},
		{"view at no call", "faults:\n- restart: {process: a, at: 1s, view: \"pods before\"}", `p.yaml:2: view of restart: selector "": want VERB`},
		{"view ends twice", "faults:\n- restart: {process: a, at: 1s, view: \"after CREATE pods\", for: 1s, until: \"CREATE pods\"}", "p.yaml:2: the view of restart has until and for"},
		{"reads", "faults:\n- restart: {process: a, at: 1s, view: \"after CREATE pods\", reads: some}", `p.yaml:2: reads of restart is "some"; want all or cached`},
		{"restart when", "faults:\n- restart: {process: a}", "p.yaml:2: restart needs at"},
		{"moment", "faults:\n- restart: {process: a, at: soon}", `p.yaml:2: at of restart is "soon"; want a duration`},
		{"moment of a call", "faults:\n- restart: {process: a, at: MAKE pods}", `p.yaml:2: at of restart: selector "MAKE pods": "MAKE" is no verb`},
		{"pause when", "faults:\n- pause: {process: a, for: 1s}", "p.yaml:2: pause needs one of from"},
		{"pause how long", "faults:\n- pause: {process: a, at: 1s}", "p.yaml:2: pause needs for"},
		{"skip how far", "faults:\n- skip: {at: 1s}", "p.yaml:2: skip needs clock"},
		{"skip when", "faults:\n- skip: {clock: 1s}", "p.yaml:2: skip needs at"},
		{"cut what", "faults:\n- cut: {at: 1s}", "p.yaml:2: cut needs watch"},
		{"cut when", "faults:\n- cut: {watch: pods}", "p.yaml:2: cut needs one of from"},
		{"cut and then", "faults:\n- cut: {watch: pods, at: 1s, resume: maybe}", `p.yaml:2: resume of cut is "maybe"; want ok or gone`},
		{"merge all", "faults:\n- merge: {watch: \"*\", from: \"ADDED a\", to: \"DELETED a\"}", "p.yaml:2: merge needs watch, the one resource"},
		{"merge what", "faults:\n- merge: {watch: pods, from: \"ADDED a\"}", "p.yaml:2: merge needs from and to"},
		{"no body", "faults:\n- hold", "p.yaml:2: a fault has one kind"},
		{"two kinds", "faults:\n- hold: {watch: a}\n  latency: {}", "p.yaml:2: a fault has one kind"},
		{"misspelt, and so missing", "faults:\n- crash:\n    after: CREATE pods\n    proces: operator", `p.yaml:4: crash has no "proces"; it has `},
		{"nothing misspelt", "faults:\n- latency: {between: [1s, 2s]}", "p.yaml:2: latency needs request or watch"},
		{"unknown field", "faults:\n- hold: {watch: a, form: b}", `p.yaml:2: hold has no "form"`},
		{"alias", "faults:\n- hold: &x {watch: a}\n- hold: *x", "p.yaml:3: hold is written as"},
		{"hold what", "faults:\n- hold: {client: a}", "p.yaml:2: hold needs watch"},
		{"hold ends twice", "faults:\n- hold: {watch: a, for: 1s, until: \"CREATE pods\"}", "p.yaml:2: hold has until and for"},
		{"event selector", "faults:\n- hold:\n    watch: a\n    from: \"CHANGED x\"", `p.yaml:4: from of hold: selector "CHANGED x": "CHANGED" is no event type`},
		{"call selector", "faults:\n- answer:\n    request: update x\n    code: 409", `p.yaml:3: request of answer: selector "update x": "update" is no verb`},
		{"occurrence", "faults:\n- answer: {request: \"UPDATE x #0\", code: 409}", `p.yaml:2: request of answer: selector "UPDATE x #0": "#0" is no occurrence`},
		{"numbered twice", "faults:\n- answer: {request: \"UPDATE x #1\", nth: 1, code: 409}", "p.yaml:2: nth of answer"},
		{"code", "faults:\n- answer: {request: \"*\", code: 404}", `p.yaml:2: code of answer is "404"`},
		{"committed conflict", "faults:\n- answer: {request: \"*\", code: 409, committed: true}", "p.yaml:2: no API server commits a call and answers 409"},
		{"conflict of a read", "faults:\n- answer: {request: \"GET pods\", code: 409}", "p.yaml:2: no GET is answered by 409"},
		{"retry after", "faults:\n- answer: {request: \"*\", code: 403, retryAfter: 1s}", "p.yaml:2: an answer of 403 has no Retry-After"},
		{"no bounds", "faults:\n- latency: {request: \"*\"}", "p.yaml:2: latency needs between"},
		{"bounds", "faults:\n- latency: {request: \"*\", between: [2s, 1s]}", "p.yaml:2: between of latency has the longer time first"},
		{"duration", "faults:\n- latency: {request: \"*\", between: [1, 2]}", `p.yaml:2: between of latency is "1"; want a duration`},
		{"commit of what", "faults:\n- storage: {at: 1s}", "p.yaml:2: storage needs commit"},
		{"too slow a commit", "faults:\n- storage: {commit: 40s}", "p.yaml:2: commit of storage is 40s; the API server gives up on a call after 34s"},
		{"a state ends twice", "faults:\n- storage: {commit: 1s, for: 1s, until: \"CREATE pods\"}", "p.yaml:2: storage has until and for"},
		{"whose token", "faults:\n- token: {at: 1s}", "p.yaml:2: token needs client"},
		{"quota of what", "faults:\n- quota: {request: \"UPDATE pods\"}", "p.yaml:2: quota needs request"},
		{"webhook for what", "faults:\n- webhook: {fails: refused}", "p.yaml:2: webhook needs request"},
		{"webhook fails how", "faults:\n- webhook: {request: \"*\", fails: badly}", `p.yaml:2: fails of webhook is "badly"`},
		{"admission of a read", "faults:\n- webhook: {request: \"GET pods\", fails: refused}", "p.yaml:2: no admission webhook is asked about a GET"},
		{"conversion that denies", "faults:\n- webhook: {request: \"GET pods\", fails: denied, conversion: true}", "p.yaml:2: a conversion webhook cannot deny"},
		{"limit of a refusal", "faults:\n- webhook: {request: \"*\", fails: refused, after: 1s}", "p.yaml:2: after of webhook goes with"},
		{"version", "faults:\n- unserve: {version: a/b/c}", `p.yaml:2: version of unserve is "a/b/c"`},
		{"no version", "faults:\n- unserve: {at: 1s}", `p.yaml:2: version of unserve is ""`},
		{"schema of what", "faults:\n- schema: {crd: pods, field: spec.x, required: true, at: 1s}", "p.yaml:2: schema needs crd"},
		{"field", "faults:\n- schema: {crd: a.b, field: \"spec[0]\", required: true, at: 1s}", `p.yaml:2: field of schema is "spec[0]"`},
		{"no demand", "faults:\n- schema: {crd: a.b, field: spec.x, at: 1s}", "p.yaml:2: schema demands one thing"},
		{"two demands", "faults:\n- schema: {crd: a.b, field: spec.x, minimum: 1, removed: true, at: 1s}", "p.yaml:2: schema demands one thing"},
		{"schema when", "faults:\n- schema: {crd: a.b, field: spec.x, minimum: 1}", "p.yaml:2: schema needs at"},
		{"bound", "faults:\n- schema: {crd: a.b, field: spec.x, minimum: x, at: 1s}", `p.yaml:2: minimum of schema is "x"; want a whole number`},
		{"enum", "faults:\n- schema: {crd: a.b, field: spec.x, enum: y, at: 1s}", "p.yaml:2: enum of schema is a list"},
		{"latency of what", "faults:\n- latency: {between: [1s, 2s]}", "p.yaml:2: latency needs request or watch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Parse("p.yaml", []byte(c.plan))
			if err == nil {
				t.Fatalf("parsed as:\n%s", p)
			}
			if !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error is\n%s\nwant it to begin with\n%s", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Error("the error has more than one line")
			}
			bad, ok := errors.AsType[interface {
				error
				BadInput() bool
			}](err)
			if !ok || !bad.BadInput() {
				t.Error("the error is not marked as bad input")
			}
		})
	}
}

func TestViewsPrintAsTheyParse(t *testing.T) {
	for _, text := range []string{
		"current", "before CREATE statefulsets/rabbit-server #2", "after UPDATE pods/a/status", "pods before CREATE secrets/s",
		"rabbitmqclusters.rabbitmq.com/rabbit -n prod after DELETE rabbitmqclusters/rabbit #2", "* before * #7", "pods/a after DELETE *",
	} {
		v, err := ParseView(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if v.String() != text {
			t.Errorf("%q prints as %q", text, v)
		}
	}
}

// TestDocs: the plans of the manual are plans.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "plans.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		plan, _, _ := strings.Cut(block, "```")
		p, err := Parse("docs/plans.md", []byte(plan))
		if err != nil {
			t.Errorf("%v in\n%s", err, plan)
			continue
		}
		for _, f := range p.Faults {
			shown[f.Kind()] = true
		}
	}
	for kind := range kinds {
		if !shown[kind] || !strings.Contains(string(text), "`"+kind+": {") {
			t.Errorf("docs/plans.md has no example of %s, or no row", kind)
		}
	}
}

// TestUnserveDiscovery: what is gone is in none of the documents by which clients find an API.
func TestUnserveDiscovery(t *testing.T) {
	for _, c := range []struct{ fault, path, doc, want string }{
		{
			"unserve: {version: a.io/v1}", "/apis", `{"kind":"APIGroupList","groups":[{"name":"a.io","versions":[{"version":"v1"}]},{"name":"b.io","versions":[{"version":"v1"}]}]}`,
			`{"groups":[{"name":"b.io","versions":[{"version":"v1"}]}],"kind":"APIGroupList"}`,
		},
		{
			"unserve: {version: a.io/v1}", "/apis/a.io", `{"kind":"APIGroup","name":"a.io","versions":[{"version":"v1"},{"version":"v2"}],"preferredVersion":{"version":"v1"}}`,
			`{"kind":"APIGroup","name":"a.io","preferredVersion":{"version":"v2"},"versions":[{"version":"v2"}]}`,
		},
		{
			"unserve: {version: a.io/v1, resource: xs}", "/apis/a.io/v1", `{"kind":"APIResourceList","resources":[{"name":"xs"},{"name":"xs/status"},{"name":"ys"}]}`,
			`{"kind":"APIResourceList","resources":[{"name":"ys"}]}`,
		},
		{
			"unserve: {version: a.io/v1, resource: xs}", "/apis", `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"a.io"},"versions":[{"version":"v1","resources":[{"resource":"xs"},{"resource":"ys"}]}]}]}`,
			`{"items":[{"metadata":{"name":"a.io"},"versions":[{"resources":[{"resource":"ys"}],"version":"v1"}]}],"kind":"APIGroupDiscoveryList"}`,
		},
		{
			"unserve: {version: v1, resource: xs}", "/api", `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1","resources":[{"resource":"xs"},{"resource":"ys"}]}]}]}`,
			`{"items":[{"metadata":{},"versions":[{"resources":[{"resource":"ys"}],"version":"v1"}]}],"kind":"APIGroupDiscoveryList"}`,
		},
		{"unserve: {version: v2}", "/api", `{"kind":"APIVersions","versions":["v1","v2"]}`, `{"kind":"APIVersions","versions":["v1"]}`},
		{"unserve: {version: v1, resource: xs}", "/api", `{"kind":"APIVersions","versions":["v1"]}`, `{"kind":"APIVersions","versions":["v1"]}`},
		{"unserve: {version: a.io/v1}", "/api", `{"kind":"APIVersions","versions":["v1"]}`, `{"kind":"APIVersions","versions":["v1"]}`},
		// Nothing is left of these.
		{"unserve: {version: v1}", "/api", `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1","resources":[{"resource":"xs"}]}]}]}`, ""},
		{"unserve: {version: v1}", "/api", `{"kind":"APIVersions","versions":["v1"]}`, ""},
		{"unserve: {version: a.io/v1}", "/apis/a.io", `{"kind":"APIGroup","name":"a.io","versions":[{"version":"v1"}]}`, ""},
		{"unserve: {version: a.io/v1, resource: xs}", "/apis/a.io/v1", `{"kind":"APIResourceList","resources":[{"name":"xs"},{"name":"xs/status"}]}`, ""},
		{"unserve: {version: a.io/v1}", "/apis", `no JSON`, `no JSON`},
	} {
		f, err := ParseFault(c.fault)
		if err != nil {
			t.Fatal(err)
		}
		v := NewMachine(&Plan{Faults: []Fault{f}}, Options{}).Arrive(Call{Client: "op", Verb: "get", Path: c.path})
		if v.Edit == nil {
			t.Errorf("%s: %s is not edited", c.fault, c.path)
			continue
		}
		switch got, found := v.Edit([]byte(c.doc)); {
		case found != (c.want != ""):
			t.Errorf("%s: %s: something is left is %t: %s", c.fault, c.path, found, got)
		case found && string(got) != c.want:
			t.Errorf("%s: %s becomes\n%s\nwant\n%s", c.fault, c.path, got, c.want)
		}
	}
}

// TestConversionRefusal: the answer is the API server's: an error without a Status of its own, which says what was to be
// converted: what a create brings, else what is stored.
func TestConversionRefusal(t *testing.T) {
	f, err := ParseFault(`webhook: {request: "* cups.example.com", conversion: true, fails: timeout}`)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMachine(&Plan{Faults: []Fault{f}}, Options{Stored: func(group, resource string) (string, string) {
		if group != "example.com" || resource != "cups" {
			t.Errorf("asked for %s.%s", resource, group)
		}
		return "v1", "Cup"
	}})
	for verb, version := range map[string]string{"create": "v2", "get": "v1", "update": "v1"} {
		v := m.Arrive(Call{Client: "op", Verb: verb, Group: "example.com", Version: "v2", Resource: "cups", Name: "a"})
		_, _, body := v.Refusal.Answer()
		want := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"conversion webhook for example.com/` + version +
			`, Kind=Cup failed: Post \"https://webhook.default.svc:443/?timeout=30s\": context deadline exceeded","code":500}` + "\n"
		if string(body) != want {
			t.Errorf("%s: %s\nwant %s", verb, body, want)
		}
	}
}

// TestSchemaDemands: each demand changes the field's schema, or its parent's, and nothing else.
func TestSchemaDemands(t *testing.T) {
	const crd = `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"spec":{"properties":{"size":{"type":"integer"}},"required":["name"]}}}}}]}}`
	for _, c := range []struct{ demand, want string }{
		{"minimum: -1", `{"properties":{"size":{"minimum":-1,"type":"integer"}},"required":["name"]}`},
		{"maximum: 3", `{"properties":{"size":{"maximum":3,"type":"integer"}},"required":["name"]}`},
		{"pattern: \"^a\"", `{"properties":{"size":{"pattern":"^a","type":"integer"}},"required":["name"]}`},
		{"enum: [a, \"1\"]", `{"properties":{"size":{"enum":["a","1"],"type":"integer"}},"required":["name"]}`},
		{"required: true", `{"properties":{"size":{"type":"integer"}},"required":["name","size"]}`},
		{"removed: true", `{"properties":{},"required":["name"]}`},
	} {
		f, err := ParseFault("schema: {crd: a.b, field: spec.size, " + c.demand + ", at: 1s}")
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.(*Schema).alter([]byte(crd))
		want := strings.Replace(crd, crd[strings.Index(crd, `{"properties":{"size"`):strings.Index(crd, `}}}}]}}`)], c.want, 1)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.demand, err, got, want)
		}
	}
}

// TestSchemaKeepsNumbers: what the fault does not change stays as it was, numbers that no float64 holds included.
func TestSchemaKeepsNumbers(t *testing.T) {
	const crd = `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"at":{"maximum":9223372036854775807,"minimum":-9007199254740993,"type":"integer"},"size":{"type":"integer"}}}}}]}}`
	f, err := ParseFault("schema: {crd: a.b, field: size, minimum: 1, at: 1s}")
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.(*Schema).alter([]byte(crd))
	if want := strings.Replace(crd, `"size":{`, `"size":{"minimum":1,`, 1); err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestEmptyPlans(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}", "faults:\n", "faults: []", "---\n"} {
		p, err := Parse("p", []byte(text))
		if err != nil || p.String() != "seed: 0\nfaults: []\n" {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
}

func TestEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		if p, err := ParseFile("p.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "p.yaml:1: the file holds no plan") {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
	if _, err := ParseFile("p.yaml", []byte("faults: []")); err != nil {
		t.Error(err)
	}
}

// FuzzParse: whatever parses prints as a plan that parses to the same, and each fault's one-line form is a
// line that parses to the same fault.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no transcripts to start from: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // testdata/fuzz is a folder
		}
		for _, part := range strings.Split(string(text), "----\n") {
			plan, _, _ := strings.Cut(part, "\n\n")
			f.Add(plan)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("p", []byte(text))
		if err != nil {
			return
		}
		again, err := Parse("p", []byte(p.String()))
		if err != nil {
			t.Fatalf("printed as\n%s\nwhich does not parse: %v", p, err)
		}
		if d := cmp.Diff(p, again); d != "" {
			t.Fatalf("printed as\n%s\nwhich is another plan:\n%s", p, d)
		}
		for _, one := range p.Faults {
			line := one.String()
			if strings.ContainsAny(line, "\n\r") {
				t.Fatalf("%q is more than one line", line)
			}
			f, err := ParseFault(line)
			if err != nil {
				t.Fatalf("%s does not parse: %v", line, err)
			}
			if d := cmp.Diff(one, f); d != "" {
				t.Fatalf("%s is another fault: %s", line, d)
			}
		}
	})
}

package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/opreplay/opreplay/traces"
)

// told is a script in words: the initial objects, then the steps.
func told(s *Script) []string {
	var out []string
	for _, o := range s.Initial {
		out = append(out, fmt.Sprintf("there %s at %d", o.Ref, o.ResourceVersion))
	}
	for _, st := range s.Steps {
		line := st.String()
		if st.Collected {
			line += " (collected)"
		}
		out = append(out, line)
	}
	return out
}

var byProcess = traces.Manifest{Operators: []traces.Operator{{Process: "op", FieldManagers: []string{"op"}}}}

func TestScript(t *testing.T) {
	x := thing{name: "x", uid: "00000000-0000-0000-0000-000000000001", rv: 10}
	at := func(o thing, rv int64, size int) thing { o.rv, o.size = rv, size; return o }
	for _, c := range []struct {
		name string
		play func(s *scene)
		want []string
	}{
		{
			"what was there before the first call, and what others did then",
			func(s *scene) {
				s.watch("oprec", traces.Sync, "things", x)
				s.watch("oprec", traces.Modified, "things", at(x, 11, 1))
				s.call("op", "list", "things", 200, "", nil)
				s.watch("oprec", traces.Modified, "things", at(x, 12, 2))
				s.watch("op", traces.Modified, "things", at(x, 12, 2)) // the same event again
			},
			[]string{"there a/things/x at 11", "change a/things/x"},
		},
		{
			"the operator's own writes are left to it",
			func(s *scene) {
				s.watch("oprec", traces.Sync, "things", x)
				s.call("op", "list", "things", 200, "", nil)
				y := at(x, 11, 5)
				s.call("op", "update", "things", 200, y.json(), &y)
				s.watch("oprec", traces.Modified, "things", y)
			},
			[]string{"there a/things/x at 10"},
		},
		{
			"a write that changed nothing is answered by another's version",
			func(s *scene) {
				s.watch("oprec", traces.Sync, "things", x)
				s.call("op", "list", "things", 200, "", nil)
				y := at(x, 11, 5)
				s.watch("oprec", traces.Modified, "things", y)
				s.call("op", "update", "things", 200, y.json(), &y)
			},
			[]string{"there a/things/x at 10", "change a/things/x"},
		},
		{
			"a version that only an answer shows is what the next change comes from",
			func(s *scene) {
				s.watch("oprec", traces.Sync, "things", x)
				s.call("op", "list", "things", 200, "", nil)
				y := at(x, 11, 5)
				s.call("op", "update", "things", 200, y.json(), &y)
				z := at(x, 12, 5) // only the version differs: nobody else changed anything
				s.watch("oprec", traces.Modified, "things", z)
			},
			[]string{"there a/things/x at 10"},
		},
		{
			"created by others and by the operator",
			func(s *scene) {
				s.call("op", "list", "things", 200, "", nil)
				now := sceneStart.Add(time.Second)
				theirs := thing{name: "theirs", uid: "00000000-0000-0000-0000-000000000002", rv: 20, created: now}
				own := thing{name: "own", uid: "00000000-0000-0000-0000-000000000003", rv: 21, created: now}
				s.watch("oprec", traces.Added, "things", theirs)
				s.call("op", "create", "things", 201, own.json(), &own)
				s.watch("oprec", traces.Added, "things", own)
			},
			[]string{"create a/things/theirs"},
		},
		{
			"listed late, but older than the run",
			func(s *scene) {
				s.call("op", "get", "things", 404, "", nil)
				s.watch("op", traces.Sync, "things", x)
				young := thing{name: "young", uid: "00000000-0000-0000-0000-000000000002", rv: 20, created: sceneStart.Add(5 * time.Second)}
				s.watch("op", traces.Sync, "things", young)
			},
			[]string{"there a/things/x at 10", "create a/things/young"},
		},
		{
			"a streaming list is a list",
			func(s *scene) {
				s.call("op", "get", "things", 404, "", nil)
				s.watch("op", traces.Added, "things", x)
				s.append(&traces.WatchEvent{
					Head: traces.Head{TS: s.tick()}, Type: "BOOKMARK", Stream: "op/things", Process: "op",
					Object: `{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}`,
				})
			},
			[]string{"there a/things/x at 10"},
		},
		{
			"deleted with a finalizer by somebody, let go by the operator",
			func(s *scene) {
				f := x
				f.finalizers = []string{"op"}
				s.watch("oprec", traces.Sync, "things", f)
				s.call("op", "list", "things", 200, "", nil)
				d := f
				d.rv, d.deleting = 11, true
				s.watch("oprec", traces.Modified, "things", d)
				free := d
				free.rv, free.finalizers = 12, nil
				s.call("op", "update", "things", 200, free.json(), &free)
				d.rv = 12
				s.watch("oprec", traces.Deleted, "things", d)
			},
			[]string{"there a/things/x at 10", "delete a/things/x"},
		},
		{
			"deleted by the operator, let go by somebody",
			func(s *scene) {
				f := x
				f.finalizers = []string{"other"}
				s.watch("oprec", traces.Sync, "things", f)
				s.call("op", "list", "things", 200, "", nil)
				d := f
				d.rv, d.deleting = 11, true
				r := &traces.Request{
					Process: "op", Verb: "delete", Code: 200, StartSeq: s.w.Seq(), Start: s.tick(), ResponseBody: d.json(),
				}
				r.Version, r.Resource, r.Namespace, r.Name, r.UID, r.ResourceVersion = "v1", "things", "a", "x", d.uid, 11
				r.TS = s.tick()
				s.append(r)
				s.watch("oprec", traces.Modified, "things", d)
				d.rv = 12
				s.watch("oprec", traces.Deleted, "things", d)
			},
			[]string{"there a/things/x at 10", "change a/things/x"},
		},
		{
			"the operator deletes an owner, the garbage collector what it owned",
			func(s *scene) {
				owned := thing{name: "owned", uid: "00000000-0000-0000-0000-000000000002", rv: 9, owner: x.uid}
				s.watch("oprec", traces.Sync, "things", x)
				s.watch("oprec", traces.Sync, "parts", owned)
				s.call("op", "list", "things", 200, "", nil)
				gone := at(x, 11, 0)
				s.call("op", "delete", "things", 200, "", &gone)
				s.watch("oprec", traces.Deleted, "things", gone)
				owned.rv = 12
				s.watch("oprec", traces.Deleted, "parts", owned)
			},
			[]string{"there a/parts/owned at 9", "there a/things/x at 10", "delete a/parts/owned (collected)"},
		},
		{
			"an operator's watch that loses sight of an object does not delete it",
			func(s *scene) {
				s.watch("oprec", traces.Sync, "things", x)
				s.call("op", "list", "things", 200, "", nil)
				s.watch("op", traces.Deleted, "things", at(x, 11, 1))
				s.watch("oprec", traces.Modified, "things", at(x, 11, 1))
			},
			[]string{"there a/things/x at 10", "change a/things/x"},
		},
		{
			"a deletion that the recorder inferred from a later list",
			func(s *scene) {
				s.watch("oprec", traces.Sync, "things", x)
				s.call("op", "list", "things", 200, "", nil)
				gone := &traces.WatchEvent{Head: traces.Head{TS: s.tick()}, Type: "DELETED", Stream: "oprec/things", Process: "oprec"}
				gone.Version, gone.Resource, gone.Namespace, gone.Name, gone.UID = "v1", "things", "a", "x", x.uid
				s.append(gone)
			},
			[]string{"there a/things/x at 10", "delete a/things/x"},
		},
		{
			"a new incarnation, and heartbeats of others",
			func(s *scene) {
				s.watch("oprec", traces.Sync, "things", x)
				s.call("op", "list", "things", 200, "", nil)
				s.watch("oprec", traces.Deleted, "things", at(x, 11, 0))
				again := x
				again.uid, again.rv = "00000000-0000-0000-0000-000000000009", 12
				again.created = sceneStart.Add(time.Second)
				s.watch("oprec", traces.Added, "things", again)
				s.watch("oprec", traces.Added, "leases.coordination.k8s.io", thing{name: "node", uid: "00000000-0000-0000-0000-000000000008", rv: 13})
			},
			[]string{"there a/things/x at 10", "delete a/things/x", "create a/things/x"},
		},
		{
			"definitions first, namespaces next",
			func(s *scene) {
				s.watch("oprec", traces.Sync, "things", x)
				s.watch("oprec", traces.Sync, "namespaces", thing{name: "a", uid: "00000000-0000-0000-0000-00000000000a", rv: 50, cluster: true})
				s.watch("oprec", traces.Sync, "customresourcedefinitions.apiextensions.k8s.io", thing{name: "c", uid: "00000000-0000-0000-0000-00000000000c", rv: 90, cluster: true})
				s.call("op", "list", "things", 200, "", nil)
			},
			[]string{"there customresourcedefinitions.apiextensions.k8s.io/c at 90", "there namespaces/a at 50", "there a/things/x at 10"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, byProcess)
			c.play(s)
			if d := cmp.Diff(c.want, told(s.script(Identity{}))); d != "" {
				t.Errorf("script (-want +got):\n%s", d)
			}
		})
	}
}

func TestScriptTimes(t *testing.T) {
	s := newScene(t, byProcess)
	x := thing{name: "x", uid: "00000000-0000-0000-0000-000000000001", rv: 10}
	s.watch("oprec", traces.Sync, "things", x)   // at 100 ms
	s.call("op", "list", "things", 200, "", nil) // from 200 ms to 300 ms
	x.rv, x.size = 11, 1
	s.watch("oprec", traces.Modified, "things", x) // at 400 ms
	got := s.script(Identity{})
	if want := sceneStart.Add(200 * time.Millisecond); !got.Start.Equal(want) {
		t.Errorf("starts at %s, want %s", got.Start, want)
	}
	if got.Span != 200*time.Millisecond || len(got.Steps) != 1 || got.Steps[0].At != 200*time.Millisecond {
		t.Errorf("span %s, steps %+v", got.Span, got.Steps)
	}
}

// TestScriptByManagers: a capture has no calls; managedFields say who wrote.
func TestScriptByManagers(t *testing.T) {
	s := newScene(t, traces.Manifest{})
	x := thing{name: "x", uid: "00000000-0000-0000-0000-000000000001", rv: 10, manager: "kubectl-edit", finalizers: []string{"f"}}
	s.watch("oprec", traces.Sync, "things", x)
	own := x
	own.rv, own.size, own.manager = 11, 3, "op"
	s.watch("oprec", traces.Modified, "things", own)
	theirs := own
	theirs.rv, theirs.size, theirs.manager = 12, 4, "kubectl-edit"
	s.watch("oprec", traces.Modified, "things", theirs)
	made := thing{name: "made", uid: "00000000-0000-0000-0000-000000000002", rv: 13, manager: "op", created: sceneStart.Add(time.Second)}
	s.watch("oprec", traces.Added, "things", made)
	got := told(s.script(Identity{FieldManagers: []string{"op"}}))
	if d := cmp.Diff([]string{"there a/things/x at 10", "change a/things/x"}, got); d != "" {
		t.Errorf("script (-want +got):\n%s", d)
	}
}

func TestIdentify(t *testing.T) {
	write := func(s *scene, process string, n int) {
		for range n {
			s.call(process, "update", "things", 200, "{}", nil)
		}
	}
	two := traces.Manifest{Operators: []traces.Operator{{Process: "a"}, {Process: "b"}}}
	started := traces.Manifest{Operators: []traces.Operator{{Process: "a"}, {Process: "b", Command: []string{"./b"}}}}
	for _, c := range []struct {
		name     string
		manifest traces.Manifest
		play     func(*scene)
		given    Identity
		command  string
		process  string
		how      string
		err      string
	}{
		{"given", two, nil, Identity{UserAgents: []string{"x"}}, "op", "", "as given", ""},
		{"the only one", byProcess, nil, Identity{}, "other", "op", "by the trace's manifest", ""},
		{"named like the command", two, nil, Identity{}, "/bin/b", "b", "by the trace's manifest", ""},
		{"started by the recorder", started, nil, Identity{}, "other", "b", "by the trace's manifest", ""},
		{"several", two, nil, Identity{}, "other", "", "", "say by --process which of them is the operator"},
		{"inferred", traces.Manifest{}, func(s *scene) {
			write(s, "kubectl", 9)
			write(s, "busy", 3)
			write(s, "lazy", 1)
		}, Identity{}, "other", "busy", "inferred: of all processes busy wrote most, 3 times", ""},
		{"nobody", traces.Manifest{}, func(s *scene) { write(s, "kube-scheduler", 9) }, Identity{}, "other", "", "", "nobody in it writes like an operator"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, c.manifest)
			if c.play != nil {
				c.play(s)
			}
			id, err := Identify(t.Context(), s.open(), c.given, c.command)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error is %v, want %q in it", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if id.Process != c.process || id.How != c.how {
				t.Errorf("identified as %+v", id)
			}
		})
	}
}

func TestServiceAccount(t *testing.T) {
	for in, want := range map[string]string{
		"ns/op": "system:serviceaccount:ns:op", "system:serviceaccount:ns:op": "system:serviceaccount:ns:op",
		"op": "", "a/b/c": "", "/op": "",
	} {
		got, err := ServiceAccount(in)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// Two managers whose entries changed within one second: a change that is known to be an outsider's is not
// replayed in the operator's name, whichever entry comes last.
func TestOutsidersAreNotTakenForTheOperator(t *testing.T) {
	const before = `{"metadata":{"managedFields":[{"manager":"kubectl-create","operation":"Update","time":"2026-01-01T00:00:00Z"}]}}`
	const after = `{"metadata":{"managedFields":[
		{"manager":"kubectl-create","operation":"Update","time":"2026-01-01T00:00:00Z"},
		{"manager":"kubectl-edit","operation":"Update","time":"2026-01-01T00:00:05Z"},
		{"manager":"op","operation":"Update","subresource":"status","time":"2026-01-01T00:00:05Z"}]}}`
	isOp := func(m string) bool { return m == "op" }
	if got := writerBut(before, after, isOp); got != "kubectl-edit" {
		t.Errorf("the change is %q's, want kubectl-edit", got)
	}
	if got := writerBut(before, after, nil); got != "op" {
		t.Errorf("without that knowledge the last entry counts: %q", got)
	}
}

// IPAddresses of Services are left to the API server, those of others are an outsider's.
func TestAddressesOfServicesAreNoSteps(t *testing.T) {
	address := func(labels string) *object {
		o := &object{versions: []*version{{json: `{"metadata":{"name":"10.0.0.5","labels":{` + labels + `}}}`}}}
		o.ref.Group, o.ref.Version, o.ref.Resource, o.ref.Name = "networking.k8s.io", "v1", "ipaddresses", "10.0.0.5"
		return o
	}
	for labels, want := range map[string]int{`"ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io"`: 0, `"a":"b"`: 1} {
		m := &maker{Script: &Script{}, since: -1}
		m.object(address(labels))
		if len(m.Steps) != want {
			t.Errorf("with the labels %s: %d steps, want %d", labels, len(m.Steps), want)
		}
	}
}

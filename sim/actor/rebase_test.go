package actor

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func value(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func TestRebase(t *testing.T) {
	for _, c := range []struct{ name, before, after, current, want string }{
		{"same object", `{"a":1}`, `{"a":2}`, `{"a":1}`, `{"a":2}`},
		{"others' members stay", `{"a":1}`, `{"a":2}`, `{"a":1,"b":3}`, `{"a":2,"b":3}`},
		{"unchanged members are not brought back", `{"a":1,"b":1}`, `{"a":2,"b":1}`, `{"a":5}`, `{"a":2}`},
		{"removed", `{"a":1,"b":{"c":1,"d":1}}`, `{"b":{"d":1}}`, `{"a":7,"b":{"c":2,"d":2,"e":2}}`, `{"b":{"d":2,"e":2}}`},
		{"nested in nothing", `{}`, `{"spec":{"a":{"b":1}}}`, `{}`, `{"spec":{"a":{"b":1}}}`},
		{"kind of value changes", `{"a":{"b":1}}`, `{"a":"x"}`, `{"a":{"b":2}}`, `{"a":"x"}`},
		{"null", `{"a":1}`, `{"a":null}`, `{"a":1}`, `{"a":null}`},
		{"finalizer removed", `["x","y"]`, `["x"]`, `["z","y","x"]`, `["z","x"]`},
		{"finalizer added", `["x"]`, `["x","y"]`, `["x","z"]`, `["x","z","y"]`},
		{"finalizer added twice", `["x"]`, `["x","y"]`, `["x","y"]`, `["x","y"]`},
		{"all finalizers removed", `{"f":["x"]}`, `{}`, `{"f":["x","y"]}`, `{}`},
		{
			"conditions by type",
			`[{"type":"Ready","status":"False"},{"type":"Old"}]`,
			`[{"type":"Ready","status":"True"}]`,
			`[{"type":"Mine"},{"type":"Old"},{"type":"Ready","status":"False","note":"n"}]`,
			`[{"type":"Mine"},{"type":"Ready","status":"True","note":"n"}]`,
		},
		{
			"containers by name",
			`[{"name":"a","image":"1"}]`, `[{"name":"a","image":"2"}]`,
			`[{"name":"side","image":"s"},{"name":"a","image":"1","env":[]}]`,
			`[{"name":"side","image":"s"},{"name":"a","image":"2","env":[]}]`,
		},
		{"owners by uid", `[]`, `[{"uid":"1","name":"n"}]`, `[{"uid":"2","name":"n"}]`, `[{"uid":"2","name":"n"},{"uid":"1","name":"n"}]`},
		{"list without key", `[{"x":1}]`, `[{"x":2}]`, `[{"x":3}]`, `[{"x":2}]`},
		{"double values", `["a","a"]`, `["a"]`, `["b"]`, `["a"]`},
		{"list that is the recorded one keeps after's order", `["a","b"]`, `["b","c","a"]`, `["a","b"]`, `["b","c","a"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after, current := value(t, c.before), value(t, c.after), value(t, c.current)
			if d := cmp.Diff(value(t, c.want), Rebase(before, after, current)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			// Nothing may be changed in place.
			for text, v := range map[string]any{c.before: before, c.after: after, c.current: current} {
				if d := cmp.Diff(value(t, text), v); d != "" {
					t.Errorf("an argument was changed:\n%s", d)
				}
			}
		})
	}
}

func TestMergePatch(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`{"a":1,"b":{"c":1,"d":[1]}}`, `{"b":{"c":2,"d":[1]},"e":{}}`, `{"a":null,"b":{"c":2},"e":{}}`},
		{`{"a":{"b":1}}`, `{"a":{"b":1}}`, `{}`},
		{`{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":null}}`},
		{`{"a":[{"b":1}]}`, `{"a":[{"b":2}]}`, `{"a":[{"b":2}]}`},
	} {
		from, to := value(t, c.from).(map[string]any), value(t, c.to).(map[string]any)
		patch, differs := MergePatch(from, to)
		if d := cmp.Diff(value(t, c.want), any(patch)); d != "" {
			t.Errorf("%s to %s (-want +got):\n%s", c.from, c.to, d)
		}
		if differs != (c.want != "{}") {
			t.Errorf("%s to %s: differs is %v", c.from, c.to, differs)
		}
	}
}

// FuzzRebase: on the recorded object itself a change gives the recorded result; where nothing changed it
// changes nothing; doing it twice is doing it once.
func FuzzRebase(f *testing.F) {
	f.Add(`{"a":[{"name":"x"},{"name":"y"}],"b":{"c":1}}`, `{"a":[{"name":"y","z":1}]}`, `{"a":[{"name":"w"}]}`)
	f.Add(`{"f":["a","b"]}`, `{"f":["b"]}`, `{"f":["c","a"]}`)
	f.Fuzz(func(t *testing.T, x, y, z string) {
		var before, after, current map[string]any
		for text, into := range map[*string]*map[string]any{&x: &before, &y: &after, &z: &current} {
			if json.Unmarshal([]byte(*text), into) != nil || *into == nil {
				return
			}
		}
		if d := cmp.Diff(any(after), Rebase(before, after, before)); d != "" {
			t.Errorf("on the recorded object:\n%s", d)
		}
		if d := cmp.Diff(any(current), Rebase(before, before, current)); d != "" {
			t.Errorf("without a change:\n%s", d)
		}
		once := Rebase(before, after, current)
		if d := cmp.Diff(once, Rebase(before, after, once)); d != "" {
			t.Errorf("twice:\n%s", d)
		}
	})
}

package jsontext

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGet(t *testing.T) {
	const s = ` { "a" : { "b\"c" : [1, {"x": "}"} ], "n" : -1.5e3 , "t":true}, "z": "\\" }`
	for path, want := range map[string]string{
		"z": `"\\"`, "a/n": "-1.5e3", "a/t": "true", `a/b\"c`: `[1, {"x": "}"} ]`,
	} {
		if got, ok := Get(s, strings.Split(path, "/")...); !ok || got != want {
			t.Errorf("%s: got %q, %v, want %q", path, got, ok, want)
		}
	}
	for _, path := range []string{"b", "a/x", "z/q"} {
		if got, ok := Get(s, strings.Split(path, "/")...); ok {
			t.Errorf("%s: found %q, it isn't there", path, got)
		}
	}
}

func TestObjects(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		want                []string
	}{
		{
			name:   "what every write changes is no difference",
			before: `{"metadata":{"name":"a","resourceVersion":"1","generation":1,"managedFields":[{"manager":"x"}]},"spec":{"n":1}}`,
			after:  `{"metadata":{"name":"a","resourceVersion":"2","generation":2,"managedFields":[{"manager":"y"}]},"spec":{"n":1}}`,
		},
		{
			name:   "the same names inside spec are differences",
			before: `{"spec":{"resourceVersion":"1"}}`,
			after:  `{"spec":{"resourceVersion":"2"}}`,
			want:   []string{`value spec.resourceVersion "1" > "2"`},
		},
		{
			name:   "a condition is addressed by its type",
			before: `{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Up","status":"True"}]}}`,
			after:  `{"status":{"conditions":[{"type":"Up","status":"False"},{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:01Z"}]}}`,
			want: []string{
				`time status.conditions[Ready].lastTransitionTime "2026-01-01T00:00:00Z" > "2026-01-01T00:00:01Z"`,
				`value status.conditions[Up].status "True" > "False"`,
			},
		},
		{
			name:   "an element that goes, one that comes",
			before: `{"status":{"conditions":[{"type":"A","status":"True"}]}}`,
			after:  `{"status":{"conditions":[{"type":"B","status":"True"}]}}`,
			want: []string{
				`value status.conditions[A] {"type":"A","status":"True"} > `,
				`value status.conditions[B]  > {"type":"B","status":"True"}`,
			},
		},
		{
			name:   "fields that come and go with their parent",
			before: `{"metadata":{},"status":{"phase":"A","nodes":["x"]}}`,
			after:  `{"metadata":{"labels":{"a":"b"}}}`,
			want:   []string{`value metadata.labels.a  > "b"`, `value status.phase "A" > `, `value status.nodes ["x"] > []`},
		},
		{
			name:   "only the order of names",
			before: `{"status":{"members":["a","b","c"],"pods":[{"name":"x"},{"name":"y"}]}}`,
			after:  `{"status":{"members":["c","a","b"],"pods":[{"name":"y"},{"name":"x"}]}}`,
			want:   []string{`order status.members ["a","b","c"] > ["c","a","b"]`, `order status.pods x,y > y,x`},
		},
		{
			name:   "empty in another way",
			before: `{"spec":{"a":[],"c":{},"n":1,"s":""}}`,
			after:  `{"spec":{"b":null,"c":null,"n":1.0,"s":"x"}}`,
			want:   []string{`form spec.a [] > `, `form spec.c {} > null`, `form spec.n 1 > 1.0`, `value spec.s "" > "x"`, `form spec.b  > null`},
		},
		{
			name:   "key order is no difference",
			before: `{"spec":{"a":1,"b":2}}`,
			after:  `{"spec":{"b":2,"a":1}}`,
		},
		{
			name:   "a longer number is another number",
			before: `{"spec":{"a":1,"b":12}}`,
			after:  `{"spec":{"a":12,"b":12}}`,
			want:   []string{`value spec.a 1 > 12`},
		},
		{
			name:   "unix times, and numbers that are none",
			before: `{"status":{"updatedAt":1767225600,"serial":1767225600}}`,
			after:  `{"status":{"updatedAt":1767225601,"serial":1767225601}}`,
			want:   []string{`time status.updatedAt 1767225600 > 1767225601`, `value status.serial 1767225600 > 1767225601`},
		},
		{
			name:   "keys with dots",
			before: `{"metadata":{"annotations":{"a.io/x":"1"}}}`,
			after:  `{"metadata":{"annotations":{"a.io/x":"2"}}}`,
			want:   []string{`value metadata.annotations['a.io/x'] "1" > "2"`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Differ
			for range 2 { // the second time with the memory of the first
				var got []string
				for _, l := range d.Objects(c.before, c.after) {
					got = append(got, fmt.Sprintf("%s %s %s > %s", l.Kind, l.Path, l.Before, l.After))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Fatal(diff)
				}
			}
		})
	}
}

// What is split is compared as what isn't, and asked as what isn't.
func TestTop(t *testing.T) {
	a := `{"kind":"A", "metadata" : {"name":"x","labels":{"a":"1"}},"spec":{"n":[1,2]},"status":{"up":true}}`
	b := `{"kind":"A","metadata":{"name":"x","labels":{"a":"2"}},"spec":{"n":[1,2]},"data":{"k":"v"}}`
	var d, e Differ
	ta, tb := Split(a), Split(b)
	if diff := cmp.Diff(d.Objects(a, b), e.Tops(&ta, &tb)); diff != "" {
		t.Error(diff)
	}
	if v, ok := ta.Get("metadata", "labels", "a"); !ok || v != `"1"` {
		t.Error(v, ok)
	}
	if _, ok := ta.Get("data"); ok {
		t.Error("found what isn't there")
	}
	for _, odd := range []string{"", "[]", `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}`, `{"a":`, `{"a":1`, `{}`} {
		top := Split(odd)
		want, ok := Get(odd, "i")
		if got, found := top.Get("i"); got != want || found != ok {
			t.Errorf("%s: %q, %v", odd, got, found)
		}
		if diff := cmp.Diff(append([]Leaf{}, d.Objects(odd, b)...), append([]Leaf{}, e.Tops(&top, &tb)...)); diff != "" {
			t.Errorf("%s: %s", odd, diff)
		}
	}
}

// The next version is split and compared as if the one before weren't known.
func TestFollow(t *testing.T) {
	a := `{"apiVersion":"v1","kind":"A","metadata":{"labels":{"a":"1"},"managedFields":[{"time":"x"}],"name":"x","resourceVersion":"8"},"spec":{"n":[1,2]},"status":{"up":true}}`
	for _, b := range []string{
		a,
		strings.Replace(a, `"8"`, `"1009"`, 1),
		strings.Replace(a, `"8"`, `"9"`, 1),
		strings.Replace(a, `"a":"1"`, `"a":"22","b":"3"`, 1),
		strings.Replace(a, `"labels":{"a":"1"},`, ``, 1),
		strings.Replace(a, `[1,2]`, `[2,1]`, 1),
		strings.Replace(a, `true`, `false`, 1),
		strings.Replace(a, `{"up":true}`, `null`, 1),
		strings.Replace(a, `"8"},`, `"8"} , `, 1),
		strings.Replace(a, `,"status":{"up":true}`, ``, 1),
		strings.Replace(a, `}}`, `},"tail":1}`, 1),
		strings.Replace(a, `"kind":"A",`, ``, 1),
		strings.Replace(a, `"apiVersion":"v1","kind":"A"`, `"kind":"A","apiVersion":"v1"`, 1),
		a[:len(a)-1], a[:len(a)-9], a[:70], `{}`, `[]`, ``,
	} {
		sameFollow(t, a, b)
		sameFollow(t, b, a)
	}
}

func sameFollow(t *testing.T, a, b string) {
	t.Helper()
	var d, e Differ
	ta, tb := Split(a), Split(b)
	want := append([]Leaf{}, d.Tops(&ta, &tb)...)
	top, leaves := e.Follow(&ta, b)
	if diff := cmp.Diff(want, append([]Leaf{}, leaves...)); diff != "" {
		t.Errorf("%s\n%s: %s", a, b, diff)
	}
	if top != tb {
		t.Errorf("%s\n%s: split as %v, want %v", a, b, top, tb)
	}
}

// Of what was sent, what is stored otherwise; what the server added is its own.
func TestWithin(t *testing.T) {
	for _, c := range []struct {
		part, whole string
		want        []string
	}{
		{`{"status":{"n":1}}`, `{"kind":"A","metadata":{"name":"x"},"spec":{"a":{"b":1}},"status":{"m":[1],"n":1}}`, nil},
		{`{"status":{"n":1}}`, `{"kind":"A","status":{"m":[1],"n":2}}`, []string{"status.n"}},
		{`{"spec":{"list":[{"name":"a","x":1}],"gone":"v"},"status":{"n":1}}`, `{"spec":{"list":[{"name":"a","x":2,"added":1},{"name":"b"}],"more":1},"status":{"n":3}}`, []string{"spec.list[a].x", "spec.gone", "status.n"}},
		{`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":{"x":1}}`, `{"z":0,"a":1,"b":1,"c":1,"d":1,"e":1,"f":2,"g":1,"h":{"x":2},"y":1}`, []string{"f", "h.x"}},
	} {
		var d Differ
		var got []string
		for _, l := range d.Within(c.part, c.whole) {
			got = append(got, l.Path)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s in %s: %s", c.part, c.whole, diff)
		}
		top := Split(c.whole)
		if diff := cmp.Diff(append([]Leaf{}, d.Within(c.part, c.whole)...), append([]Leaf{}, new(Differ).WithinTop(c.part, &top)...)); diff != "" {
			t.Errorf("%s in %s, which was split: %s", c.part, c.whole, diff)
		}
	}
}

func FuzzDiff(f *testing.F) {
	f.Add(`{"metadata":{"name":"a"},"status":{"c":[{"type":"A"}]}}`, `{"metadata":{"name":"b"},"status":{"c":[{"type":"B"},1]}}`)
	f.Add(`[[[[`, `{"a":`)
	f.Add(`{"a":"\`, `{"a":"\"}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var d Differ
		if n := len(d.Objects(a, a)); n != 0 {
			t.Errorf("%d differences of a text from itself", n)
		}
		d.Objects(a, b)
		d.Within(a, b)
		ta, tb := Split(a), Split(b)
		d.Tops(&ta, &tb)
		d.WithinTop(a, &tb)
		sameFollow(t, a, b)
		Get(a, "metadata", "name")
		if json.Valid([]byte(a)) && Skip(a, 0) < 0 {
			t.Errorf("valid JSON %q has no end", a)
		}
	})
}

func BenchmarkObjects(b *testing.B) {
	spec := strings.Repeat(`{"name":"container","image":"registry/image:1.2.3","env":[{"name":"A","value":"b"}]},`, 30)
	object := func(rv int) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Widget","metadata":{"name":"a","managedFields":[{"manager":"m","time":"2026-01-01T00:00:%02dZ"}],"resourceVersion":"%d"},"spec":{"containers":[%s{}]},"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:%02dZ"}]}}`, rv, rv, spec, rv)
	}
	x, y := object(10), object(11)
	var d Differ
	b.SetBytes(int64(len(x)))
	b.ReportAllocs()
	for b.Loop() {
		if len(d.Objects(x, y)) != 1 {
			b.Fatal("want one difference")
		}
	}
}

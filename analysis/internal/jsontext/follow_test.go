package jsontext

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mutate changes a few places of a text, as servers do it, as people do it, and as nobody does.
func mutate(r *rand.Rand, s string) string {
	for range 1 + r.IntN(4) {
		i := r.IntN(len(s) + 1)
		j := min(len(s), i+r.IntN(12))
		switch r.IntN(9) {
		case 0:
			s = s[:i] + s[j:]
		case 1:
			s = s[:i] + strings.Repeat(string(` ,:"{}[]\1a`[r.IntN(11)]), 1+r.IntN(2)) + s[i:]
		case 2:
			if k := strings.Index(s[i:], `"`); k >= 0 {
				s = s[:i+k+1] + s[i+k:]
			}
		case 3: // a member goes, or some
			if k := strings.Index(s[i:], `,"`); k >= 0 {
				if l := strings.Index(s[i+k+2:], `,"`); l >= 0 {
					s = s[:i+k] + s[i+k+2+l:]
				}
			}
		case 4: // one comes
			if k := strings.Index(s[i:], `,"`); k >= 0 {
				s = s[:i+k] + `,"new` + strconv.Itoa(r.IntN(9)) + `":[{"name":"x"}]` + s[i+k:]
			}
		default: // a character of a word or number is another
			if k := strings.IndexAny(s[i:], "0123456789abcdefTZ"); k >= 0 {
				s = s[:i+k] + strings.Repeat(string("0123456789xyzTZ"[r.IntN(15)]), r.IntN(3)) + s[i+k+1:]
			}
		}
	}
	return s
}

// Whatever has become of an object's text, it is split and compared as if the one before weren't known.
func TestFollowMutated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	odd := `{"kind":"A" , "metadata":{"x":{"y":[1,{"z":"\"}"}]},"managedFields":[{"time":"1","manager":"a"},{"manager":"b\\"}],"e":{}},"status":{"a":{"b":{"c":1,"d":[]}},"n":-1.5e3},"spec":{ "q" : null }}`
	for _, seed := range []string{versions(3)[2], pods(1)[0], odd} {
		s := seed
		for range 4000 {
			next := mutate(r, s)
			sameFollow(t, s, next)
			if t.Failed() {
				return
			}
			if s = next; r.IntN(6) == 0 {
				s = seed
			}
		}
	}
}

// The places where a comparison could go wrong that reads no more than it must.
func TestFollowTraps(t *testing.T) {
	for _, c := range [][2]string{
		{`{"spec":{"n":1},"status":{"n":2}}`, `{"spec":{"n":1],"status":{"n":2}}`},
		{`{"spec":{"n":1},"status":{"n":2}}`, `{"spec":{"n":1},"status":{"n":2]}`},
		{`{"spec":{"m":{"n":1},"o":1}}`, `{"spec":{"m":{"n":1],"o":1}}`},
		{`{"metadata":{"generation":{"x":1},"name":"n"}}`, `{"metadata":{"generation":{"x":2},"name":"n"}}`},
		{`{"metadata": {"generation":{"x":1},"name":"n"}}`, `{"metadata": {"generation":{"x":2},"name":"n"}}`},
		{`{"metadata": { "generation":{"x":1},"name":"n"}}`, `{"metadata": { "generation":{"x":2},"name":"n"}}`},
		{`{"a":1,"metadata":{"name":"n","uid":"u"}}`, `{"a":1,"metadata":null}`},
		{`{"a":"x\\"}`, `{"a":"x\""}`},
		{`{"a":"x\"y"}`, `{"a":"x"}`},
	} {
		sameFollow(t, c[0], c[1])
		sameFollow(t, c[1], c[0])
	}
	for n := maxDepth - 5; n < maxDepth+5; n++ {
		deep := func(open, leaf, end string) string {
			return `{"status":` + strings.Repeat(open, n) + leaf + strings.Repeat(end, n) + `,"tail":1}`
		}
		for _, leaf := range []string{`2`, `{"b":3}`, `[]`, `[{}]`} {
			sameFollow(t, deep(`{"a":`, `1`, `}`), deep(`{"a":`, leaf, `}`))
			sameFollow(t, deep(`[`, `1`, `]`), deep(`[`, leaf, `]`))
		}
		sameFollow(t, `{"status":{"n":1},"tail":1}`, deep(`{"a":`, `1`, `}`))
		for _, fields := range []string{`[{"time":"2","f":%}]`, `[%]`, `[ %]`} { // the last has a blank, and isn't marked
			next := `{"metadata":{"managedFields":` + strings.Replace(fields, `%`, strings.Repeat(`{"a":`, n)+`1`+strings.Repeat(`}`, n), 1) + `}}`
			sameFollow(t, `{"metadata":{"managedFields":[{"time":"1"}]}}`, next)
			sameFollow(t, next, strings.Replace(next, `"2"`, `"33"`, 1))
		}
		sameFollow(t, `{"status":{"n":1},"tail":1}`, `{"status":{"n":`+deep(`{"a":`, `1`, `}`)+`},"tail":1}`)
	}
}

// What changes most is followed without a look at the rest.
func TestFollowed(t *testing.T) {
	const a = `{"kind":"A","metadata":{"labels":{"l":"1"},"managedFields":[{"manager":"m","time":"1"},{"manager":"n","time":"2"}],"name":"n","resourceVersion":"9"},"spec":{"n":1,"o":{"p":[1,{"q":true}]}},"status":{"list":[1],"n":9}}`
	var d Differ
	for _, c := range [][2]string{
		{`"n":9`, `"n":95`},
		{`"n":1`, `"n":100`},
		{`"9"`, `"10"`},
		{`"time":"1"`, `"time":"3"`},
		{`"manager":"m"`, `"manager":"somebody"`},
		{`"l":"1"`, `"l":"1","m":"2"`},
		{`true`, `false`},
		{`[1]`, `[]`},
		{`"name":"n",`, ``},
		{`,"n":9`, ``},
		{`,{"manager":"n","time":"2"}`, ``},
		{`{"n":1,`, `{"m":[],`},
	} {
		top := Split(a)
		var next Top
		if !d.follow(&top, strings.Replace(a, c[0], c[1], 1), &next) {
			t.Errorf("%s to %s was not followed", c[0], c[1])
		}
		sameFollow(t, a, strings.Replace(a, c[0], c[1], 1))
	}
}

// Metadata may grow until their places can't be marked, and shrink again.
func TestFollowFar(t *testing.T) {
	object := func(n int, time, label string) string {
		return `{"kind":"A","metadata":{"annotations":{"a":"` + strings.Repeat("x", n) + `"},"labels":{"l":"` + label + `"},"managedFields":[{"manager":"m","time":"` + time + `"}],"name":"n"},"status":{"n":1}}`
	}
	marked := false
	for n := 65300; n < 65560; n++ {
		a := object(n, "1", "1")
		was := marked
		top := Split(a)
		if marked = top.boxOf(1) != nil; n > 65300 && marked && !was {
			t.Fatalf("marked at %d, but not with one byte less", n)
		}
		sameFollow(t, a, object(n+1, "1", "1"))
		sameFollow(t, a, object(n-1, "2", "22"))
		sameFollow(t, a, object(n, "22", "1"))
		sameFollow(t, a, object(n, "333", "22"))
		sameFollow(t, a, object(n+1, "22", "22"))
	}
	if marked {
		t.Fatal("the last is marked, so the limit was not met")
	}
	for _, n := range []int{0, 9, 400, 70000, 131000} {
		for by := range 12 {
			sameFollow(t, object(9, "1", "1"), object(n+by, "2026", "2"))
			sameFollow(t, object(n+by, "1", "1"), object(9, "2", "2"))
			sameFollow(t, object(9, "1", "1"), object(9, strings.Repeat("1", n+by), "2"))
			sameFollow(t, object(9, "1", "1"), object(9, `1","x":"`+strings.Repeat("1", n+by), "2"))
		}
	}
}

// A sequence of versions is followed without a look through any of them.
func TestFollowVersions(t *testing.T) {
	for _, texts := range [][]string{versions(60), pods(8)} {
		var d Differ
		top := Split(texts[0])
		for _, s := range texts[1:] {
			before := top
			if !d.follow(&before, s, &top) {
				t.Fatalf("not followed:\n%s\n%s", before.s, s)
			}
			if diff := cmp.Diff(Split(s), top, cmp.AllowUnexported(Top{}, span{}, mark{}, entry{}, box{})); diff != "" {
				t.Fatal(diff)
			}
		}
	}
}

// There is a Top for each object that is known, and it is copied for each version.
func TestTopIsSmall(t *testing.T) {
	if size := reflect.TypeFor[Top]().Size(); size > 256 {
		t.Errorf("%d bytes, want no more than four cache lines", size)
	}
}

// What is marked is found as what isn't.
func TestGetMarked(t *testing.T) {
	s := pods(1)[0]
	top := Split(s)
	if top.boxes[1].last == 0 || top.entered != 2 {
		t.Errorf("metadata or status isn't marked, or managedFields aren't: %v, %d", top.boxes, top.entered)
	}
	for _, path := range []string{
		"metadata/annotations", "metadata/labels/app", "metadata/uid", "metadata/nothing", "metadata", "status/conditions", "status/startTime",
		"status/phase/x", "status/nothing", "spec/nodeName", "nothing", "nothing/else", "kind",
	} {
		keys := strings.Split(path, "/")
		want, ok := Get(s, keys...)
		if got, found := top.Get(keys...); got != want || found != ok {
			t.Errorf("%s: %q, %v, want %q, %v", path, got, found, want, ok)
		}
	}
}

func TestLastManager(t *testing.T) {
	for _, c := range []struct {
		fields, want string
		known        []string
	}{
		{fields: `[{"manager":"a","time":"2026-01-02"},{"manager":"b","time":"2026-01-01"}]`, want: "a"},
		{fields: `[{"manager":"a","time":"2026-01-01"},{"manager":"b","time":"2026-01-01"}]`, want: "b"},
		{fields: `[{"time":"2026-01-01","manager":"a"},{"manager":"b"}]`, want: "a"},
		{fields: `[{"manager":"a","time":"2026-01-01"},{"manager":"b","time":"2026-01-01"}]`, known: []string{"b"}, want: "a"},
		{fields: `[{"manager":"a","time":"2026-01-01"},{"manager":"b","time":"2026-01-02"}]`, known: []string{"b"}, want: ""},
		{fields: `[{"manager":"a", "time":"2026-01-02"} , {"manager":"b","time":"2026-01-01"}]`, want: "a"},
		{fields: `[{"fieldsV1":{"manager":"x","time":"2027"},"manager":"a","time":"2026","manager":"c"}]`, want: "a"},
		{fields: `[{"time":"2027","manager":"a","time":"2025"},{"manager":"b","time":"2026"}]`, want: "a"},
		{fields: `[` + strings.Repeat(`{"manager":"a","time":"2026-01-02"},`, 20) + `{"manager":"b","time":"2026-01-03"}]`, want: "b"},
		{fields: `[]`},
		{fields: `null`},
		{fields: `[1]`},
		{fields: `[],"managedFields":[{"manager":"a","time":"2026-01-02"}]`},
	} {
		known := map[string]bool{}
		for _, m := range c.known {
			known[m] = true
		}
		top := Split(`{"kind":"A","metadata":{"managedFields":` + c.fields + `,"name":"x"}}`)
		if got := top.LastManager(known); got != c.want {
			t.Errorf("%s but for %s: %q, want %q", c.fields, c.known, got, c.want)
		}
	}
}

// What is sound has no surprise, and ends where Skip ends.
func FuzzSound(f *testing.F) {
	f.Add(`{"a":[1,{"b":"\""}],"c":{}}`)
	f.Add(`[{]}`)
	f.Fuzz(func(t *testing.T, s string) {
		if end := sound(s, 0, 0); end >= 0 && end != Skip(s, 0) {
			t.Errorf("%q ends at %d, want %d", s, end, Skip(s, 0))
		}
	})
}

func FuzzFollow(f *testing.F) {
	for _, texts := range [][]string{versions(12), pods(3)} {
		for i, s := range texts[1:] {
			f.Add(texts[i], s)
		}
	}
	f.Add(`{"metadata":{"a":1},"metadata":{"a":2}}`, `{"metadata":{"a":1},"metadata":{"a":3}}`)
	f.Add(`{"status":{"a":1}}`, `{"status":{"a":1 ,"b":2}}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		sameFollow(t, a, b)
		ta := Split(a)
		for i := range max(0, ta.n) {
			key := ta.key(i)
			want, ok := Get(a, key)
			if got, found := ta.Get(key); got != want || found != ok {
				t.Errorf("%s of %q: %q, %v, want %q, %v", key, a, got, found, want, ok)
			}
			Members(want, func(inner, _ string) bool {
				want, ok := Get(a, key, inner)
				got, found := ta.Get(key, inner)
				if got != want || found != ok {
					t.Errorf("%s, %s of %q: %q, %v, want %q, %v", key, inner, a, got, found, want, ok)
				}
				return true
			})
		}
		fields, _ := Get(a, "metadata", "managedFields")
		whole := Split(`{"metadata":{"managedFields": ` + fields + `}}`) // the blank keeps it from being marked
		if got, want := ta.LastManager(nil), whole.LastManager(nil); got != want && sound(fields, 0, 0) == len(fields) {
			t.Errorf("last manager of %q: %q, want %q", a, got, want)
		}
	})
}

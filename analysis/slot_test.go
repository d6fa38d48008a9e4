package analysis

import (
	"reflect"
	"slices"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// Every memory of a detector has a place of its own, or two would find each other's.
func TestMemoriesHavePlaces(t *testing.T) {
	for _, d := range All() {
		var given []placed
		if r, ok := d.(rememberer); ok {
			given = r.memories()
		}
		v := reflect.ValueOf(d).Elem()
		for i := range v.NumField() {
			f := v.Field(i)
			if !f.Addr().Type().Implements(reflect.TypeFor[placed]()) {
				continue
			}
			listed := slices.ContainsFunc(given, func(p placed) bool { return reflect.ValueOf(p).Pointer() == f.Addr().Pointer() })
			if !listed {
				t.Errorf("%s: memories() lacks %s", d.Name(), v.Type().Field(i).Name)
			}
		}
	}
}

// What is kept of an object ends with it, and so does what comes later, apart from what others keep.
func TestMemory(t *testing.T) {
	m := &Model{objects: map[Key]*State{}}
	var a, b memory[int]
	a.is(0)
	b.is(1)
	there, gone := &State{place: 300}, &State{place: 1}
	there.Name = "there"
	m.objects[there.Key()] = there
	*a.open(there), *b.open(there), *b.open(gone) = 1, 2, 3
	if *b.open(there)++; *b.of(there) != 3 {
		t.Error("what is kept is made anew")
	}
	gone.Gone = true
	if x := b.take(gone); *x != 3 || b.take(gone) != nil {
		t.Error("what is gone is not taken once")
	}
	*b.open(gone) = 4
	if *a.of(there) != 1 || *b.of(there) != 3 || *b.of(gone) != 4 || a.of(gone) != nil {
		t.Error("found another's")
	}
	if got := b.sorted(m); !slices.Equal(got, []*State{gone, there}) {
		t.Error(got)
	}
	if len(a.sorted(m)) != 1 {
		t.Error(a.sorted(m))
	}
	next := &State{place: 300} // in the place of one of which nobody took what was kept
	if a.of(next) != nil || *a.open(next) != 0 {
		t.Error("found what was kept of the last one in that place")
	}
}

// An object's place is another's when it is gone, and only then.
func TestPlacesOfObjects(t *testing.T) {
	m := newModel(&traces.Manifest{}, listen(nil))
	one, two, three := &State{}, &State{}, &State{}
	m.house(one)
	m.house(two)
	one.kept = 5
	m.gone(one)
	m.gone(one) // its deletion settles when another of its name comes
	m.house(three)
	four := &State{}
	m.house(four)
	if one.kept != 0 || three.place != one.place || two.place == three.place || four.place == three.place || m.places != 3 {
		t.Errorf("%d: %d %d %d %d", m.places, one.place, two.place, three.place, four.place)
	}
}

// Processes are told apart.
func TestPerProcess(t *testing.T) {
	var list perProcess[int]
	p, q := &Process{}, &Process{}
	for i, x := range []struct {
		p    *Process
		made bool
	}{{p, true}, {q, true}, {p, false}, {q, false}} {
		n, made := list.of(x.p)
		if *n++; made != x.made || *n != 1+i/2 {
			t.Errorf("%d: %v, %d", i, made, *n)
		}
	}
	if list.find(&Process{Name: "r"}) != nil || new(perProcess[int]).find(nil) != nil {
		t.Error("found a process that isn't there")
	}
}

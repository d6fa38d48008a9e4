package analysis

import (
	"reflect"
	"slices"
	"testing"
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
	b.at(1)
	there, gone := &State{slots: make([]any, 2)}, &State{slots: make([]any, 2)}
	there.Name, there.key = "there", Key{Name: "there"}
	m.objects[there.key] = there
	one, two, three := 1, 2, 3
	a.keep(there, &one)
	b.keep(there, &two)
	b.keep(gone, &two)
	gone.Gone = true
	if b.take(gone) != &two || b.take(gone) != nil {
		t.Error("what is gone is not taken once")
	}
	b.keep(gone, &three)
	if a.of(there) != &one || b.of(there) != &two || b.of(gone) != &three || a.of(gone) != nil {
		t.Error("found another's")
	}
	if got := b.sorted(m); !slices.Equal(got, []*State{gone, there}) {
		t.Error(got)
	}
	if len(a.sorted(m)) != 1 {
		t.Error(a.sorted(m))
	}
}

// Processes are told apart.
func TestPerProcess(t *testing.T) {
	var list *perProcess[int]
	p, q := &Process{}, &Process{}
	for i, x := range []struct {
		p    *Process
		made bool
	}{{p, true}, {q, true}, {p, false}, {q, false}} {
		n, made := of(&list, x.p)
		if *n++; made != x.made || *n != 1+i/2 {
			t.Errorf("%d: %v, %d", i, made, *n)
		}
	}
	if list.find(&Process{}) != nil {
		t.Error("found a process that isn't there")
	}
}

package trial

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// mask is what differs between unaltered runs.
type mask struct {
	objects map[string]bool // that are there in one and not in the other
	fields  map[string]bool // resource, a space, general path
	counts  map[string]bool // of incarnations, deletes, creates
}

func newMask() *mask {
	return &mask{objects: map[string]bool{}, fields: map[string]bool{}, counts: map[string]bool{}}
}

// learn masks what differs between two unaltered runs.
func (m *mask) learn(a, b *story) {
	for _, x := range compare(a, b, newMask()) {
		if x.Oracle == oracleDiffers {
			m.fields[x.Resource+" "+general(x.Field)] = true
			continue
		}
		m.objects[x.Object] = true
	}
	for _, x := range counts(a, b, newMask()) {
		m.counts[x.Object] = true
	}
}

// compare says in what the end of a run is not that of the reference.
func compare(ref, run *story, m *mask) []Alarm {
	all, _ := ends(ref, run, m)
	return all
}

// ends compares the end of a run with that of the reference. Strays is how many fields differ that are not compared.
func ends(ref, run *story, m *mask) (all []Alarm, strays int) {
	want, have := ref.end(), run.end()
	keys := map[string]bool{}
	for k := range want {
		keys[k] = true
	}
	for k := range have {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		w, h := want[k], have[k]
		switch {
		case m.objects[k]:
		case len(w) != len(h):
			all = append(all, number(k, w, h))
		default:
			for i := range w {
				if h[i].hash != w[i].hash {
					a, n := differences(ref, run, k, w[i], h[i], m)
					all, strays = append(all, a...), strays+n
				}
			}
		}
	}
	return all, strays
}

// number says that there are not as many objects of a name as in the reference.
func number(key string, w, h []*object) Alarm {
	one := slices.Concat(w, h)[0]
	a := Alarm{Oracle: oracleExtra, Object: key, Resource: kindOf(&one.Identity)}
	if len(h) < len(w) {
		a.Oracle = oracleMissing
	}
	if one.base != "" {
		a.Expected, a.Got = strconv.Itoa(len(w)), strconv.Itoa(len(h))
		a.What = fmt.Sprintf("at the end there are %d %s in place of %d", len(h), key, len(w))
		return a
	}
	a.Expected, a.Got = "it exists", "there is none"
	a.What = "at the end there is no " + key
	if len(h) > len(w) {
		a.Expected, a.Got = a.Got, a.Expected
		a.What = "at the end there is a " + key + ", which the reference does not have"
	}
	return a
}

// differences are the fields in which an object differs, and how many there are that outsiders wrote and that say nothing.
func differences(ref, run *story, key string, w, h *object, m *mask) (all []Alarm, strays int) {
	a, b := ref.leaves(w), run.leaves(h)
	kind := kindOf(&w.Identity)
	paths := map[string]bool{}
	for p := range a {
		paths[p] = true
	}
	for p := range b {
		paths[p] = true
	}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		x, inA := a[p]
		y, inB := b[p]
		if inA == inB && (x == y || x == older) || m.fields[kind+" "+general(p)] {
			continue
		}
		all = append(all, Alarm{
			Oracle: oracleDiffers, Object: key, Resource: kind, Field: p, Expected: said(x, inA), Got: said(y, inB),
			What: fmt.Sprintf("at the end %s of %s is %s in place of %s", p, key, said(y, inB), said(x, inA)),
		})
	}
	if len(all) == 0 || !strayed(ref, run, key) {
		return all, 0
	}
	found := len(all)
	byA, ownA := ref.outsiders(w)
	byB, ownB := run.outsiders(h)
	all = slices.DeleteFunc(all, func(a Alarm) bool {
		return (byA[a.Field] || byB[a.Field]) && !ownA[a.Field] && !ownB[a.Field]
	})
	return all, found - len(all)
}

// longestValue bounds what is printed of a value.
const longestValue = 120

func said(value string, there bool) string {
	if !there {
		return "absent"
	}
	if r := []rune(value); len(r) > longestValue {
		return string(r[:longestValue]) + "…"
	}
	return value
}

// counts says what came to be more often than in the reference.
func counts(ref, run *story, m *mask) (all []Alarm) {
	want, have := ref.incarnations(), run.incarnations()
	byKey := map[string]*object{}
	for _, o := range run.objects {
		byKey[run.key(o)] = o
	}
	for _, k := range slices.Sorted(maps.Keys(have)) {
		o := byKey[k]
		name := nameOf(&o.Identity)
		if want[k] == 0 || o.base != "" || have[k] <= want[k] || run.deletes[name] <= ref.deletes[name] || m.counts[k] {
			continue
		}
		all = append(all, Alarm{
			Oracle: oracleRemade, Object: k, Resource: kindOf(&o.Identity),
			Expected: times(ref.deletes[name]), Got: times(run.deletes[name]),
			What: fmt.Sprintf("the operator deleted %s %s (%s in the reference), and it was made again", k, times(run.deletes[name]), times(ref.deletes[name])),
		})
	}
	for _, k := range slices.Sorted(maps.Keys(run.generated)) {
		if run.generated[k] <= ref.generated[k] || m.counts[k] {
			continue
		}
		kind, _, _ := strings.Cut(k, " ")
		all = append(all, Alarm{
			Oracle: oracleTwice, Object: k, Resource: kind,
			Expected: times(ref.generated[k]), Got: times(run.generated[k]),
			What: fmt.Sprintf("the operator created %s %s (%s in the reference)", k, times(run.generated[k]), times(ref.generated[k])),
		})
	}
	return all
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

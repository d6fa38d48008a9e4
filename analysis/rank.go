package analysis

import (
	"cmp"
	"slices"
	"strconv"
)

// rank sorts findings by severity and effect, groups those with one cause, and numbers them: a group stands where its worst
// finding would, the cause first and then what follows from it.
func rank(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Severity, b.Severity), // "error" comes before "warning" in the alphabet too
			cmp.Compare(b.Effect.Weight, a.Effect.Weight),
			cmp.Compare(precedence(a.Detector), precedence(b.Detector)),
			cmp.Compare(a.Process, b.Process),
			slices.CompareFunc(a.Objects, b.Objects, Object.compare),
			cmp.Compare(a.Field, b.Field),
		)
	})
	cause := causes(findings)
	ordered := make([]Finding, 0, len(findings))
	taken := make([]bool, len(findings))
	for i := range findings {
		if taken[i] {
			continue
		}
		first := cause[i]
		id := "F" + strconv.Itoa(len(ordered)+1)
		take := func(k int) {
			f := findings[k]
			f.ID, f.Group, taken[k] = "F"+strconv.Itoa(len(ordered)+1), id, true
			ordered = append(ordered, f)
		}
		take(first)
		for k := range findings {
			if k != first && cause[k] == first {
				take(k)
			}
		}
	}
	copy(findings, ordered)
}

// causes is for each finding the one that explains it, itself where none does.
func causes(findings []Finding) []int {
	cause := make([]int, len(findings))
	for i := range findings {
		cause[i] = i
		best := precedence(findings[i].Detector)
		for k := range findings {
			if r := precedence(findings[k].Detector); r < best && sameCause(&findings[i], &findings[k]) {
				best, cause[i] = r, k
			}
		}
	}
	for i := range cause { // what explains may itself be explained, by what comes before it in the order of explanation
		for cause[cause[i]] != cause[i] {
			cause[i] = cause[cause[i]]
		}
	}
	return cause
}

// sameCause is whether two findings are about the same writes: the same process, and an object or the line of code in
// common.
func sameCause(a, b *Finding) bool {
	if a.Process != b.Process || a.Process == "" || a.Detector == "finalizer-hang" || b.Detector == "finalizer-hang" {
		return false
	}
	if a.Code != "" && a.Code == b.Code {
		return true
	}
	for _, x := range a.Objects {
		if slices.Contains(b.Objects, x) {
			return true
		}
	}
	return false
}

func sortNotes(notes []Note) {
	slices.SortStableFunc(notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Detector, b.Detector), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Process, b.Process),
			slices.CompareFunc(a.Objects, b.Objects, Object.compare), cmp.Compare(a.Field, b.Field), cmp.Compare(a.What, b.What))
	})
}

// maxObjects bounds the objects that a finding names.
const maxObjects = 10

// scored is an object with how bad it is.
type scored struct {
	object Object
	score  float64
}

// worst is the objects with the highest scores first, and how many there are.
func worst(list []scored) ([]Object, int64) {
	slices.SortFunc(list, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), a.object.compare(b.object))
	})
	out := []Object{}
	for _, s := range list[:min(len(list), maxObjects)] {
		out = append(out, s.object)
	}
	return out, int64(len(list))
}

// foremost is the objects with the one that the finding tells of before the others.
func foremost(objects []Object, o Object) []Object {
	if i := slices.Index(objects, o); i > 0 {
		objects = slices.Insert(slices.Delete(objects, i, i+1), 0, o)
	}
	return objects
}

package analysis

import (
	"cmp"
	"slices"
	"strconv"
)

// rank sorts findings by severity and effect, numbers them and groups those with one cause.
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
	for i := range findings {
		findings[i].ID = "F" + strconv.Itoa(i+1)
	}
	for i := range findings {
		f := &findings[i]
		f.Group = f.ID
		best := precedence(f.Detector)
		for j := range findings {
			g := &findings[j]
			if r := precedence(g.Detector); r < best && sameCause(f, g) {
				best, f.Group = r, g.ID
			}
		}
	}
	for i := range findings { // what explains may itself be explained
		for j := range findings {
			if findings[j].ID == findings[i].Group {
				findings[i].Group = findings[j].Group
			}
		}
	}
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

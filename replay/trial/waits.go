package trial

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// wait is a time in which the plan kept the operator from writing an object: from a write that it delayed, refused or left
// without an answer to the next one that got through.
type wait struct {
	name     string // of the object
	from, to int64
}

// waits are those of a run, in the order in which they began. One that does not end is none: nothing shows that it was the
// plan that was waited for. Nor is the time in which the operator did not try again.
func waits(p *played) (all []wait) {
	struck := map[string]int64{} // seq of the step at which a fault struck a request, by the step's subject
	vain := map[string]wait{}    // by object and subresource: from the first write in vain to the end of the last
	for _, row := range p.rows.All {
		switch r := row.(type) {
		case *traces.Decision:
			if r.Kind == "request" && r.Rule != "" {
				struck[r.Subject] = r.Seq
			}
		case *traces.Request:
			if !isWrite(r.Verb) || !slices.Contains(p.story.processes, r.Process) || idle(&r.Identity) {
				continue
			}
			name := nameOf(&r.Identity)
			key := name + " " + r.Subresource
			w, waiting := vain[key]
			if waiting && time.Duration(r.Start-w.to) > stillGoing {
				delete(vain, key)
				waiting = false
			}
			if struck[stepOf(r)] > r.StartSeq {
				if !waiting {
					w, waiting = wait{name: name, from: r.Start}, true
				}
				w.to = r.TS
				vain[key] = w
			}
			if r.Code >= 200 && r.Code <= 299 && waiting {
				all = append(all, wait{name, w.from, r.TS})
				delete(vain, key)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b wait) int { return cmp.Compare(a.from, b.from) })
	return all
}

// stepOf is the subject of the world's step that carried a request out.
func stepOf(r *traces.Request) string {
	s := strings.ToUpper(r.Verb) + " " + r.Resource + " " + slash(r.Namespace, r.Name)
	if r.Subresource != "" {
		s += " " + r.Subresource
	}
	return s + " by " + r.Process
}

// Detectors of which a finding may be the plan's doing, since it kept the operator waiting.
const (
	byTime      = "probe"       // says for how long something that the operator wrote was not true any more
	byIgnorance = "lost-status" // says that a writer did not know of a version: nobody knows of one of its own that had no answer
)

// waited says whether a finding is explained by the plan's having kept the operator from writing its object, or
// from knowing what it had written: (nearly) all of its time is in such waits, and in the end the object is as in the reference.
func waited(ref *Reference, p *played, m *mask, f *analysis.Finding) bool {
	var of []analysis.Object
	slack := time.Duration(0)
	switch {
	case len(f.Objects) == 0:
		return false
	case f.Detector == byTime && f.Field == analysis.FieldConditions: // the object that says it; the other is what it is about
		of, slack = f.Objects[:1], stillGoing
	case f.Detector == byIgnorance && f.Total <= int64(len(f.Objects)):
		of = f.Objects
	default:
		return false
	}
	all := waits(p)
	for _, o := range of {
		if left, met := uncovered(all, o.String(), f.First.UnixNano(), f.Last.UnixNano()); !met || left > slack {
			return false
		}
	}
	return asInReference(ref, p, m, of)
}

// uncovered is how much of a time lies in no wait for the object; met is whether any does.
func uncovered(all []wait, name string, from, to int64) (left time.Duration, met bool) {
	rest, until := to-from, from
	for _, w := range all {
		if w.name != name || w.to < from || w.from > to {
			continue
		}
		met = true
		rest -= max(min(w.to, to)-max(w.from, until), 0)
		until = max(until, min(w.to, to))
	}
	return time.Duration(rest), met
}

// asInReference is whether these objects are in the end as in the reference; one that the run does not know is not.
func asInReference(ref *Reference, p *played, m *mask, of []analysis.Object) bool {
	keys := map[string]bool{}
	for _, o := range of {
		x := p.story.byUID[o.UID]
		if x == nil {
			return false
		}
		keys[p.story.key(x)] = true
	}
	return !slices.ContainsFunc(compare(ref.story, p.story, m), func(a Alarm) bool { return keys[a.Object] })
}

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
// plan that was waited for.
func waits(p *played) (all []wait) {
	struck := map[string]int64{}  // seq of the step at which a fault struck a request, by the step's subject
	begun := map[string][]int64{} // by object and subresource: since when its writes have been in vain
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
			if struck[stepOf(r)] > r.StartSeq {
				begun[key] = append(begun[key], r.Start)
			}
			if r.Code >= 200 && r.Code <= 299 && len(begun[key]) > 0 {
				all = append(all, wait{name, slices.Min(begun[key]), r.TS})
				delete(begun, key)
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

// waited says whether a finding is explained by the plan's having kept the operator from writing one of its objects, or
// from knowing what it had written: nearly all of its time is in such waits, and in the end the object is as in the reference.
func waited(ref *Reference, p *played, m *mask, f *analysis.Finding) bool {
	if f.Detector != byTime && f.Detector != byIgnorance {
		return false
	}
	about, keys := map[string]bool{}, map[string]bool{}
	for _, o := range f.Objects {
		about[o.String()] = true
		if x := p.story.byUID[o.UID]; x != nil {
			keys[p.story.key(x)] = true
		}
	}
	from, to := f.First.UnixNano(), f.Last.UnixNano()
	left, until, met := to-from, from, false
	for _, w := range waits(p) {
		if !about[w.name] || w.to < from || w.from > to {
			continue
		}
		met = true
		left -= max(min(w.to, to)-max(w.from, until), 0)
		until = max(until, min(w.to, to))
	}
	return met && time.Duration(left) <= stillGoing && !slices.ContainsFunc(compare(ref.story, p.story, m), func(a Alarm) bool { return keys[a.Object] })
}

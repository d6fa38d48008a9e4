package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/stats"
	"github.com/opreplay/opreplay/traces"
)

// UselessReconciles counts the reconciles that change nothing, and says what a predicate on the watch would have saved:
// GenerationChangedPredicate leaves out events that leave the spec alone, LabelChangedPredicate and
// AnnotationChangedPredicate beside it let those of labels and annotations through. It is a note with its cost: a
// reconciler may well want to know of a child's status.
//
// Where reconciles are not recorded, it counts the events that reached the process instead.
type UselessReconciles struct {
	// MinEvents is how many passes of one controller, or events of one resource, are worth a note; MinShare is what
	// the lower bound of the share must reach that a predicate would have saved.
	MinEvents int64
	MinShare  float64

	passes map[passKind]*effects
	events map[resourceKind]*delivered
	recent memory[versions]
}

// NewUselessReconciles is a UselessReconciles with its thresholds set.
func NewUselessReconciles() *UselessReconciles {
	return &UselessReconciles{
		MinEvents: 30, MinShare: 0.3, passes: map[passKind]*effects{}, events: map[resourceKind]*delivered{},
	}
}

// Name implements Detector.
func (*UselessReconciles) Name() string { return "useless-reconciles" }

func (d *UselessReconciles) memories() []placed { return []placed{&d.recent} }

// class is what a version changed.
type class uint8

const (
	newSpec class = iota + 1
	newLabels
	newRest // status, or metadata that is neither label nor annotation
)

// Bounds of what is remembered of one object: versions whose class is known, for a pass follows its event within seconds,
// and passes whose version has not settled.
const (
	maxClasses   = 8
	maxUnsettled = 64
)

// versions are the last of one object.
type versions struct {
	n       int // there were
	rvs     [maxClasses]int64
	classes [maxClasses]class
	waiting []unsettled
	events  perProcess[*delivered] // in which they are counted
}

// unsettled is a pass that waits for the class of the version that triggered it.
type unsettled struct {
	rv   int64
	pass *effects
}

// settle notes the class of a version, and gives it to the passes that wait for it.
func (v *versions) settle(rv int64, k class) {
	v.rvs[v.n%maxClasses], v.classes[v.n%maxClasses] = rv, k
	v.n++
	if len(v.waiting) == 0 {
		return
	}
	v.waiting = slices.DeleteFunc(v.waiting, func(u unsettled) bool {
		if u.rv == rv {
			u.pass.saved(k)
		}
		return u.rv <= rv
	})
}

// class is that of a version, if it is one of the last.
func (v *versions) class(rv int64) (k class, known bool) {
	for i := range min(v.n, maxClasses) {
		if v.rvs[i] == rv {
			return v.classes[i], true
		}
	}
	return 0, false
}

// effects are the passes of one controller.
type effects struct {
	process, controller    string
	n, useless             int64
	generation, orMetadata int64 // useless ones that the predicates would have left out
}

// delivered are the events of one resource that reached one process.
type delivered struct {
	process                        string
	resource                       string
	n, sameSpec, sameMetadata, own int64
}

// Change implements ChangeDetector.
func (d *UselessReconciles) Change(m *Model, c *Change) {
	if c.State.Heartbeat {
		return
	}
	k := classOf(c)
	last := d.recent.open(c.State)
	last.settle(c.RV, k)
	if c.Created || c.Deleted || c.Generation == 0 || c.State.Deleting != 0 {
		return
	}
	for _, p := range m.Processes() {
		if !p.Watches || c.State.Newest(p) == 0 {
			continue
		}
		of, first := last.events.of(p)
		if first {
			*of = d.delivered(p, c.State)
		}
		x := *of
		x.n++
		if k != newSpec {
			x.sameSpec++
			if k == newRest {
				x.sameMetadata++
			}
			if c.Author.Process == p {
				x.own++
			}
		}
	}
}

// delivered is where the events of the object's resource to a process are counted.
func (d *UselessReconciles) delivered(p *Process, s *State) *delivered {
	key := resourceKind{p.Name, s.Group, s.Resource}
	x := d.events[key]
	if x == nil {
		x = &delivered{process: p.Name, resource: resourceName(s.Group, s.Resource)}
		d.events[key] = x
	}
	return x
}

// Gone implements GoneDetector.
func (d *UselessReconciles) Gone(_ *Model, s *State) { d.recent.take(s) }

func classOf(c *Change) class {
	switch {
	case c.Created, c.Deleted, c.Generation != c.PrevGen, c.Generation == 0, c.State.Deleting != 0: // a deletion raises the generation
		return newSpec
	case c.Touches("metadata.labels"), c.Touches("metadata.annotations"):
		return newLabels
	}
	return newRest
}

// saved counts a useless pass whose trigger is of that class.
func (e *effects) saved(k class) {
	if k == newLabels || k == newRest {
		e.generation++
	}
	if k == newRest {
		e.orMetadata++
	}
}

// Pass implements PassDetector.
func (d *UselessReconciles) Pass(_ *Model, x *Pass) {
	if x.Process == nil {
		return
	}
	e := d.passes[passKind{x.Process.Name, x.Row.Controller}]
	if e == nil {
		e = &effects{process: x.Process.Name, controller: strings.Clone(x.Row.Controller)}
		d.passes[passKind{e.process, e.controller}] = e
	}
	e.n++
	if x.Row.Outcome != "success" || x.Writes > x.Empty || x.Row.RequeueAfter != 0 {
		return
	}
	e.useless++
	t := x.Trigger
	if t.State == nil || t.State.Heartbeat || t.State.Gone || t.Type != traces.Modified {
		return // there is no class to come
	}
	last := d.recent.open(t.State)
	if k, settled := last.class(t.RV); settled {
		e.saved(k)
	} else if t.RV > t.State.RV && len(last.waiting) < maxUnsettled {
		last.waiting = append(last.waiting, unsettled{t.RV, e})
	}
}

// Findings implements Detector.
func (d *UselessReconciles) Findings(*Model) ([]Finding, []Note) {
	var notes []Note
	counted := map[string]bool{}
	for _, k := range slices.SortedFunc(maps.Keys(d.passes), passKind.compare) {
		e := d.passes[k]
		counted[e.process] = true
		if _, low, _ := stats.Proportion(e.useless, e.n); e.n < d.MinEvents || low < d.MinShare {
			continue
		}
		notes = append(notes, Note{Process: e.process, Count: e.useless, What: fmt.Sprintf(
			"%s of %d reconciles of %s in %s changed nothing; GenerationChangedPredicate would have saved %s of all, with labels and annotations let through %s",
			percent(e.useless, e.n), e.n, e.controller, e.process, percent(e.generation, e.n), percent(e.orMetadata, e.n))})
	}
	for _, k := range slices.SortedFunc(maps.Keys(d.events), resourceKind.compare) {
		x := d.events[k]
		if _, low, _ := stats.Proportion(x.sameSpec, x.n); counted[x.process] || x.n < d.MinEvents || low < d.MinShare {
			continue
		}
		notes = append(notes, Note{Process: x.process, Count: x.sameSpec, What: fmt.Sprintf(
			"%s of %d changes of %s that %s was told of left the spec alone, %s were its own writes; GenerationChangedPredicate would have left them out (%s with labels and annotations let through)",
			percent(x.sameSpec, x.n), x.n, x.resource, x.process, percent(x.own, x.n), percent(x.sameMetadata, x.n))})
	}
	slices.SortStableFunc(notes, func(a, b Note) int { return strings.Compare(a.Process, b.Process) })
	return nil, notes
}

func percent(k, n int64) string { return fmt.Sprintf("%.0f %%", 100*float64(k)/float64(max(n, 1))) }

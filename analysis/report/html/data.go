package html

import (
	"maps"
	"slices"
)

// data is what the page's script draws from.
type data struct {
	Kinds []string   `json:"kinds"`
	Runs  []*runData `json:"runs"`
	// Reference is what the runs are shown beside.
	Reference *timeline `json:"reference,omitempty"`
}

// runData is what there is of one trace.
type runData struct {
	Timeline timeline            `json:"timeline"`
	Beside   *beside             `json:"beside,omitempty"`
	Changes  map[string][]change `json:"changes"`
	More     map[string]int      `json:"more"`
	Latency  *quantiles          `json:"latency,omitempty"`
	Duration *histogram          `json:"duration,omitempty"`
	Kernel   *heat               `json:"kernel,omitempty"`
	Flame    *flame              `json:"flame,omitempty"`
	Findings []findingData       `json:"findings"`
}

// timeline is the events of a run, a column a field. Times are milliseconds since Start, so that they are short.
type timeline struct {
	Start  int64      `json:"start"` // milliseconds since the Unix epoch
	Length float64    `json:"length"`
	Lanes  []laneData `json:"lanes"`
	Time   []float64  `json:"t"` // where the event ended
	Took   []float64  `json:"d"`
	Lane   []int      `json:"lane"`
	Kind   []kind     `json:"kind"`
	Seq    []int64    `json:"seq"`
	Note   []int      `json:"note"` // index into Notes
	Of     []int64    `json:"of"`   // of a call, its reconcile's seq; of a reconcile, that of what queued it; 0 unknown
	Notes  []string   `json:"notes"`
}

type laneData struct {
	Group string `json:"group"`
	Name  string `json:"name"`
}

// beside is where the run first leaves the reference.
type beside struct {
	// At is the first difference in the run's own time and in the reference's; -1 where there is none.
	At        float64 `json:"at"`
	Reference float64 `json:"reference"`
	What      string  `json:"what"`
	Lane      string  `json:"lane"`
	// Lanes are the objects to show: those that differ first, up to maxBeside.
	Lanes []string `json:"lanes"`
}

// maxBeside is how many objects are shown of both runs.
const maxBeside = 24

func millis(ns int64) float64 { return float64(ns/1000) / 1000 }

func (g *gathered) data() *runData {
	return &runData{
		Timeline: g.timeline(), Changes: g.versions.changes, More: g.versions.more,
		Latency: g.quantiles(), Duration: g.histogram(), Kernel: g.heat(), Flame: g.flame(nil), Findings: []findingData{},
	}
}

func (g *gathered) timeline() timeline {
	t := timeline{Start: g.first / 1_000_000, Length: millis(g.last - g.first), Lanes: []laneData{}, Notes: []string{""}}
	for _, l := range g.chosen {
		t.Lanes = append(t.Lanes, laneData{l.group, l.name})
	}
	notes := map[string]int{"": 0}
	base := g.first / 1_000_000 * 1_000_000
	for _, e := range g.keep.events {
		i, known := notes[e.note]
		if !known {
			i = len(t.Notes)
			notes[e.note] = i
			t.Notes = append(t.Notes, cut(e.note))
		}
		t.Time, t.Took = append(t.Time, millis(e.ts-base)), append(t.Took, max(0, millis(e.ts-e.start)))
		t.Lane, t.Kind, t.Seq, t.Note = append(t.Lane, e.lane.index), append(t.Kind, e.kind), append(t.Seq, e.seq), append(t.Note, i)
		t.Of = append(t.Of, e.of)
	}
	return t
}

// beside finds where a run first leaves its reference.
func (g *gathered) beside(ref *gathered) *beside {
	b := &beside{At: -1, Reference: -1}
	drawn := g.drawn(ref)
	var same []string
	best := int64(-1)
	for _, name := range slices.Sorted(maps.Keys(drawn)) {
		mine, theirs := g.history[name], ref.history[name]
		i := leaves(mine, theirs)
		if i < 0 {
			if drawn[name] {
				same = append(same, name)
			}
			continue
		}
		if drawn[name] {
			b.Lanes = append(b.Lanes, name)
		}
		at, then := g.since(mine, i), ref.since(theirs, i)
		if at < 0 { // nothing happened when it did in the reference
			at = then
		} else if then < 0 {
			then = at
		}
		if best < 0 || at < best {
			best = at
			b.At, b.Reference, b.Lane, b.What = millis(at), millis(then), name, differ(mine, theirs, i)
		}
	}
	b.Lanes = append(b.Lanes, same...)
	b.Lanes = b.Lanes[:min(len(b.Lanes), maxBeside)]
	return b
}

// drawn are the objects of either run, but for those that change by the clock alone, and whether the page has a lane for
// them.
func (g *gathered) drawn(ref *gathered) map[string]bool {
	m := map[string]bool{}
	for _, x := range []*gathered{g, ref} {
		for name := range x.history {
			if _, other := m[name]; !other {
				m[name] = false
			}
		}
		for _, l := range x.chosen {
			if _, compared := m[l.name]; compared && l.group == "objects" {
				m[l.name] = true
			}
		}
	}
	return m
}

// leaves is the index of the first event in which two lanes differ in kind; -1: in none.
func leaves(a, b []moment) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i].kind != b[i].kind {
			return i
		}
	}
	return -1
}

// since is when a lane's i-th event was, from the run's begin; -1 where there is none.
func (g *gathered) since(list []moment, i int) int64 {
	if i < len(list) {
		return list[i].ts - g.first
	}
	return -1
}

func differ(run, ref []moment, i int) string {
	switch {
	case i >= len(run):
		return kinds[ref[i].kind] + " in the reference, not in this run"
	case i >= len(ref):
		return kinds[run[i].kind] + " in this run, not in the reference"
	}
	return kinds[run[i].kind] + " in this run, " + kinds[ref[i].kind] + " in the reference"
}

package analysis

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis/stats"
	"github.com/opreplay/opreplay/traces"
)

// profile measures what an operator does, faulty or not, so that two traces can be compared. It is a Detector that
// finds nothing.
type profile struct {
	calls   map[callKind]*callProfile
	passes  map[passKind]*passProfile
	objects map[resourceKind]*objectProfile
	writes  map[*State]map[*Process]int64
	errors  map[string]*bins // error lines, by process
	ends    map[resourceKind][]stats.Lifetime
	from    int64
	to      int64
	seed    uint64
}

type callKind struct{ process, verb, group, resource, subresource string }

type passKind struct{ process, controller string }

type resourceKind struct{ process, group, resource string }

type callProfile struct {
	times   bins
	n       int64
	failed  int64
	latency reservoir // seconds
}

type passProfile struct {
	times    bins
	n        int64
	failed   int64
	duration reservoir // seconds
}

type objectProfile struct{ writes reservoir }

func newProfile() *profile {
	return &profile{
		calls: map[callKind]*callProfile{}, passes: map[passKind]*passProfile{}, objects: map[resourceKind]*objectProfile{},
		writes: map[*State]map[*Process]int64{}, errors: map[string]*bins{}, ends: map[resourceKind][]stats.Lifetime{},
	}
}

// Bounds of a profile: what is told apart, and of how many deletions the times are kept.
const (
	maxKinds = 2048
	maxEnds  = 4096
)

// Name implements Detector.
func (*profile) Name() string { return "profile" }

// Call implements CallDetector.
func (p *profile) Call(_ *Model, c *Call) {
	if c.Process == nil {
		return
	}
	k := callKind{c.Process.Name, c.Verb, c.Row.Group, c.Row.Resource, c.Subresource}
	x := p.calls[k]
	if x == nil {
		if len(p.calls) >= maxKinds {
			return
		}
		x = &callProfile{}
		p.calls[callKind{k.process, k.verb, strings.Clone(k.group), strings.Clone(k.resource), k.subresource}] = x
	}
	x.n++
	x.times.add(c.TS)
	x.latency.add(float64(c.TS-c.Start) / 1e9)
	if !c.OK() {
		x.failed++
	}
	if s := c.State; c.Write() && s != nil && !s.Heartbeat {
		if p.writes[s] == nil {
			p.writes[s] = map[*Process]int64{}
		}
		p.writes[s][c.Process]++
	}
}

// Pass implements PassDetector.
func (p *profile) Pass(_ *Model, x *Pass) {
	k := passKind{x.Row.Process, x.Row.Controller}
	of := p.passes[k]
	if of == nil {
		if len(p.passes) >= maxKinds {
			return
		}
		of = &passProfile{}
		p.passes[passKind{strings.Clone(k.process), strings.Clone(k.controller)}] = of
	}
	of.n++
	of.times.add(x.Row.TS)
	of.duration.add(float64(x.Row.TS-x.Row.Start) / 1e9)
	if x.Row.Outcome == "error" || x.Row.Outcome == "panic" {
		of.failed++
	}
}

// Log implements LogDetector.
func (p *profile) Log(_ *Model, l *traces.Log) {
	if l.Level != "error" && l.Level != "fatal" {
		return
	}
	if p.errors[l.Process] == nil {
		if len(p.errors) >= maxProcesses {
			return
		}
		p.errors[strings.Clone(l.Process)] = &bins{}
	}
	p.errors[l.Process].add(l.TS)
}

// Gone implements GoneDetector.
func (p *profile) Gone(_ *Model, s *State) {
	p.count(s)
	if s.Deleting != 0 {
		p.ended(s, s.GoneAt, true)
	}
}

// count puts the writes to an object into their sample.
func (p *profile) count(s *State) {
	for process, n := range p.writes[s] {
		k := resourceKind{process.Name, s.Group, s.Resource}
		if p.objects[k] == nil {
			if len(p.objects) >= maxKinds {
				continue
			}
			p.objects[k] = &objectProfile{}
		}
		p.objects[k].writes.add(float64(n))
	}
	delete(p.writes, s)
}

func (p *profile) ended(s *State, at int64, ended bool) {
	k := resourceKind{"", s.Group, s.Resource}
	if list := p.ends[k]; len(list) < maxEnds {
		p.ends[k] = append(list, stats.Lifetime{Seconds: max(0, float64(at-s.Deleting)/1e9), Ended: ended})
	}
}

// Findings implements Detector.
func (p *profile) Findings(m *Model) ([]Finding, []Note) {
	p.from, p.to, p.seed = m.FirstTS, m.LastTS, m.Seed
	var open []*State
	for s := range m.Objects {
		open = append(open, s)
	}
	slices.SortFunc(open, func(a, b *State) int { return a.compare(b.Object) }) // samples hang on the order
	for _, s := range open {
		p.count(s)
		if s.Deleting != 0 {
			p.ended(s, m.LastTS, false)
		}
	}
	return nil, nil
}

func (p *profile) seconds() float64 { return max(time.Duration(p.to-p.from).Seconds(), 1e-3) }

// bins counts events in equal spans of time. There are never more than maxBins: then two become one.
type bins struct {
	first  int64
	width  int64
	counts []float64
}

const (
	maxBins  = 128
	firstBin = int64(250e6)
)

func (b *bins) add(ts int64) {
	if b.width == 0 {
		b.first, b.width = ts, firstBin
	}
	i := int(max(ts-b.first, 0) / b.width)
	for i >= maxBins {
		half := b.counts[:0]
		for j := 0; j < len(b.counts); j += 2 {
			n := b.counts[j]
			if j+1 < len(b.counts) {
				n += b.counts[j+1]
			}
			half = append(half, n)
		}
		b.counts, b.width, i = half, b.width*2, i/2
	}
	for len(b.counts) <= i {
		b.counts = append(b.counts, 0)
	}
	b.counts[i]++
}

func (b *bins) n() (n int64) {
	for _, c := range b.counts {
		n += int64(c)
	}
	return n
}

// dispersion is by how much the counts vary more than a Poisson process's would, over the given time.
func (b *bins) dispersion(from, to int64) float64 {
	if b.width == 0 || to <= from {
		return 1
	}
	bins := max(len(b.counts), int((to-from)/b.width))
	if bins < 4 {
		return 1
	}
	mean := float64(b.n()) / float64(bins)
	sum := float64(bins-len(b.counts)) * mean * mean
	for _, c := range b.counts {
		sum += (c - mean) * (c - mean)
	}
	return max(1, sum/float64(bins-1)/mean)
}

func (k passKind) compare(l passKind) int {
	return cmp.Or(cmp.Compare(k.process, l.process), cmp.Compare(k.controller, l.controller))
}

func (k callKind) compare(l callKind) int {
	return cmp.Or(cmp.Compare(k.process, l.process), cmp.Compare(k.group, l.group), cmp.Compare(k.resource, l.resource), cmp.Compare(k.subresource, l.subresource), cmp.Compare(k.verb, l.verb))
}

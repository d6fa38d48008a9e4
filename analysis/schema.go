package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// SchemaDrift finds stored objects that the schema of their CustomResourceDefinition does not admit any more, and default
// values that a change or another version of a definition has lost. What was written under an earlier schema stays as it
// is; a write that touches the value, and in some servers any write, is refused from then on.
//
// Rules in CEL are not evaluated: a refusal by those is seen where it happens.
type SchemaDrift struct {
	// MinRefused is how many refused writes (422 Invalid) of such an object make an error of a warning.
	MinRefused int64

	refused map[*State]*refusedWrites
	lost    map[string]map[string]*lostDefault // by definition's name, by version and path
}

// NewSchemaDrift is a SchemaDrift with its thresholds set.
func NewSchemaDrift() *SchemaDrift {
	return &SchemaDrift{MinRefused: 1, refused: map[*State]*refusedWrites{}, lost: map[string]map[string]*lostDefault{}}
}

// Name implements Detector.
func (*SchemaDrift) Name() string { return "schema" }

const (
	crdGroup    = "apiextensions.k8s.io"
	crdResource = "customresourcedefinitions"
)

// refusedWrites are those of one object that were refused as invalid.
type refusedWrites struct {
	process     *Process
	n           int64
	first, last int64
	row, stack  int64
	manager     string
	kind        string
}

// lostDefault is a default value that a definition had.
type lostDefault struct {
	definition    Object
	version, path string
	value         string
	from          string // the version that had or has it, "" for the same
	author        Author
	objects       map[Object]float64
	places        places
}

// Call implements CallDetector.
func (d *SchemaDrift) Call(_ *Model, c *Call) {
	if c.Code != 422 || c.Process == nil || c.State == nil || c.State.Gone {
		return
	}
	r := d.refused[c.State]
	if r == nil {
		r = &refusedWrites{process: c.Process, first: c.TS, kind: c.kind()}
		d.refused[c.State] = r
	}
	r.n++
	r.last, r.row, r.stack, r.manager = c.TS, c.Seq, cmp.Or(r.stack, c.Stack), c.Manager
}

// Change implements ChangeDetector.
func (d *SchemaDrift) Change(_ *Model, c *Change) {
	s := c.State
	if s.Group == crdGroup && s.Resource == crdResource {
		if c.Before != "" && c.After != "" && !c.Deleted && c.Touches("spec.versions") {
			c.Manager()
			d.definition(c)
		}
		return
	}
	if len(d.lost) == 0 || c.Deleted || c.After == "" {
		return
	}
	for _, l := range d.lost[resourceName(s.Group, s.Resource)] {
		l.see(c)
	}
}

// definition compares what a definition defaults with what it did.
func (d *SchemaDrift) definition(c *Change) {
	before, ok := readCRD(c.Before)
	after, okToo := readCRD(c.After)
	if !ok || !okToo {
		return
	}
	d.mend(c.State.Name, &after)
	for i := range after.Spec.Versions {
		v := &after.Spec.Versions[i]
		old, from := before.version(v.Name), ""
		if old == nil { // a new version should default what the one that is stored does
			for j := range before.Spec.Versions {
				if w := &before.Spec.Versions[j]; w.Storage {
					old, from = w, w.Name
				}
			}
		}
		if old == nil || !v.Served {
			continue
		}
		had, has := map[string]string{}, map[string]string{}
		old.Schema.OpenAPI.defaults("", had)
		v.Schema.OpenAPI.defaults("", has)
		for _, path := range sortedKeys(had) {
			if _, still := has[path]; still || v.Schema.OpenAPI.property(path) == nil {
				continue
			}
			key := v.Name + " " + path
			if d.lost[c.State.Name] == nil {
				d.lost[c.State.Name] = map[string]*lostDefault{}
			}
			if d.lost[c.State.Name][key] != nil {
				continue
			}
			l := &lostDefault{definition: c.State.Object, version: v.Name, path: path, value: had[path], from: from, author: c.Author, objects: map[Object]float64{}}
			l.places.add(c.Author.seq(), c.TS, "the definition loses the default, as version %d", c.RV, 0)
			d.lost[c.State.Name][key] = l
		}
	}
}

// mend forgets the lost defaults that a definition has again, and those of versions and properties that it has no more.
// The others stay lost, whatever else is edited.
func (d *SchemaDrift) mend(name string, after *crdVersions) {
	for key, l := range d.lost[name] {
		v := after.version(l.version)
		if v == nil {
			delete(d.lost[name], key)
		} else if p := v.Schema.OpenAPI.property(l.path); p == nil || len(p.Default) > 0 {
			delete(d.lost[name], key)
		}
	}
	if len(d.lost[name]) == 0 {
		delete(d.lost, name)
	}
}

// see is whether a version of an object has gone without the value.
func (l *lostDefault) see(c *Change) {
	version, _ := jsontext.Get(c.After, "apiVersion")
	if !strings.HasSuffix(jsontext.Text(version), "/"+l.version) {
		return
	}
	path := strings.Split(l.path, ".")
	if v, there := jsontext.Get(c.After, path...); there && v != "null" {
		return
	}
	if parent := path[:len(path)-1]; len(parent) > 0 {
		if v, there := jsontext.Get(c.After, parent...); !there || v == "null" {
			return // its parent isn't there: it would not be defaulted
		}
	}
	if len(l.objects) < 1024 {
		l.objects[c.State.Object]++
	}
	l.places.add(c.Author.seq(), c.TS, "written without it, as version %d", c.RV, 0)
}

// Gone implements GoneDetector.
func (d *SchemaDrift) Gone(_ *Model, s *State) {
	delete(d.refused, s)
	if s.Group == crdGroup {
		delete(d.lost, s.Name)
	}
}

// drift is what of the objects of one kind one rule does not admit.
type drift struct {
	definition *State
	version    string
	violation  violation
	since      int64 // the last version of one of the objects
	example    *State
	refused    *refusedWrites
	refusals   int64
	all        int64 // objects of the kind
	objects    map[Object]float64
}

// Findings implements Detector: one for each definition, field and rule, and one for each default that was lost.
func (d *SchemaDrift) Findings(m *Model) ([]Finding, []Note) {
	var findings []Finding
	var notes []Note
	groups := map[string]*drift{}
	kinds := map[string][]*State{} // the objects of custom kinds, by the name of their definition
	for s := range m.Objects {
		if strings.Contains(s.Group, ".") {
			name := resourceName(s.Group, s.Resource)
			kinds[name] = append(kinds[name], s)
		}
	}
	for _, definition := range kinds[crdResource+"."+crdGroup] {
		if all := kinds[definition.Name]; definition.Body != "" && len(all) > 0 {
			slices.SortFunc(all, func(a, b *State) int { return a.Object.compare(b.Object) })
			d.objects(definition, all, groups)
		}
	}
	for _, key := range sortedKeys(groups) {
		findings = append(findings, d.finding(m, groups[key]))
	}
	var lost []*lostDefault
	for _, byPath := range d.lost {
		for _, l := range byPath {
			lost = append(lost, l)
		}
	}
	slices.SortFunc(lost, func(a, b *lostDefault) int {
		return cmp.Or(a.definition.compare(b.definition), cmp.Compare(a.version, b.version), cmp.Compare(a.path, b.path))
	})
	for _, l := range lost {
		if len(l.objects) > 0 {
			findings = append(findings, l.finding())
			continue
		}
		notes = append(notes, Note{Objects: []Object{l.definition}, Total: 1, Count: 1, Field: l.path, What: fmt.Sprintf("version %s of %s no longer defaults %s (it was %s)", l.version, l.definition.Name, l.path, word(l.value))})
	}
	return findings, notes
}

// objects checks the objects of one kind as they are in the end.
func (d *SchemaDrift) objects(definition *State, all []*State, groups map[string]*drift) {
	crd, ok := readCRD(definition.Body)
	if !ok {
		return
	}
	for _, s := range all {
		apiVersion, _ := jsontext.Get(s.Body, "apiVersion")
		_, name, _ := strings.Cut(jsontext.Text(apiVersion), "/")
		v := crd.version(name)
		if v == nil || v.Schema.OpenAPI == nil {
			continue
		}
		for _, x := range v.Schema.OpenAPI.check(s.Body) {
			key := strings.Join([]string{definition.Name, x.pattern, x.rule}, "\x00")
			g := groups[key]
			if g == nil {
				g = &drift{definition: definition, version: name, violation: x, example: s, all: int64(len(all)), since: math.MaxInt64, objects: map[Object]float64{}}
				groups[key] = g
			}
			g.objects[s.Object] = 1
			for a := range s.Authors {
				g.since = min(g.since, a.TS)
				break
			}
			if r := d.refused[s]; r != nil {
				g.objects[s.Object] += float64(r.n)
				g.refusals += r.n
				if g.refused == nil || r.n > g.refused.n {
					g.refused, g.example, g.violation = r, s, x
				}
			}
		}
	}
}

func (d *SchemaDrift) finding(m *Model, g *drift) Finding {
	var e places
	changed := Author{}
	for a := range g.definition.Authors {
		changed = *a
		break
	}
	e.add(changed.seq(), changed.TS, "the definition, as version %d", changed.RV, 0)
	f := Finding{
		Severity: Warning, Certainty: Sure, Field: g.violation.pattern, First: at(cmp.Or(changed.TS, m.FirstTS)), Last: at(m.LastTS), told: cmp.Or(changed.TS, m.FirstTS),
		Statistics: []Statistic{proportion("objects that are not admitted", int64(len(g.objects)), g.all)},
		Effect:     countOf(len(g.objects), "objects that are not admitted", float64(len(g.objects))),
	}
	f.Objects, f.Total = worstOf(g.objects)
	f.What = fmt.Sprintf("%s is stored with %s that its definition does not admit%s: it %s", g.example.Object, g.violation.path, others(f.Total), g.violation.rule)
	f.Cause = fmt.Sprintf("the schema of version %s of %s has become stricter than what is stored", g.version, g.definition.Name)
	if changed.RV > 0 && changed.RV < g.example.RV {
		f.Cause = fmt.Sprintf("what is stored does not follow version %s of %s, and was let pass since that field had been so before", g.version, g.definition.Name)
	} else if name := changed.Name(); name != "somebody" {
		f.Cause += fmt.Sprintf(" (changed by %s as version %d)", name, changed.RV)
	}
	if changed.Process != nil {
		f.Process, f.Manager = changed.Process.Name, changed.Manager
		if changed.Call != nil {
			f.Stack = changed.Call.Stack
		}
	}
	if r := g.refused; r != nil && g.refusals >= d.MinRefused {
		f.Severity, f.Process, f.Manager, f.Stack, f.Row = Error, r.process.Name, r.manager, r.stack, r.row
		f.Last = at(r.last)
		f.Effect = countOf(g.refusals, "refused writes", float64(g.refusals)/float64(d.MinRefused))
		f.Cause += fmt.Sprintf("; the %s by %s was refused %s with 422 Invalid, and no retry can help", r.kind, r.process.Name, times(r.n))
		e.add(r.row, r.last, "write refused with 422", 0, 0)
	} else {
		f.absent = noEvents(min(g.since, f.First.UnixNano()), m.LastTS) // either may be right by now
		f.absent.object = g.definition.Object
	}
	f.Evidence = e.evidence()
	return f
}

func (l *lostDefault) finding() Finding {
	f := Finding{
		Severity: Warning, Certainty: Sure, Manager: l.author.Manager, Field: l.path, Row: l.author.seq(), First: at(l.author.TS), Last: at(l.author.TS),
		Evidence:   l.places.evidence(),
		Statistics: []Statistic{{Name: "objects without it", Value: float64(len(l.objects)), Unit: "1", Low: float64(len(l.objects)), High: float64(len(l.objects)), N: int64(len(l.objects)), Method: "count"}},
		Effect:     countOf(len(l.objects), "objects without the value", float64(len(l.objects))),
	}
	if p := l.author.Process; p != nil {
		f.Process = p.Name
	}
	f.Objects, f.Total = worstOf(l.objects)
	f.What = fmt.Sprintf("%s is without %s%s, which was %s by default", f.Objects[0], l.path, others(f.Total), word(l.value))
	had := "had before"
	if l.from != "" {
		had = "version " + l.from + " has"
	}
	f.Cause = fmt.Sprintf("version %s of %s does not have the default that it %s (changed by %s as version %d): what reads the field finds nothing where it has always found a value", l.version, l.definition.Name, had, l.author.Name(), l.author.RV)
	f.Cause = strings.Replace(f.Cause, "that it version", "that version", 1)
	return f
}

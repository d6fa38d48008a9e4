package analysis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// Environment finds pods that are older than the configuration that they should carry: a container takes its environment
// from a ConfigMap or a Secret when it starts, and never again. When the data changes later, or an optional source
// comes later, the pod runs on with what there was.
//
// It is a finding where a recorded operator wrote the data, for then it is the operator that should roll its pods; what
// a user changed is a note.
type Environment struct {
	// MinStale is for how many nanoseconds, up to the end, a pod must have run with the old data: a rollout takes a
	// while.
	MinStale int64

	sources map[Key]map[*State]bool // pods by what they take their environment from; true where it is optional
	pods    map[*State][]Key
	stale   map[*State]map[Key]*older
}

// NewEnvironment is an Environment with its thresholds set.
func NewEnvironment() *Environment {
	return &Environment{MinStale: 60e9, sources: map[Key]map[*State]bool{}, pods: map[*State][]Key{}, stale: map[*State]map[Key]*older{}}
}

// Name implements Detector.
func (*Environment) Name() string { return "environment" }

// maxSources bounds the sources of one pod.
const maxSources = 32

// older is a change of data that a pod does not have.
type older struct {
	source  Object
	process *Process // who wrote the data
	seq, ts int64
	created bool
}

// Change implements ChangeDetector.
func (d *Environment) Change(_ *Model, c *Change) {
	if c.State.Group != "" || c.Deleted || c.After == "" {
		return
	}
	switch c.State.Resource {
	case "pods":
		if _, known := d.pods[c.State]; !known {
			d.pod(c)
		}
	case "configmaps", "secrets":
		if len(d.sources[c.State.Key()]) > 0 {
			d.changed(c)
		}
	}
}

// pod notes what the pod takes its environment from.
func (d *Environment) pod(c *Change) {
	d.pods[c.State] = nil
	for _, list := range [...]string{"containers", "initContainers"} {
		containers, _ := c.Get("spec", list)
		jsontext.Elements(containers, func(container string) bool {
			env, _ := jsontext.Get(container, "env")
			jsontext.Elements(env, func(e string) bool {
				from, _ := jsontext.Get(e, "valueFrom")
				d.source(c.State, from, "configMapKeyRef", "secretKeyRef")
				return true
			})
			from, _ := jsontext.Get(container, "envFrom")
			jsontext.Elements(from, func(e string) bool {
				d.source(c.State, e, "configMapRef", "secretRef")
				return true
			})
			return true
		})
	}
}

func (d *Environment) source(pod *State, from, configMap, secret string) {
	for _, kind := range [...]struct{ resource, field string }{{"configmaps", configMap}, {"secrets", secret}} {
		ref, ok := jsontext.Get(from, kind.field)
		if !ok || len(d.pods[pod]) >= maxSources {
			continue
		}
		name, _ := jsontext.Get(ref, "name")
		optional, _ := jsontext.Get(ref, "optional")
		k := Key{"", kind.resource, pod.Namespace, strings.Clone(jsontext.Text(name))}
		if slices.Contains(d.pods[pod], k) {
			continue
		}
		d.pods[pod] = append(d.pods[pod], k)
		if d.sources[k] == nil {
			d.sources[k] = map[*State]bool{}
		}
		d.sources[k][pod] = optional == "true"
	}
}

// changed notes which pods are older than the data now.
func (d *Environment) changed(c *Change) {
	if !c.Created && !c.Touches("data") && !c.Touches("binaryData") {
		return
	}
	for pod, optional := range d.sources[c.State.Key()] {
		if c.Created && !optional { // a pod whose source is missing waits for it
			continue
		}
		if d.stale[pod] == nil {
			d.stale[pod] = map[Key]*older{}
		}
		d.stale[pod][c.State.Key()] = &older{c.State.Object, c.Author.Process, c.Seq, c.TS, c.Created}
	}
}

// Gone implements GoneDetector.
func (d *Environment) Gone(_ *Model, s *State) {
	if s.Resource != "pods" {
		return
	}
	for _, k := range d.pods[s] {
		delete(d.sources[k], s)
		if len(d.sources[k]) == 0 {
			delete(d.sources, k)
		}
	}
	delete(d.pods, s)
	delete(d.stale, s)
}

// Findings implements Detector: one for each source.
func (d *Environment) Findings(m *Model) ([]Finding, []Note) {
	type group struct {
		older *older
		pods  []scored
	}
	groups := map[string]*group{}
	for pod, sources := range d.stale {
		for _, o := range sources {
			if m.LastTS-o.ts < d.MinStale || pod.Deleting != 0 || !runs(pod.Body) || startedAfter(pod.Body, o.ts) {
				continue
			}
			key := o.source.String()
			if groups[key] == nil {
				groups[key] = &group{older: o}
			}
			groups[key].pods = append(groups[key].pods, scored{pod.Object, float64(m.LastTS-o.ts) / 1e9})
		}
	}
	var findings []Finding
	var notes []Note
	for _, key := range sortedKeys(groups) {
		g := groups[key]
		objects, total := worst(g.pods)
		how := "changed"
		if g.older.created {
			how = "created"
		}
		stale := g.pods[0].score
		what := fmt.Sprintf("%s runs with an environment that is older than %s, which was %s %s before the end", objects[0], g.older.source, how, seconds(int64(stale*1e9)))
		if total > 1 {
			what += fmt.Sprintf("; and likewise %s", plural(total-1, "other pod", "other pods"))
		}
		if g.older.process == nil {
			notes = append(notes, Note{Objects: objects, Total: total, Count: total, What: what})
			continue
		}
		findings = append(findings, Finding{
			Severity: Warning, Certainty: Sure, Process: g.older.process.Name, Objects: append(objects, g.older.source), Total: total + 1, Field: "spec.containers[*].env",
			What:       what,
			Cause:      "the operator writes the data and does not roll the pods: a hash of the data in an annotation of the pod template makes each change a rollout, and pods are made when the data is there",
			Statistics: []Statistic{{Name: "stale for", Value: stale, Unit: "s", Low: stale, High: stale, Unbounded: true, N: total, Method: "time to the end, a lower bound"}},
			Evidence:   Evidence{Total: 1, Items: []Item{{Seq: g.older.seq, Time: at(g.older.ts), What: "the data " + how}}},
			First:      at(g.older.ts), Last: at(m.LastTS), told: g.older.ts + d.MinStale, absent: noEvents(g.older.ts, m.LastTS),
			Effect: countOf(total, "pods", max(1, stale*1e9/float64(d.MinStale))),
		})
	}
	return findings, notes
}

// runs is whether a pod has started and not ended.
func runs(pod string) bool {
	phase, _ := jsontext.Get(pod, "status", "phase")
	return jsontext.Text(phase) == "Running"
}

// startedAfter is whether each container of the pod has started after a time.
func startedAfter(pod string, ns int64) bool {
	statuses, _ := jsontext.Get(pod, "status", "containerStatuses")
	all, some := true, false
	jsontext.Elements(statuses, func(s string) bool {
		started, _ := jsontext.Get(s, "state", "running", "startedAt")
		t, err := time.Parse(time.RFC3339, jsontext.Text(started))
		some = true
		all = all && err == nil && t.UnixNano() >= ns-ns%1e9
		return all
	})
	return some && all
}

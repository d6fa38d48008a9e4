package explore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/sim/fault"
)

// The states of a cluster that last for a while.
const (
	slowCommit = 2 * time.Second  // each write takes that much longer
	outage     = 15 * time.Second // nothing of a kind is possible: longer than the lease lasts, if there is one
)

// states put the cluster into states that an operator may meet: those that end, since it has to get to the same end once
// they are over, and those that last, in which it has to stand what is not possible any more.
func (l *list) states(kept []*call) {
	l.slow()
	l.expired()
	l.full(kept)
	l.hooks(kept)
	l.schemas(kept)
	l.unserved()
}

// span is the time after a moment in which a state lasts.
func span(at fault.Moment) fault.Span { return fault.Span{At: at, For: outage} }

// before is when a state begins that a call is to meet: after the last change by anybody before it; a second before, if
// that is longer ago than a state lasts; the zero Moment, the start of the run, if there is none.
func (l *list) before(w *call) fault.Moment {
	last := (*call)(nil)
	for _, c := range l.calls {
		if c.TS < w.Start {
			last = c
		}
	}
	switch {
	case last != nil && time.Duration(w.Start-last.TS) < outage:
		return fault.Moment{Call: last.selector()}
	case l.elapsed(w.Start) < outage:
		return fault.Moment{}
	}
	return fault.Moment{Time: (l.elapsed(w.Start) - time.Second).Round(time.Millisecond)}
}

// writesWithin says whether the operator writes in the time after a moment.
func (l *list) writesWithin(after int64, d time.Duration) bool {
	return slices.ContainsFunc(l.writes, func(w *call) bool { return w.Start > after && w.Start < after+int64(d) })
}

// slow has storage slow while the operator reacts to a change by others.
func (l *list) slow() {
	for _, c := range l.calls {
		switch {
		case !l.outside(c):
		case !l.writesWithin(c.TS, outage):
			l.prune("slow storage when the operator writes nothing", 1)
		default:
			l.add(KindStorage, c.kind, &fault.Storage{Commit: slowCommit, Span: span(fault.Moment{Call: c.selector()})})
		}
	}
}

// expired has the operator's token expire at a change by others.
func (l *list) expired() {
	for _, c := range l.calls {
		switch {
		case !l.outside(c):
		case !l.writesWithin(c.TS, outage):
			l.prune("an expired token when the operator writes nothing", 1)
		default:
			l.add(KindToken, c.kind, &fault.Token{Client: operator, Span: span(fault.Moment{Call: c.selector()})})
		}
	}
}

// full has a quota reached when the operator creates something.
func (l *list) full(kept []*call) {
	for _, w := range kept {
		switch {
		case w.Verb != "create" || w.Subresource != "":
			l.prune("a quota for a write that creates nothing", 1)
			continue
		case w.Namespace == "":
			l.prune("a quota for an object outside of namespaces", 1)
			continue
		}
		l.add(KindQuota, l.class(w), &fault.Quota{Request: w.sel, Client: operator, Span: span(l.before(w))})
	}
}

// hooks have an admission webhook out of order, or say no, when the operator writes; and a conversion webhook, where the
// resource has several versions.
func (l *list) hooks(kept []*call) {
	for _, fails := range []string{"refused", "denied", "timeout"} {
		for _, w := range kept {
			l.add(KindWebhook, fails+l.class(w), &fault.Webhook{Request: w.sel, Client: operator, Fails: fails, Span: span(l.before(w))})
		}
	}
	crds := l.crds()
	for _, w := range kept {
		crd, ok := crds[resourceOf(&w.Identity)]
		if !ok || len(crd.Spec.Versions) < 2 {
			l.prune("a conversion webhook for a resource of one version", 1)
			continue
		}
		l.add(KindWebhook, "conversion"+l.class(w), &fault.Webhook{Request: w.sel, Client: operator, Fails: "refused", Conversion: true, Span: span(l.before(w))})
	}
}

// crd is what of a CRD is looked at.
type crd struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				OpenAPI schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

type schema struct {
	Type       string            `json:"type"`
	Properties map[string]schema `json:"properties"`
}

// crds are the cluster's, as they were first, by the resources that they define.
func (p *past) crds() map[string]*crd {
	all := map[string]*crd{}
	for _, t := range p.things {
		if t.id.Resource != "customresourcedefinitions" || len(t.states) == 0 {
			continue
		}
		c := &crd{}
		if json.Unmarshal([]byte(t.states[0].text), c) == nil {
			all[c.Metadata.Name] = c // its name is PLURAL.GROUP
		}
	}
	return all
}

// mostFields of a write are tried.
const mostFields = 4

// schemas change a CRD before a write of the operator's so that the API server refuses what it says, or prunes it.
func (l *list) schemas(kept []*call) {
	crds := l.crds()
	for _, w := range kept {
		c := crds[resourceOf(&w.Identity)]
		if c == nil {
			l.prune("a schema of a resource that no CRD defines", 1)
			continue
		}
		at := l.before(w)
		if at == (fault.Moment{}) {
			at.Time = time.Millisecond // a CRD changes at a moment
		}
		var body map[string]any
		if w.Verb == "delete" || json.Unmarshal([]byte(w.RequestBody), &body) != nil {
			l.prune("a schema for a write that says nothing", 1)
			continue
		}
		n := 0
		for _, v := range c.Spec.Versions {
			if v.Name != w.Version {
				continue
			}
			for _, f := range fields(v.Schema.OpenAPI, body, "") {
				if n++; n > mostFields {
					l.prune("a schema of one more field of a write", 1)
					continue
				}
				f.CRD, f.At = c.Metadata.Name, at
				l.add(KindSchema, "refused "+f.Field+l.class(w), f)
				l.add(KindSchema, "pruned "+f.Field+l.class(w), &fault.Schema{CRD: f.CRD, Field: f.Field, Removed: true, At: at})
			}
		}
	}
}

// fields are faults that forbid what an object says, for its single values that the schema knows.
func fields(s schema, object map[string]any, path string) (all []*fault.Schema) {
	for _, k := range slices.Sorted(maps.Keys(object)) {
		sub, ok := s.Properties[k]
		if !ok || path == "" && k != "spec" && k != "status" {
			continue
		}
		at := strings.TrimPrefix(path+"."+k, ".")
		switch v := object[k].(type) {
		case map[string]any:
			all = append(all, fields(sub, v, at)...)
		case float64:
			below := int64(v) - 1
			all = append(all, &fault.Schema{Field: at, Maximum: &below})
		case string:
			all = append(all, &fault.Schema{Field: at, Enum: []string{"something else"}})
		}
	}
	return all
}

// unserved takes away API versions that the operator uses and that an upgrade may take away.
func (l *list) unserved() {
	crds := l.crds()
	used := map[string]bool{} // group/version
	for _, e := range l.events {
		used[e.Group+"/"+e.Version] = l.removable(crds, e.resource(), e.Version)
	}
	for _, w := range l.writes {
		used[w.Group+"/"+w.Version] = l.removable(crds, resourceOf(&w.Identity), w.Version)
	}
	for _, gv := range slices.Sorted(maps.Keys(used)) {
		if !used[gv] {
			l.prune("an API version that no upgrade takes away", 1)
			continue
		}
		for n, c := range l.calls {
			if l.outside(c) {
				l.add(KindUnserve, fmt.Sprint(gv, n), &fault.Unserve{Version: gv, At: fault.Moment{Call: c.selector()}})
			}
		}
	}
}

// removable says whether an upgrade may take a version away: one that is not yet stable, or one of a CRD's.
func (l *list) removable(crds map[string]*crd, resource, version string) bool {
	_, custom := crds[resource]
	return custom || strings.Contains(version, "alpha") || strings.Contains(version, "beta")
}

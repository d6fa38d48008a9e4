package analysis

import (
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// Objects belong together in more ways than by owner references: what an operator rents, mounts or books for an object
// carries the object's name or uid in a label, an annotation or its own name. kin knows, of the objects that were made
// in the trace, which others they mention.
//
// A mention is a guess, and finds too much rather than too little: it is for detectors that have other grounds too.
type kin struct {
	by map[string][]*dependent // by what it mentions: a uid, or a name
	of map[*State]*dependent
}

// maxKin bounds the objects whose mentions are kept, maxMentions those of one object.
const (
	maxKin      = 1 << 16
	maxMentions = 32
)

// dependent is an object that was made in the trace.
type dependent struct {
	state   *State
	process *Process // who made it; nil for somebody who wasn't recorded
	manager string
	call    *Call // nil unless the request was recorded
	seq, ts int64 // of its first version
	rv      int64
	owners  []string // uids of its owner references
	names   []string // all that it mentions, owners included
}

// change notes what was made.
func (k *kin) change(m *Model, c *Change) {
	if !c.Created || c.State.Heartbeat || c.After == "" || len(k.of) >= maxKin || !born(m, c) {
		return
	}
	if k.of == nil {
		k.by, k.of = map[string][]*dependent{}, map[*State]*dependent{}
	}
	d := &dependent{state: c.State, process: c.Author.Process, manager: c.Manager(), call: c.Author.Call, seq: c.Seq, ts: c.TS, rv: c.RV}
	d.read(c.After)
	k.of[c.State] = d
	for _, n := range d.names {
		k.by[n] = append(k.by[n], d)
	}
}

// born is whether a first version is that of a creation rather than the first that the trace shows.
func born(m *Model, c *Change) bool {
	if call := c.Author.Call; call != nil {
		return call.Verb == "create" || call.Verb == "patch" && call.Code == 201
	}
	created, _ := c.Get("metadata", "creationTimestamp")
	t, err := time.Parse(time.RFC3339, jsontext.Text(created)) // in whole seconds
	return err == nil && t.UnixNano() >= m.FirstTS
}

func (k *kin) gone(s *State) {
	d := k.of[s]
	if d == nil {
		return
	}
	delete(k.of, s)
	for _, n := range d.names {
		list := slices.DeleteFunc(k.by[n], func(x *dependent) bool { return x == d })
		if k.by[n] = list; len(list) == 0 {
			delete(k.by, n)
		}
	}
}

func (d *dependent) read(body string) {
	add := func(s string) {
		if s != "" && len(d.names) < maxMentions && !slices.Contains(d.names, s) {
			d.names = append(d.names, strings.Clone(s))
		}
	}
	refs, _ := jsontext.Get(body, "metadata", "ownerReferences")
	jsontext.Elements(refs, func(ref string) bool {
		uid, _ := jsontext.Get(ref, "uid")
		add(jsontext.Text(uid))
		return true
	})
	d.owners = d.names[:len(d.names):len(d.names)]
	for _, field := range []string{"labels", "annotations"} {
		pairs, _ := jsontext.Get(body, "metadata", field)
		jsontext.Members(pairs, func(_, value string) bool {
			if v := jsontext.Text(value); len(v) <= 253 && !strings.ContainsAny(v, " {") { // a name or a uid may be that long
				_, name, namespaced := strings.Cut(v, "/")
				if !namespaced {
					name = v
				}
				add(name)
			}
			return true
		})
	}
	for _, piece := range pieces(d.state.Name) {
		add(piece)
	}
}

// pieces are the parts of a name that may be another's: whole words, in a row, of at least two letters.
func pieces(name string) []string {
	words := strings.Split(name, "-")
	if len(words) > 6 {
		words = words[:6]
	}
	var out []string
	for i := range words {
		for j := i + 1; j <= len(words); j++ {
			if p := strings.Join(words[i:j], "-"); len(p) > 1 {
				out = append(out, p)
			}
		}
	}
	return out
}

// dependents are the objects made in the trace, there still or just going, that mention the object and may have been
// made for it, in the order in which they were made.
func (m *Model) dependents(o Object) []*dependent {
	var out []*dependent
	for _, name := range []string{o.UID, o.Name} {
		for _, d := range m.kin.by[name] {
			if s := d.state; d.about(o) && s.Object != o && !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	slices.SortFunc(out, func(a, b *dependent) int { return int(a.seq - b.seq) })
	return out
}

// about is whether it may have been made for the object: by uid anywhere, by name in one namespace.
func (d *dependent) about(o Object) bool {
	if slices.Contains(d.names, o.UID) {
		return true
	}
	near := o.Namespace == "" || d.state.Namespace == "" || d.state.Namespace == o.Namespace
	return near && slices.Contains(d.names, o.Name)
}

// owned is whether the garbage collector will take it away with the object.
func (d *dependent) owned(o Object) bool { return slices.Contains(d.owners, o.UID) }

// watching notes that the process watches a resource, so that what it has not been told of is known.
func (p *Process) watching(group, resource string) {
	if p.last.resource == resource && p.last.group == group {
		return // events of one resource come in a row
	}
	k := kindOf{group, resource}
	if !p.watched[k] {
		if p.watched == nil {
			p.watched = map[kindOf]bool{}
		}
		k = kindOf{strings.Clone(group), strings.Clone(resource)}
		p.watched[k] = true
	}
	p.last = k
}

// kindOf names a resource without its version.
type kindOf struct{ group, resource string }

// sees is whether the process has a watch of the object's resource.
func (p *Process) sees(o Object) bool { return p.watched[kindOf{o.Group, o.Resource}] }

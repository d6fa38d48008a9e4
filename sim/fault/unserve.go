package fault

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Unserve has a version of an API disappear, for good: its paths are not found (404), discovery does not list it, and
// its watches end.
//
// On a real cluster: an upgrade of the control plane after which a beta API is gone; a CRD whose version is no
// longer served; an aggregated API whose APIService was removed. Objects are kept, and served in other versions.
type Unserve struct {
	// Version is GROUP/VERSION, such as policy/v1beta1; VERSION alone is of the core group.
	Version string
	// Resource is the plural of the one resource of it that goes; "" is all.
	Resource string
	// At is a time, or when a call has been executed; zero is the start of the run.
	At Moment
}

// Kind implements Fault.
func (u *Unserve) Kind() string { return "unserve" }

// String implements Fault.
func (u *Unserve) String() string {
	l := line{kind: u.Kind()}
	l.text("version", u.Version)
	l.text("resource", u.Resource)
	if u.At != (Moment{}) {
		u.At.print(&l, "at")
	}
	return l.String()
}

func parseUnserve(f *fields) (Fault, error) {
	u := &Unserve{}
	for _, err := range []error{
		f.text("version", &u.Version),
		f.word("resource", &u.Resource),
		f.moment("at", &u.At),
	} {
		if err != nil {
			return nil, err
		}
	}
	if parts := strings.Split(u.Version, "/"); len(parts) > 2 || slices.Contains(parts, "") || strings.ContainsAny(u.Version, " \t\"'#{}[],*") {
		return nil, f.errorAt(f.take("version"), "version of unserve is %q; want GROUP/VERSION, such as policy/v1beta1", u.Version)
	}
	return u, nil
}

// groupVersion takes Version apart.
func (u *Unserve) groupVersion() (group, version string) {
	group, version, ok := strings.Cut(u.Version, "/")
	if !ok {
		return "", group
	}
	return group, version
}

type unserveRule struct {
	base
	*Unserve
	group, version string
	at             trigger
	gone           bool
}

func (u *Unserve) rule(b base) rule {
	r := &unserveRule{base: b, Unserve: u, at: newTrigger(u.At)}
	r.group, r.version = u.groupVersion()
	if u.At == (Moment{}) {
		r.gone, r.at.passed = true, true
	}
	return r
}

// Serves says whether a resource of an API version is served to clients, as far as the plan has gone.
func (m *Machine) Serves(group, version, resource string) bool {
	return !slices.ContainsFunc(m.rules, func(x rule) bool {
		r, ok := x.(*unserveRule)
		return ok && r.gone && r.group == group && r.version == version && (r.Resource == "" || r.Resource == resource)
	})
}

func (r *unserveRule) begin(fx *Effect) {
	if !r.gone {
		r.at.begin(fx, r.deadline(0, 0, r.Version+" is served no more"))
	}
}

func (r *unserveRule) arrive(c Call, v *Verdict) {
	r.at.arrive(c, v.Ticket)
	if !r.gone || c.Client == "" || v.Refusal != nil {
		return
	}
	switch {
	case c.Resource != "":
		if c.Group != r.group || c.Version != r.version || r.Resource != "" && r.Resource != c.Resource {
			return
		}
	case c.Path == r.path() && r.Resource == "":
	case slices.Contains([]string{"/api", "/apis", "/apis/" + r.group, r.path()}, c.Path):
		v.Edit = r.edit(c.Path, v.Edit)
		return
	default:
		return
	}
	v.Refusal = NotServed()
	r.strike(&v.Rules)
}

// path is where the version's resources are listed.
func (r *unserveRule) path() string {
	if r.group == "" {
		return "/api/" + r.version
	}
	return "/apis/" + r.group + "/" + r.version
}

func (r *unserveRule) dropped(t Ticket, _ *Effect) { r.at.dropped(t) }

func (r *unserveRule) done(t Ticket, fx *Effect) {
	if r.at.done(t) {
		r.expire(0, fx)
	}
}

func (r *unserveRule) expire(_ int, fx *Effect) {
	r.at.expired()
	r.gone = true
	fx.Actions = append(fx.Actions, Action{Do: DoCut, Fault: r.line, cut: func(e Event) bool {
		return e.Group == r.group && e.Version == r.version && (r.Resource == "" || r.Resource == e.Resource)
	}})
}

func (r *unserveRule) report() []Unmatched {
	if unmet := r.at.unmatched(&r.base, "at"); unmet != nil || r.struck > 0 {
		return unmet
	}
	return []Unmatched{{Fault: r.line, Selector: "version " + quote(r.Version), Detail: "met no call after it had gone"}}
}

// edit takes what has gone out of a document of discovery, whichever of its five forms it has, after FIRST has.
func (r *unserveRule) edit(path string, first Edit) Edit {
	return func(body []byte) (edited []byte, found bool) {
		if first != nil {
			if body, found = first(body); !found {
				return nil, false
			}
		}
		doc, err := decode(body)
		if err != nil {
			return body, true
		}
		left := true
		switch doc["kind"] {
		case "APIVersions":
			left = r.coreVersions(doc)
		case "APIGroupList":
			each(doc, "groups", r.apiGroup)
		case "APIGroup":
			left = r.apiGroup(doc)
		case "APIResourceList":
			if path == r.path() {
				left = len(each(doc, "resources", func(m map[string]any) bool { return !r.names(m["name"]) })) > 0
			}
		case "APIGroupDiscoveryList":
			left = len(each(doc, "items", r.discovery)) > 0 || path != "/api"
		default:
			return body, true
		}
		edited, err = json.Marshal(doc)
		if err != nil {
			return body, true
		}
		return edited, left
	}
}

// decode reads a JSON object and keeps its numbers as they are.
func decode(text []byte) (doc map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&doc)
	return doc, err
}

// coreVersions edits the list of the core group's versions; false when nothing is left of it.
func (r *unserveRule) coreVersions(m map[string]any) bool {
	versions, _ := m["versions"].([]any)
	if r.group != "" || r.Resource != "" {
		return true
	}
	versions = slices.DeleteFunc(versions, func(v any) bool { return v == r.version })
	m["versions"] = versions
	return len(versions) > 0
}

// names says whether a resource of the version, or a subresource, goes.
func (r *unserveRule) names(name any) bool {
	s, _ := name.(string)
	plural, _, _ := strings.Cut(s, "/")
	return r.Resource == "" || plural == r.Resource
}

// apiGroup edits an APIGroup; false when nothing is left of it.
func (r *unserveRule) apiGroup(m map[string]any) bool {
	if m["name"] != r.group || r.Resource != "" {
		return true
	}
	left := each(m, "versions", func(v map[string]any) bool { return v["version"] != r.version })
	if preferred, ok := m["preferredVersion"].(map[string]any); ok && len(left) > 0 && preferred["version"] == r.version {
		m["preferredVersion"] = left[0]
	}
	return len(left) > 0
}

// discovery edits an item of aggregated discovery; false when nothing is left of it.
func (r *unserveRule) discovery(m map[string]any) bool {
	meta, _ := m["metadata"].(map[string]any)
	name, _ := meta["name"].(string) // "" for the core group
	if name != r.group {
		return true
	}
	return len(each(m, "versions", func(v map[string]any) bool {
		if v["version"] != r.version {
			return true
		}
		left := each(v, "resources", func(x map[string]any) bool { return !r.names(x["resource"]) })
		return len(left) > 0
	})) > 0
}

// each keeps those members of a list of objects for which KEEP says so, and returns them.
func each(doc map[string]any, key string, keep func(map[string]any) bool) []any {
	list, ok := doc[key].([]any)
	if !ok {
		return nil
	}
	left := slices.DeleteFunc(list, func(x any) bool {
		m, ok := x.(map[string]any)
		return ok && !keep(m)
	})
	doc[key] = left
	return left
}

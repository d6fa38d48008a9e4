package trial

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// everything is the process whose rows show the whole cluster.
const everything = "opsim"

// object is one incarnation of an object in a run.
type object struct {
	traces.Identity
	text, hash string // its last state
	base       string // of a generated name
	gone       bool
	versions   []version
}

// story is what a run did to the cluster, gathered as its rows come.
type story struct {
	processes []string
	objects   []*object // in the order in which they came up
	byUID     map[string]*object
	names     map[string]string          // generated name → its base, with a *
	generated map[string]int             // how often the operator created under a generateName, by kind and base
	deletes   map[string]int             // the operator's deletes of objects that were there, by name
	writes    map[string]int             // its writes by name
	told      map[string]map[string]bool // by name: what the operator said of objects that it made
	replies   map[string][]int           // by name: how much it had said before each change of one by others
	made      map[string]bool            // keys of what it created
	answered  []string                   // uids of what others changed, in the order of their changes
	outside   map[written]int64          // versions that others wrote, if no row before this one showed them
	logs      []*traces.Log
	last      int64                         // time of the last row
	known     map[*object]map[string]string // leaves as of the last event
	leases    bool                          // it takes part in leader election
}

func newStory(processes []string) *story {
	return &story{
		processes: processes, byUID: map[string]*object{}, names: map[string]string{}, generated: map[string]int{},
		deletes: map[string]int{}, writes: map[string]int{}, told: map[string]map[string]bool{}, replies: map[string][]int{},
		made: map[string]bool{}, outside: map[written]int64{},
	}
}

// idle are resources that no end state is compared in: heartbeats and what is said, not done.
func idle(id *traces.Identity) bool {
	switch id.Resource {
	case "events":
		return id.Group == "" || id.Group == "events.k8s.io"
	case "leases":
		return id.Group == "coordination.k8s.io"
	}
	return false
}

// see takes the next row.
func (s *story) see(row traces.Record) {
	s.last = row.Header().TS
	switch r := row.(type) {
	case *traces.WatchEvent:
		if r.Process == everything && r.UID != "" && !idle(&r.Identity) {
			s.event(r)
		}
	case *traces.Request:
		switch {
		case slices.Contains(s.processes, r.Process):
			s.call(r)
		case r.Process != everything:
			s.reply(r)
			s.answer(r)
		}
	case *traces.Log:
		s.logs = append(s.logs, r)
	}
}

func (s *story) event(r *traces.WatchEvent) {
	s.known = nil // what uids and names stand for may be something else now
	o := s.byUID[r.UID]
	if o == nil {
		o = &object{base: baseOf(r.Object)}
		s.byUID[r.UID] = o
		s.objects = append(s.objects, o)
		if o.base != "" {
			s.names[r.Name] = o.base + "*"
		}
	}
	o.Identity = r.Identity
	if r.Object != "" {
		o.text, o.hash = r.Object, r.ObjectHash
		o.versions = append(o.versions, version{r.ResourceVersion, r.Seq, r.Object})
	}
	o.gone = r.Type == string(traces.Deleted)
}

func (s *story) call(r *traces.Request) {
	if !isWrite(r.Verb) || strings.Contains(r.Query, "dryRun=") {
		return
	}
	if idle(&r.Identity) {
		s.leases = s.leases || r.Resource == "leases"
		return
	}
	if r.Code < 200 || r.Code > 299 {
		return
	}
	name := nameOf(&r.Identity)
	switch {
	case r.Verb == "delete":
		s.deletes[name]++
	case makes(r):
		key := name
		if base := generateName(r); base != "" {
			key = kindOf(&r.Identity) + " " + slash(r.Namespace, base) + "*"
			s.generated[key]++
		}
		s.made[key] = true
	}
	s.writes[name]++
	if makes(r) {
		s.told[name] = map[string]bool{}
	}
	if said := s.told[name]; said != nil && r.Verb != "delete" {
		said[r.RequestBody] = true
	}
}

// makes is whether a request that succeeded made an object: a create, or what is applied where there is none.
func makes(r *traces.Request) bool {
	return r.Subresource == "" && (r.Verb == "create" || r.Verb == "patch" && r.Code == 201)
}

// reply takes a change by others of an object that the operator made: they answer what it said.
func (s *story) reply(r *traces.Request) {
	name := nameOf(&r.Identity)
	if said := s.told[name]; said != nil && (r.Verb == "update" || r.Verb == "patch") && r.Code >= 200 && r.Code <= 299 {
		s.replies[name] = append(s.replies[name], len(said))
	}
}

// early is how many of the changes by others of what the operator made came before it had said what they answer.
func early(ref, run *story) (n int) {
	for name, want := range ref.replies {
		have := run.replies[name]
		for i := range min(len(want), len(have)) {
			if have[i] < want[i] {
				n++
			}
		}
	}
	return n
}

func isWrite(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// generateName is the base of the name that the server made for a created object; "" when the client named it.
func generateName(r *traces.Request) string {
	return baseOf(r.RequestBody)
}

// baseOf is the base of an object's generated name; "" for one that somebody chose.
func baseOf(text string) string {
	if !strings.Contains(text, `"generateName"`) {
		return ""
	}
	var o struct {
		Metadata struct {
			Name         string `json:"name"`
			GenerateName string `json:"generateName"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(text), &o) != nil || !strings.HasPrefix(o.Metadata.Name, o.Metadata.GenerateName) && o.Metadata.Name != "" {
		return ""
	}
	return o.Metadata.GenerateName
}

// kindOf is a resource as kubectl names it.
func kindOf(id *traces.Identity) string {
	if id.Group == "" {
		return id.Resource
	}
	return id.Resource + "." + id.Group
}

func slash(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// nameOf names an object as kubectl does.
func nameOf(id *traces.Identity) string { return kindOf(id) + " " + slash(id.Namespace, id.Name) }

// key names an object so that it can be found in another run: a generated name by its base.
func (s *story) key(o *object) string {
	name := o.Name
	if o.base != "" {
		name = o.base + "*"
	}
	return kindOf(&o.Identity) + " " + slash(o.Namespace, name)
}

// end is what there is at the end, by key: several only for generated names.
func (s *story) end() map[string][]*object {
	all := map[string][]*object{}
	for _, o := range s.objects {
		if !o.gone {
			all[s.key(o)] = append(all[s.key(o)], o)
		}
	}
	return all
}

// incarnations is how often an object of each key came to be.
func (s *story) incarnations() map[string]int {
	n := map[string]int{}
	for _, o := range s.objects {
		n[s.key(o)]++
	}
	return n
}

package analysis

import (
	"iter"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/analysis/internal/meta"
	"github.com/opreplay/opreplay/traces"
)

// Bounds of the model. Each bounds memory that would otherwise grow with the trace rather than with the
// number of open objects.
const (
	// settleAfter is how long in trace time a version waits for the end of the request that made it, whose row
	// comes after the watch event when the event overtook the answer. The answer follows the commit at once.
	settleAfter = int64(1e9)
	// maxPending bounds the versions that wait, should thousands come within that second.
	maxPending = 1 << 16
	// maxTombs is how many deleted objects are remembered, to know a slow stream's late events for what they are.
	maxTombs = 1 << 12
	// ring is how many of an object's last writers, and of its last deliveries to one process, are remembered. The
	// memory is taken as they come: few objects have so many.
	ring = 64
	// maxProcesses bounds the processes that are told apart.
	maxProcesses = 256
	// defaultBodies is how much text of last versions is kept when Options don't say.
	defaultBodies = 128 << 20
)

// Model is what the detectors share: per open object its last version and who wrote it, per process what it
// was told. It hands each version of each object to the detectors once, in the order in which it became true.
type Model struct {
	FirstTS, LastTS int64
	// Simulated is set for runs in a simulated world.
	Simulated bool
	// Seed is made of the trace's hash: what draws at random draws the same for the same trace.
	Seed uint64
	// Manifest is the trace's; it is never nil.
	Manifest *traces.Manifest

	on        *listeners
	objects   map[Key]*State
	uids      map[string]*State
	places    int     // how many there are in the detectors' memories
	free      []int32 // of these, those of objects that are gone
	ways      map[Way]*Way
	lately    *Way // the way of the last call
	recent    [1 << recentBits]*State
	texts     map[string]string // those that many objects share
	names     map[Key]*State    // those that exist: the newest of that namespace and name; State.namesake is the next
	managers  map[string]bool   // field managers of recorded processes, whose writes are all known
	processes map[string]*Process
	nth       []*Process // by Process.index
	seen      int64      // incarnations
	pending   queue[*version]
	spare     spare[version] // that have settled
	tombs     queue[*State]
	bodies    bodies
	differ    jsontext.Differ
	scratch   Change
	event     Event
	told      window
	passes    passes
	stacks    stacks
	kin       kin
}

// Object is the object of that name as it is now, or its newest incarnation if it is gone and not yet forgotten; nil
// for one that was never seen.
func (m *Model) Object(k Key) *State { return m.objects[k] }

// ByUID is the object of that uid, which may be gone and not yet forgotten; nil for one that was never seen.
func (m *Model) ByUID(uid string) *State { return m.uids[uid] }

// root is the object whose uid is the object's family's, nil if it was never seen.
func (m *Model) root(s *State) *State {
	if s.Owner == "" && !s.Gone && !s.shared {
		return s
	}
	return m.ByUID(s.Family())
}

// Named yields the objects of that name, of whatever kind, that exist, in no particular order.
func (m *Model) Named(namespace, name string) iter.Seq[*State] {
	return func(yield func(*State) bool) {
		for s := m.names[Key{Namespace: namespace, Name: name}]; s != nil; s = s.namesake {
			if !yield(s) {
				return
			}
		}
	}
}

// remember puts a new object into the indices.
func (m *Model) remember(s *State) {
	m.seen++
	if other := m.uids[s.UID]; other != nil {
		other.shared = true
	}
	m.objects[s.Key()], m.uids[s.UID] = s, s
	n := Key{Namespace: s.Namespace, Name: s.Name}
	s.namesake = m.names[n]
	m.names[n] = s
}

// unname takes an object out of those that exist by name.
func (m *Model) unname(s *State) {
	n := Key{Namespace: s.Namespace, Name: s.Name}
	switch first := m.names[n]; {
	case first == s && s.namesake == nil:
		delete(m.names, n)
	case first == s:
		m.names[n] = s.namesake
	default:
		for x := first; x != nil; x = x.namesake {
			if x.namesake == s {
				x.namesake = s.namesake
			}
		}
	}
	s.namesake = nil
}

// forget drops what is long gone, where another has not taken its place.
func (m *Model) forget(s *State) {
	if m.objects[s.Key()] == s {
		delete(m.objects, s.Key())
	}
	if m.uids[s.UID] == s {
		delete(m.uids, s.UID)
	}
}

// Objects yields the objects that exist, in no particular order.
func (m *Model) Objects(yield func(*State) bool) {
	for _, s := range m.objects {
		if !s.Gone && !yield(s) {
			return
		}
	}
}

// Processes are the recorded processes, in the order in which they were first seen.
func (m *Model) Processes() []*Process { return m.nth }

// Process is one recorded process.
type Process struct {
	Name  string
	index int
	// Calls and Writes count its requests.
	Calls, Writes int64
	// Passes counts its reconciles.
	Passes int64
	// LastSeen is the last time that it called or was told anything; WatchEnd that a watch of its ended.
	LastSeen, WatchEnd int64
	// Watches says whether its watches were recorded, so that what it was told is known.
	Watches bool

	watched map[kindOf]bool
	last    kindOf // of watched
}

// endNear is how near the end of the trace the end of a process's last watch must be to count as the end of the
// process, for API servers end idle watches every few minutes.
const endNear = int64(60e9)

// End is when the process was last alive: the end of its last watch if that is near the end of the trace and
// nothing followed it, else the end of the trace.
func (m *Model) End(p *Process) int64 {
	if p != nil && p.WatchEnd > m.LastTS-endNear && p.WatchEnd >= p.LastSeen {
		return p.WatchEnd
	}
	return m.LastTS
}

func newModel(manifest *traces.Manifest, on *listeners) *Model {
	return &Model{
		Simulated: manifest.Run != nil, Manifest: manifest, on: on,
		passes:  passes{wanted: len(on.passes) > 0},
		objects: map[Key]*State{}, uids: map[string]*State{}, names: map[Key]*State{}, managers: map[string]bool{}, processes: map[string]*Process{}, ways: map[Way]*Way{}, bodies: bodies{limit: defaultBodies},
	}
}

// place tells the detectors' memories apart.
func (m *Model) place(detectors []Detector) {
	n := 0
	for _, d := range detectors {
		if r, ok := d.(rememberer); ok {
			for _, x := range r.memories() {
				x.is(n)
				n++
			}
		}
	}
	if n > maxMemories {
		panic("analysis: more memories than State.kept has bits")
	}
}

// house gives a new object its place in the memories.
func (m *Model) house(s *State) {
	if n := len(m.free); n > 0 {
		s.place, m.free = m.free[n-1], m.free[:n-1]
		return
	}
	s.place = int32(m.places)
	m.places++
}

// maxWays bounds the ways of calls that are shared.
const maxWays = 1 << 12

// way is the one that is equal to w, with texts of its own.
func (m *Model) way(w Way) *Way {
	if m.lately != nil && *m.lately == w {
		return m.lately
	}
	shared := m.ways[w]
	if shared == nil {
		shared = &Way{w.Process, m.shared(w.UserAgent), m.shared(w.Manager), m.shared(w.Verb), m.shared(w.Subresource), m.shared(w.ContentType)}
		if len(m.ways) < maxWays {
			m.ways[*shared] = shared
		}
	}
	m.lately = shared
	return shared
}

// process is the process of that name; nil for outsiders and the recorder.
func (m *Model) process(name string) *Process {
	if name == "" || meta.Captures(name) {
		return nil
	}
	p := m.processes[name]
	if p == nil && len(m.nth) < maxProcesses {
		p = &Process{Name: strings.Clone(name), index: len(m.nth)}
		m.processes[p.Name] = p
		m.nth = append(m.nth, p)
	}
	return p
}

// state is the object that an identity names, nil when the row is about an incarnation that is gone.
func (m *Model) state(id *traces.Identity) *State {
	near := m.near(id.UID)
	if near != nil {
		if s := *near; s != nil && s.is(id) {
			return s
		}
	}
	key := Key{id.Group, id.Resource, id.Namespace, id.Name}
	s := m.objects[key]
	switch {
	case s == nil:
	case s.Gone && (id.UID == "" || id.UID == s.UID && id.ResourceVersion > s.RV):
		// A call by name to what is gone, which is about nothing or about a new incarnation; or an
		// object that is back, for it had only left what a watch selects.
	case id.UID == "" || id.UID == s.UID:
		if near != nil {
			*near = s
		}
		return s
	case id.ResourceVersion != 0 && id.ResourceVersion <= s.newest():
		return nil // a late event of an earlier incarnation
	}
	if id.UID == "" {
		return nil
	}
	key = Key{m.shared(id.Group), m.shared(id.Resource), m.shared(id.Namespace), strings.Clone(id.Name)}
	n := &State{Object: Object{Group: key.Group, Version: m.shared(id.Version), Resource: key.Resource, Namespace: key.Namespace, Name: key.Name, UID: strings.Clone(id.UID)}}
	n.Heartbeat = heartbeatResource(key)
	m.house(n)
	if s != nil && !s.Gone {
		m.settle(s, s.newest())
		m.gone(s)
	}
	m.remember(n)
	if near != nil {
		*near = n
	}
	return n
}

// is is whether the object is there and has that identity.
func (s *State) is(id *traces.Identity) bool {
	return !s.Gone && s.UID == id.UID && s.Name == id.Name && s.Namespace == id.Namespace && s.Resource == id.Resource && s.Group == id.Group
}

// recentBits is how many bits of a uid choose the place where its object is looked for first.
const recentBits = 13

// near is where an object with that uid is if it was seen lately, found without the hash of a whole name; nil for a uid
// that is none.
func (m *Model) near(uid string) **State {
	if len(uid) < 8 {
		return nil
	}
	h := uint64(0)
	for i := len(uid) - 8; i < len(uid); i++ {
		h = h<<8 | uint64(uid[i])
	}
	return &m.recent[h*0x9e3779b97f4a7c15>>(64-recentBits)]
}

// maxShared bounds the texts that objects share.
const maxShared = 1 << 12

// shared is a text with memory of its own, and the same for all that have it.
func (m *Model) shared(text string) string {
	s, ok := m.texts[text]
	if !ok {
		s = strings.Clone(text)
		if m.texts == nil {
			m.texts = map[string]string{}
		}
		if len(m.texts) < maxShared {
			m.texts[s] = s
		}
	}
	return s
}

func (m *Model) watch(w *traces.WatchEvent) {
	p := m.process(w.Process)
	if p != nil {
		p.Watches, p.LastSeen = true, max(p.LastSeen, w.TS)
		p.watching(w.Group, w.Resource)
	}
	var s *State
	if w.Name != "" && w.Type != string(traces.Bookmark) && w.Type != string(traces.Error) {
		s = m.state(&w.Identity)
	}
	m.deliver(p, s, w)
	if s == nil {
		return
	}
	s.captured = s.captured || meta.Captures(w.Process)
	// For a watch with a selector an object is deleted when it leaves what is selected: the recorder's own
	// watches have none, so they know better.
	deleted := w.Type == string(traces.Deleted) && (meta.Captures(w.Process) || !s.captured)
	v := m.find(s, w.ResourceVersion, &w.Head)
	if v == nil {
		if deleted && !s.Gone {
			// The deletion of a version that is known already: it left a selection, or the resource
			// version is no number.
			m.settle(s, s.newest())
			m.end(s, w)
		}
		return
	}
	if v.body == "" && w.Object != "" {
		v.body = w.Object
		if s.Owner == "" && s.RV == 0 {
			s.Owner = meta.Owner(v.body)
		}
	}
	v.gen = max(v.gen, w.Generation)
	if v.manager == "" && w.Writer != "" && !strings.HasPrefix(w.Writer, "seq:") {
		v.manager = m.shared(w.Writer)
	}
	v.deleted = v.deleted || deleted
}

func (m *Model) request(r *traces.Request) {
	p := m.process(r.Process)
	if p != nil {
		p.Calls++
		if r.Verb == "watch" {
			p.WatchEnd = max(p.WatchEnd, r.TS)
			p.watching(r.Group, r.Resource)
		} else {
			p.LastSeen = max(p.LastSeen, r.TS)
		}
	}
	c := m.call(p, r)
	if c == nil {
		for _, d := range m.on.requests {
			d.Request(m, p, r)
		}
		return
	}
	if c.Verb == "get" {
		if c.OK() && p != nil && c.State != nil && c.RV > 0 && c.Subresource == "" {
			c.State.tell(p, Delivery{RV: c.RV, Seq: c.Seq, TS: c.TS})
			m.body(c.State, r, nil)
		}
	} else if c.Write() {
		if p != nil {
			p.Writes++
			if c.Manager != "" && !m.managers[c.Manager] {
				m.managers[strings.Clone(c.Manager)] = true
			}
		}
		m.write(c, r)
	}
	m.passes.called(c)
	for _, d := range m.on.calls {
		d.Call(m, c)
	}
	c.Row = nil
	if !c.linked {
		c.Body = ""
	}
}

// call makes a Call of a row; nil for rows that are about no object.
func (m *Model) call(p *Process, r *traces.Request) *Call {
	switch r.Verb {
	case "list", "watch", "connect", "deletecollection":
		return nil
	}
	if r.Resource == "" || r.Name == "" || dryRun(r.Query) {
		return nil
	}
	return &Call{
		Way: m.way(Way{p, r.UserAgent, r.FieldManager, r.Verb, r.Subresource, r.ContentType}),
		Seq: r.Seq, StartSeq: r.StartSeq, TS: r.TS, Start: r.Start, State: m.state(&r.Identity), Row: r,
		RV: r.ResourceVersion, Generation: r.Generation, Code: r.Code, Reason: m.shared(r.Reason), Body: r.RequestBody,
		Base: base(r), Stack: r.StackID, ReconcileID: r.ReconcileID,
	}
}

func dryRun(query string) bool { return query != "" && strings.Contains(query, "dryRun=") }

// base is the version that a write names as the one it was made from.
func base(r *traces.Request) int64 {
	if r.Verb != "update" && (r.Verb != "patch" || !strings.Contains(r.RequestBody, `"resourceVersion"`)) {
		return 0
	}
	v, _ := jsontext.Get(r.RequestBody, "metadata", "resourceVersion")
	return jsontext.Int(v)
}

// write links a successful write with the version that it made.
func (m *Model) write(c *Call, r *traces.Request) {
	if !c.OK() || c.State == nil || c.RV == 0 {
		return
	}
	v := m.find(c.State, c.RV, &r.Head)
	if v == nil || v.call != nil || v.seq <= c.StartSeq {
		c.Empty = c.Verb != "delete" && c.Verb != "create" && !c.State.settledLate(c)
		return
	}
	v.call, c.linked = c, true
	v.gen = max(v.gen, c.Generation)
	m.body(c.State, r, v)
}

// body takes the object's text from an answer that carries it.
func (m *Model) body(s *State, r *traces.Request, v *version) {
	if r.ResponseBody == "" || r.Subresource == "scale" || !strings.Contains(r.ResponseBody, `"metadata"`) {
		return
	}
	if v == nil {
		if v = m.find(s, r.ResourceVersion, &r.Head); v == nil {
			return
		}
	}
	if rv, _ := jsontext.Get(r.ResponseBody, "metadata", "resourceVersion"); v.body == "" && jsontext.Int(rv) == v.rv {
		v.body = r.ResponseBody
	}
}

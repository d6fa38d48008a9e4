package analysis

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/traces"
)

// captures is whether the process is the recorder or the simulator itself: what its watches deliver woke nobody.
func captures(process string) bool { return process == "oprec" || process == "opsim" }

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

// Key names an object without its incarnation.
type Key struct{ Group, Resource, Namespace, Name string }

// Model is what the detectors share: per open object its last version and who wrote it, per process what it
// was told. It hands each version of each object to the detectors once, in the order in which it became true.
type Model struct {
	FirstTS, LastTS int64
	// Simulated is set for runs in a simulated world.
	Simulated bool

	objects   map[Key]*State
	processes map[string]*Process
	nth       []*Process // by Process.index
	seen      int64      // incarnations
	pending   queue[*version]
	tombs     queue[*State]
	bodies    bodies
	differ    jsontext.Differ
	scratch   Change
	detectors []Detector
	losses    []traces.Loss
}

// Process is one recorded process.
type Process struct {
	Name  string
	index int
	// Calls and Writes count its requests.
	Calls, Writes int64
	// LastSeen is the last time that it called or was told anything; WatchEnd that a watch of its ended.
	LastSeen, WatchEnd int64
	// Watches says whether its watches were recorded, so that what it was told is known.
	Watches bool
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

// State is one incarnation of an object.
type State struct {
	Object
	key Key
	// RV and Generation are those of the newest settled version, Body its text, "" when unknown.
	RV, Generation int64
	Body           string
	// Deleting is when the object was first seen with a deletionTimestamp; 0 otherwise.
	Deleting int64
	// Owner is the uid of its controller, else of its first owner.
	Owner     string
	Heartbeat bool
	Gone      bool
	// GoneAt is when its deletion was seen, or that another of its name has taken its place.
	GoneAt int64

	captured bool // the recorder's own watch has shown it

	pending []*version // by RV
	authors rings[Author]
	told    []*deliveries
	lru     lruLinks
}

// Family is the uid that the object shares with its owner or its children.
func (s *State) Family() string { return cmp.Or(s.Owner, s.UID) }

// deliveries are the last versions of one object that one process was told of.
type deliveries struct {
	process *Process
	last    rings[Delivery]
}

// Delivery is one version of an object reaching one process.
type Delivery struct {
	RV, Seq, TS int64
	// Event is false for the answer to a get, which wakes nobody.
	Event bool
}

// Known is how the writer of a version is known.
type Known uint8

// The ways, worst first.
const (
	Unknown       Known = iota
	ManagedFields       // the newest entry of managedFields
	ByRequest           // the request was recorded, with this version as its answer
)

// Author is who wrote a version.
type Author struct {
	RV, Seq, TS int64 // the version, and the row that showed it first
	Process     *Process
	Manager     string
	Call        *Call // nil unless Known is ByRequest; its body is gone once the version has settled
	Known       Known
}

// Name is the writer in words.
func (a Author) Name() string {
	switch {
	case a.Process != nil:
		return a.Process.Name
	case a.Manager != "":
		return a.Manager
	case a.Call != nil && a.Call.UserAgent != "":
		agent, _, _ := strings.Cut(a.Call.UserAgent, "/")
		return agent
	}
	return "somebody"
}

// version is a version of an object that has not settled.
type version struct {
	state           *State
	rv, gen         int64
	body            string
	seq, ts         int64 // of the row that showed it first
	call            *Call
	manager         string
	deleted, closed bool
}

// Change is a settled version.
type Change struct {
	State  *State
	Author Author
	// Before and After are the object's texts, "" when unknown. After the deletion, After is the last state.
	Before, After          string
	RV, PrevRV             int64
	Generation, PrevGen    int64
	Seq, TS                int64
	Created, Deleted       bool
	model                  *Model
	leaves                 []jsontext.Leaf
	diffed, known, managed bool
}

// Diff is what the version changed; known is false when one of the two texts is not.
func (c *Change) Diff() (leaves []jsontext.Leaf, known bool) {
	if !c.diffed {
		c.diffed = true
		if c.Before != "" && c.After != "" {
			c.leaves, c.known = c.model.differ.Objects(c.Before, c.After), true
		}
	}
	return c.leaves, c.known
}

// Manager is the field manager that wrote the version, by request or else by managedFields.
func (c *Change) Manager() string {
	if c.Author.Manager == "" && !c.managed {
		c.managed = true
		c.Author.Manager = newestManager(c.After)
		if c.Author.Known == Unknown && c.Author.Manager != "" {
			c.Author.Known = ManagedFields
		}
	}
	return c.Author.Manager
}

// Call is a request that ended.
type Call struct {
	Seq, StartSeq, TS, Start int64
	Process                  *Process
	State                    *State // nil where the call is about no single object
	UserAgent, Manager       string
	Verb, Subresource        string
	ContentType              string
	RV, Generation           int64
	// Base is the resourceVersion in the request's body, 0 for none.
	Base   int64
	Code   int32
	Reason string
	Body   string
	// Empty is set when the answer carries a version that the object already had.
	Empty              bool
	Stack, ReconcileID int64

	wake wake // for SelfLoop
}

// OK is whether the call succeeded.
func (c *Call) OK() bool { return c.Code >= 200 && c.Code < 300 }

// Write is whether the call would change an object.
func (c *Call) Write() bool {
	switch c.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// Wholesale is whether the call replaces what it names rather than merging by key: an update, a JSON merge
// patch (RFC 7386 replaces lists), a JSON patch.
func (c *Call) Wholesale() bool {
	return c.Verb == "update" || strings.HasPrefix(c.ContentType, "application/merge-patch") || strings.HasPrefix(c.ContentType, "application/json-patch")
}

// kind says in words what kind of write it is.
func (c *Call) kind() string {
	what := c.Verb
	switch {
	case c.Verb != "patch":
	case strings.HasPrefix(c.ContentType, "application/merge-patch"):
		what = "merge patch"
	case strings.HasPrefix(c.ContentType, "application/json-patch"):
		what = "JSON patch"
	case strings.HasPrefix(c.ContentType, "application/apply-patch"):
		what = "apply"
	case strings.HasPrefix(c.ContentType, "application/strategic-merge-patch"):
		what = "strategic merge patch"
	}
	if c.Subresource != "" {
		what += " of " + c.Subresource
	}
	return what
}

func newModel() *Model {
	return &Model{objects: map[Key]*State{}, processes: map[string]*Process{}, bodies: bodies{limit: defaultBodies}}
}

// process is the process of that name; nil for outsiders and the recorder.
func (m *Model) process(name string) *Process {
	if name == "" || captures(name) {
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

func (m *Model) tick(h *traces.Head) {
	if m.FirstTS == 0 || h.TS < m.FirstTS {
		m.FirstTS = h.TS
	}
	m.LastTS = max(m.LastTS, h.TS)
	for m.pending.len() > 0 {
		v := m.pending.front()
		complete := v.body != "" && v.call != nil
		if !v.closed && !complete && m.LastTS-v.ts < settleAfter && m.pending.len() < maxPending {
			return
		}
		m.pending.pop()
		if !v.closed {
			m.settle(v.state, v.rv)
		}
	}
}

// finish settles all that waits.
func (m *Model) finish() {
	for m.pending.len() > 0 {
		if v := m.pending.pop(); !v.closed {
			m.settle(v.state, v.rv)
		}
	}
}

// state is the object that an identity names, nil when the row is about an incarnation that is gone.
func (m *Model) state(id *traces.Identity) *State {
	key := Key{id.Group, id.Resource, id.Namespace, id.Name}
	s := m.objects[key]
	switch {
	case s == nil:
	case s.Gone && (id.UID == "" || id.UID == s.UID && id.ResourceVersion > s.RV):
		// A call by name to what is gone, which is about nothing or about a new incarnation; or an
		// object that is back, for it had only left what a watch selects.
	case id.UID == "" || id.UID == s.UID:
		return s
	case id.ResourceVersion != 0 && id.ResourceVersion <= s.newest():
		return nil // a late event of an earlier incarnation
	}
	if id.UID == "" {
		return nil
	}
	key = Key{strings.Clone(id.Group), strings.Clone(id.Resource), strings.Clone(id.Namespace), strings.Clone(id.Name)}
	n := &State{key: key, Object: Object{Group: key.Group, Version: strings.Clone(id.Version), Resource: key.Resource, Namespace: key.Namespace, Name: key.Name, UID: strings.Clone(id.UID)}}
	n.Heartbeat = heartbeatResource(key)
	if s != nil && !s.Gone {
		m.settle(s, s.newest())
		m.gone(s)
	}
	m.seen++
	m.objects[key] = n
	return n
}

func (s *State) newest() int64 {
	if n := len(s.pending); n > 0 {
		return max(s.RV, s.pending[n-1].rv)
	}
	return s.RV
}

// find is the pending version of that number, made when it is new; nil when it is settled or older.
func (m *Model) find(s *State, rv int64, h *traces.Head) *version {
	if rv <= s.RV || s.Gone {
		return nil
	}
	i, found := slices.BinarySearchFunc(s.pending, rv, func(v *version, rv int64) int { return cmp.Compare(v.rv, rv) })
	if found {
		return s.pending[i]
	}
	v := &version{state: s, rv: rv, seq: h.Seq, ts: h.TS}
	s.pending = slices.Insert(s.pending, i, v)
	m.pending.push(v)
	return v
}

func (m *Model) watch(w *traces.WatchEvent) {
	if w.Name == "" || w.Type == string(traces.Bookmark) || w.Type == string(traces.Error) {
		return
	}
	p := m.process(w.Process)
	if p != nil {
		p.Watches, p.LastSeen = true, max(p.LastSeen, w.TS)
	}
	s := m.state(&w.Identity)
	if s == nil {
		return
	}
	s.captured = s.captured || captures(w.Process)
	if p != nil {
		s.tell(p, Delivery{RV: w.ResourceVersion, Seq: w.Seq, TS: w.TS, Event: true})
	}
	// For a watch with a selector an object is deleted when it leaves what is selected: the recorder's own
	// watches have none, so they know better.
	deleted := w.Type == string(traces.Deleted) && (captures(w.Process) || !s.captured)
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
			s.Owner = owner(v.body)
		}
	}
	v.gen = max(v.gen, w.Generation)
	if v.manager == "" && w.Writer != "" && !strings.HasPrefix(w.Writer, "seq:") {
		v.manager = w.Writer
	}
	v.deleted = v.deleted || deleted
}

// end tells the detectors of a deletion that made no version of its own.
func (m *Model) end(s *State, w *traces.WatchEvent) {
	c := &Change{State: s, Before: s.Body, After: s.Body, RV: s.RV, PrevRV: s.RV, Generation: s.Generation, PrevGen: s.Generation, Seq: w.Seq, TS: w.TS, Deleted: true, model: m}
	for _, d := range m.detectors {
		d.Change(m, c)
	}
	s.GoneAt = w.TS
	m.gone(s)
}

func (s *State) tell(p *Process, d Delivery) {
	for _, t := range s.told {
		if t.process == p {
			t.last.add(d)
			return
		}
	}
	t := &deliveries{process: p}
	t.last.add(d)
	s.told = append(s.told, t)
}

// Told is when the process was first told of a version from RV on: the zero Delivery when it was not. exact is
// false when it may have been told before, longer ago than is remembered.
func (s *State) Told(p *Process, rv int64) (first Delivery, exact bool) {
	exact = true
	for _, t := range s.told {
		if t.process != p {
			continue
		}
		for i := range t.last.len() {
			if d := t.last.newest(i); d.RV >= rv && (first.Seq == 0 || d.Seq < first.Seq) {
				first = *d
				exact = i < ring-1
			}
		}
	}
	return first, exact
}

// Event is when the process got the event of exactly that version, the zero Delivery when it didn't.
func (s *State) Event(p *Process, rv int64) (event Delivery) {
	for _, t := range s.told {
		if t.process != p {
			continue
		}
		for i := range t.last.len() {
			if d := t.last.newest(i); d.RV == rv && d.Event {
				event = *d // of several the first, by a watch that was not late
			} else if d.RV < rv-1 && event.Seq != 0 {
				break
			}
		}
	}
	return event
}

// Authors yields the last writers, newest first.
func (s *State) Authors(f func(*Author) bool) {
	for i := range s.authors.len() {
		if !f(s.authors.newest(i)) {
			return
		}
	}
}

func (m *Model) request(r *traces.Request) {
	p := m.process(r.Process)
	if p != nil {
		p.Calls++
		if r.Verb == "watch" {
			p.WatchEnd = max(p.WatchEnd, r.TS)
		} else {
			p.LastSeen = max(p.LastSeen, r.TS)
		}
	}
	c := m.call(p, r)
	if c == nil {
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
		}
		m.write(c, r)
	}
	for _, d := range m.detectors {
		d.Call(m, c)
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
		Seq: r.Seq, StartSeq: r.StartSeq, TS: r.TS, Start: r.Start, Process: p, State: m.state(&r.Identity),
		UserAgent: r.UserAgent, Manager: r.FieldManager, Verb: r.Verb, Subresource: r.Subresource, ContentType: r.ContentType,
		RV: r.ResourceVersion, Generation: r.Generation, Code: r.Code, Reason: r.Reason, Body: r.RequestBody,
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
	v.call = c
	v.gen = max(v.gen, c.Generation)
	m.body(c.State, r, v)
}

// settledLate is whether the version that the call made has settled without it, because its answer took long.
func (s *State) settledLate(c *Call) bool {
	late := false
	s.Authors(func(a *Author) bool {
		late = a.RV == c.RV && a.Seq > c.StartSeq && a.Known != ByRequest
		return a.RV > c.RV
	})
	return late
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

// settle hands the object's pending versions up to rv to the detectors.
func (m *Model) settle(s *State, rv int64) {
	n := 0
	for n < len(s.pending) && s.pending[n].rv <= rv {
		n++
	}
	for _, v := range s.pending[:n] {
		v.closed = true
	}
	for _, v := range s.pending[:n] {
		if s.Gone {
			break
		}
		m.change(s, v)
	}
	rest := copy(s.pending, s.pending[min(n, len(s.pending)):])
	clear(s.pending[rest:])
	s.pending = s.pending[:rest]
}

func (m *Model) change(s *State, v *version) {
	c := &m.scratch
	*c = Change{
		State: s, Before: s.Body, After: v.body, RV: v.rv, PrevRV: s.RV, Generation: v.gen, PrevGen: s.Generation,
		Seq: v.seq, TS: v.ts, Created: s.RV == 0, Deleted: v.deleted, model: m,
		Author: Author{RV: v.rv, Seq: v.seq, TS: v.ts, Manager: v.manager},
	}
	if v.call != nil {
		c.Author.Call, c.Author.Process, c.Author.Manager, c.Author.Known = v.call, v.call.Process, v.call.Manager, ByRequest
	}
	m.metadata(s, c)
	for _, d := range m.detectors {
		d.Change(m, c)
	}
	if c.Author.Call != nil {
		c.Author.Call.Body = ""
	}
	s.authors.add(c.Author)
	s.RV, s.Generation = v.rv, v.gen
	m.bodies.keep(s, v.body)
	if v.deleted {
		s.GoneAt = v.ts
		m.gone(s)
	}
}

// metadata notices what every detector wants to know of an object.
func (m *Model) metadata(s *State, c *Change) {
	if c.After == "" {
		return
	}
	if c.Created || c.Before == "" {
		s.Heartbeat = s.Heartbeat || heartbeatObject(s.key, c.After)
	}
	if s.Deleting != 0 || s.Heartbeat {
		return
	}
	leaves, known := c.Diff()
	changed := !known && strings.Contains(c.After, `"deletionTimestamp"`)
	for i := range leaves {
		changed = changed || leaves[i].Path == "metadata.deletionTimestamp"
	}
	if changed {
		if t, ok := jsontext.Get(c.After, "metadata", "deletionTimestamp"); ok && t != "null" {
			s.Deleting = c.TS
			if since, err := time.Parse(time.RFC3339, jsontext.Text(t)); err == nil && c.Created {
				s.Deleting = min(c.TS, since.UnixNano())
			}
		}
	}
}

// gone forgets an object, but for a tombstone.
func (m *Model) gone(s *State) {
	s.Gone = true
	s.GoneAt = cmp.Or(s.GoneAt, m.LastTS)
	m.bodies.drop(s)
	for _, d := range m.detectors {
		d.Gone(m, s)
	}
	s.authors, s.told = rings[Author]{}, nil // a tombstone is name, uid and version
	m.tombs.push(s)
	if m.tombs.len() > maxTombs {
		if t := m.tombs.pop(); m.objects[t.key] == t {
			delete(m.objects, t.key)
		}
	}
}

// owner is the uid of an object's controller, else of its first owner.
func owner(body string) string {
	if !strings.Contains(body, `"ownerReferences"`) {
		return ""
	}
	refs, _ := jsontext.Get(body, "metadata", "ownerReferences")
	uid := ""
	jsontext.Elements(refs, func(ref string) bool {
		u, _ := jsontext.Get(ref, "uid")
		controller, _ := jsontext.Get(ref, "controller")
		if uid == "" || controller == "true" {
			uid = jsontext.Text(u)
		}
		return controller != "true"
	})
	return strings.Clone(uid)
}

// newestManager is the manager of the newest entry of managedFields: the last writer, unless its write
// changed no field of its own. Times have a grain of one second; of equal times the later entry counts, for
// the API server appends.
func newestManager(body string) string {
	fields, ok := jsontext.Get(body, "metadata", "managedFields")
	if !ok {
		return ""
	}
	name, newest := "", ""
	jsontext.Elements(fields, func(entry string) bool {
		t, _ := jsontext.Get(entry, "time")
		if t >= newest {
			manager, _ := jsontext.Get(entry, "manager")
			newest, name = t, jsontext.Text(manager)
		}
		return true
	})
	return strings.Clone(name)
}

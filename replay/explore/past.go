package explore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/traces"
)

// everything is the process whose rows show the whole cluster.
const everything = "opsim"

// past is the reference run as plans speak of it: its calls and events by selector, and when they were.
type past struct {
	operators []string
	zero      int64   // time of the operator's first call, from which a plan counts
	writes    []*call // the operator's, in the order of their arrival
	calls     []*call // all changes of objects, the operator's and others'
	events    []*event
	things    map[string]*thing // by key
	span      time.Duration
	leases    time.Duration   // how long the operator's lease lasts; 0: it has none
	clients   map[string]bool // resources that the operator watches
	pruned    map[string]int
}

// call is one API call that changed something.
type call struct {
	*traces.Request
	key  string // of its object
	nth  int    // among those of its selector
	sel  fault.Selector
	kind string // its shape: what it does, whatever the object is called
	body string // what it says, but for versions and times
}

// selector selects exactly this call.
func (c *call) selector() fault.Selector {
	s := c.sel
	s.N = c.nth
	return s
}

func (c *call) String() string { return c.selector().String() }

// event is a change of an object as the operator's watches told of it.
type event struct {
	*traces.WatchEvent
	key    string
	nth    int    // among those of its type and name
	byOp   bool   // the operator's own write
	before string // the object's text before it
	at     time.Duration
}

// resource is the event's resource as plans name it.
func (e *event) resource() string { return resourceOf(&e.Identity) }

// selector selects exactly this event of its resource.
func (e *event) selector() fault.Selector {
	return fault.Selector{Verb: e.Type, Name: e.Name, Namespace: e.Namespace, N: e.nth}
}

// thing is an object over the whole run, whatever its incarnation.
type thing struct {
	id     traces.Identity
	key    string
	states []*state
	texts  map[string]bool // names that its texts hold
}

// state is a version of a thing, or its absence.
type state struct {
	at   int64  // virtual nanoseconds
	text string // "" for gone
	spec string // what of it is not status, versions and times
	uid  string
}

func resourceOf(id *traces.Identity) string {
	if id.Group == "" {
		return id.Resource
	}
	return id.Resource + "." + id.Group
}

func keyOf(id *traces.Identity) string { return resourceOf(id) + " " + id.Namespace + "/" + id.Name }

// idle are resources that no plan is about: heartbeats, and what is said, not done.
func idle(id *traces.Identity) bool {
	return id.Resource == "events" && (id.Group == "" || id.Group == "events.k8s.io") ||
		id.Resource == "leases" && id.Group == "coordination.k8s.io"
}

func isWrite(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete":
		return true
	}
	return false
}

// read makes a past of the reference run's rows.
func read(rows []traces.Record, operators []string) *past {
	p := &past{operators: operators, things: map[string]*thing{}, clients: map[string]bool{}, pruned: map[string]int{}}
	p.readCalls(rows)
	byVersion := map[string]bool{} // uid@version that the operator wrote
	for _, c := range p.writes {
		if c.UID != "" && c.Verb != "delete" {
			byVersion[fmt.Sprint(c.UID, "@", c.ResourceVersion)] = true
		}
	}
	p.readStates(rows)
	p.readEvents(rows, byVersion)
	return p
}

func (p *past) elapsed(ts int64) time.Duration { return time.Duration(ts - p.zero) }

func (p *past) readCalls(rows []traces.Record) {
	var all []*traces.Request
	for _, row := range rows {
		r, ok := row.(*traces.Request)
		if !ok || r.Process == everything {
			continue
		}
		if slices.Contains(p.operators, r.Process) && (p.zero == 0 || r.Start < p.zero) {
			p.zero = r.Start
		}
		if r.Resource == "leases" && isWrite(r.Verb) && slices.Contains(p.operators, r.Process) {
			p.leases = max(p.leases, leaseLasts(r.RequestBody))
		}
		if isWrite(r.Verb) && !strings.Contains(r.Query, "dryRun=") {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b *traces.Request) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.StartSeq, b.StartSeq), cmp.Compare(a.Seq, b.Seq))
	})
	count := map[string]int{}
	for _, r := range all {
		c := newCall(r)
		count[c.sel.String()]++
		c.nth = count[c.sel.String()]
		if idle(&r.Identity) {
			continue
		}
		if r.Code >= 200 && r.Code <= 299 {
			p.calls = append(p.calls, c)
		}
		if slices.Contains(p.operators, r.Process) {
			p.writes = append(p.writes, c)
		}
	}
}

// leaseLasts is how long the holder of a lease keeps it without renewing it; 15 s, as in client-go, if a write of it
// does not say so.
func leaseLasts(body string) time.Duration {
	var o struct {
		Spec struct {
			LeaseDurationSeconds int `json:"leaseDurationSeconds"`
		} `json:"spec"`
	}
	if json.Unmarshal([]byte(body), &o) != nil || o.Spec.LeaseDurationSeconds <= 0 {
		return 15 * time.Second
	}
	return time.Duration(o.Spec.LeaseDurationSeconds) * time.Second
}

func newCall(r *traces.Request) *call {
	c := &call{Request: r, key: keyOf(&r.Identity)}
	c.sel = fault.Selector{Verb: strings.ToUpper(r.Verb), Resource: resourceOf(&r.Identity), Name: r.Name, Subresource: r.Subresource, Namespace: r.Namespace}
	var body map[string]any
	if r.RequestBody != "" {
		_ = json.Unmarshal([]byte(r.RequestBody), &body) // a list of patches has no name
	}
	meta, _ := body["metadata"].(map[string]any)
	if base, _ := meta["generateName"].(string); r.Verb == "create" && r.Subresource == "" && base != "" && meta["name"] == nil {
		c.sel.Name = "" // at its arrival it has none
	}
	c.kind = r.Verb + " " + resourceOf(&r.Identity) + "/" + r.Subresource
	c.body = bare(body)
	return c
}

// bare is an object's text without what changes with each write.
func bare(o map[string]any) string {
	if o == nil {
		return ""
	}
	if meta, ok := o["metadata"].(map[string]any); ok {
		for _, k := range []string{"resourceVersion", "generation", "managedFields", "creationTimestamp", "uid"} {
			delete(meta, k)
		}
	}
	forget(o)
	text, err := json.Marshal(o)
	if err != nil {
		return ""
	}
	return string(text)
}

// forget removes times.
func forget(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if s, ok := e.(string); ok && len(s) >= 20 && s[4] == '-' && s[10] == 'T' && k != "deletionTimestamp" {
				delete(v, k)
				continue
			}
			forget(e)
		}
	case []any:
		for _, e := range v {
			forget(e)
		}
	}
}

// meaning is what of an object others decide by: all but status, versions and times.
func meaning(text string) string {
	var o map[string]any
	if json.Unmarshal([]byte(text), &o) != nil {
		return text
	}
	delete(o, "status")
	return bare(o)
}

// readStates gathers what became of each object from the rows of the whole cluster.
func (p *past) readStates(rows []traces.Record) {
	for _, row := range rows {
		w, ok := row.(*traces.WatchEvent)
		if !ok || w.Process != everything || w.UID == "" || idle(&w.Identity) {
			continue
		}
		p.span = max(p.span, p.elapsed(w.TS))
		k := keyOf(&w.Identity)
		t := p.things[k]
		if t == nil {
			t = &thing{id: w.Identity, key: k, texts: map[string]bool{}}
			p.things[k] = t
		}
		s := &state{at: w.TS, uid: w.UID}
		if w.Type != string(traces.Deleted) {
			s.text, s.spec = w.Object, meaning(w.Object)
			words(w.Object, t.texts)
		}
		t.states = append(t.states, s)
	}
}

// words notes the names that an object's text holds: whole values of strings.
func words(text string, into map[string]bool) {
	var v any
	if json.Unmarshal([]byte(text), &v) == nil {
		gather(v, into)
	}
}

func gather(v any, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if k != "managedFields" {
				gather(e, into)
			}
		}
	case []any:
		for _, e := range v {
			gather(e, into)
		}
	case string:
		into[v] = true
	}
}

// readEvents gathers the events that the operator's watches were told of, each once.
func (p *past) readEvents(rows []traces.Record, byOperator map[string]bool) {
	begun := map[string]int64{} // seq of the end of a watch's first list, by stream
	for _, row := range rows {
		if w, ok := row.(*traces.WatchEvent); ok && w.Type == string(traces.Bookmark) && strings.Contains(w.Object, "initial-events-end") {
			begun[w.Stream] = w.Seq
		}
	}
	seen, count := map[string]bool{}, map[string]int{}
	texts := map[string]string{}
	for _, row := range rows {
		w, ok := row.(*traces.WatchEvent)
		if !ok || !slices.Contains(p.operators, w.Process) || w.UID == "" || idle(&w.Identity) {
			continue
		}
		p.clients[resourceOf(&w.Identity)] = true
		k := keyOf(&w.Identity)
		if w.Type == string(traces.Sync) || w.Seq < begun[w.Stream] {
			texts[k] = w.Object
			continue
		}
		id := fmt.Sprint(k, w.Type, w.ResourceVersion)
		if seen[id] || w.Type == string(traces.Bookmark) || w.Type == string(traces.Error) {
			continue
		}
		seen[id] = true
		if w.Type == string(traces.Deleted) {
			byOperator[fmt.Sprint(w.UID, "@", w.ResourceVersion)] = p.deletedByOperator(w)
		}
		e := &event{WatchEvent: w, key: k, at: p.elapsed(w.TS), before: texts[k], byOp: byOperator[fmt.Sprint(w.UID, "@", w.ResourceVersion)]}
		n := resourceOf(&w.Identity) + " " + e.selector().String()
		count[n]++
		e.nth = count[n]
		texts[k] = w.Object
		if w.Type == string(traces.Deleted) {
			texts[k] = ""
		}
		p.events = append(p.events, e)
	}
}

// deletedByOperator says whether it was the operator that had the object go.
func (p *past) deletedByOperator(w *traces.WatchEvent) bool {
	last := (*call)(nil)
	for _, c := range p.calls {
		if c.key == keyOf(&w.Identity) && c.Start <= w.TS && (c.Verb == "delete" || finalizing(c)) {
			last = c
		}
	}
	return last != nil && slices.Contains(p.operators, last.Process)
}

// related says whether what is done to one thing may depend on the other: it is the same, one's name holds the
// other's, or one's text names the other.
func (p *past) related(a, b string) bool {
	x, y := p.things[a], p.things[b]
	if a == b {
		return true
	}
	if x == nil || y == nil {
		return false
	}
	if x.id.Namespace != y.id.Namespace && x.id.Namespace != "" && y.id.Namespace != "" {
		return false
	}
	return strings.Contains(x.id.Name, y.id.Name) || strings.Contains(y.id.Name, x.id.Name) || x.texts[y.id.Name] || y.texts[x.id.Name]
}

// stateAt is the index of a thing's state at a time; -1 for before the first.
func (t *thing) stateAt(at int64) int {
	i := -1
	for n, s := range t.states {
		if s.at <= at {
			i = n
		}
	}
	return i
}

// finalizing: an update that ends an object by taking its last finalizer.
func finalizing(c *call) bool { return c.Verb == "update" || c.Verb == "patch" }

// nextOutside is the time of the first change by others after a time; ok is false when there is none.
func (p *past) nextOutside(after int64) (at int64, ok bool) {
	for _, c := range p.calls {
		if !slices.Contains(p.operators, c.Process) && c.Start > after {
			return c.Start, true
		}
	}
	return 0, false
}

package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// LostStatus finds values of a status that were written and then overwritten by a write that was made without
// knowing them, or whose own write was refused and never made again.
//
// A value is lost when a later write gives its field the value from before it was written (or takes away the
// list element that it added), and that write was made from an older base. That is sure when the write names
// its base, or when it began before the value could be known to its process. It is likely when the process knew
// but the writer held an older copy, which shows when the write replaces whole lists and came from another part
// of the process (another verb, patch type or field manager) than the value, or when it sets back a time.
type LostStatus struct {
	// MinRestored is how many losses that were made good it takes for a finding. One such loss is a race that
	// the operator's next pass mended, as level-triggered operators do.
	MinRestored int64
	// MinOpen is for how many nanoseconds a value must have been missing, or a refused write not been made again,
	// at the end. A pass that is still going on may put it right.
	MinOpen int64
	// StaleFor is the longest time in nanoseconds for which a writer is taken to hold an old copy.
	StaleFor int64

	objects memory[statusHistory]
	groups  map[string]*lostGroup
}

// NewLostStatus is a LostStatus with its thresholds set.
func NewLostStatus() *LostStatus {
	return &LostStatus{MinRestored: 2, MinOpen: 2e9, StaleFor: 600e9, groups: map[string]*lostGroup{}}
}

// Name implements Detector.
func (*LostStatus) Name() string { return "lost-status" }

func (d *LostStatus) memories() []placed { return []placed{&d.objects} }

// Bounds of what is remembered of one object.
const (
	maxEdits   = 48
	maxForeign = 8 // edits, while no recorded process has written the status
	maxOpen    = 16
	maxIntents = 4
	maxLeaves  = 16
	maxValue   = 512
)

// statusHistory is what is remembered of one object's status.
type statusHistory struct {
	own     bool             // a recorded process has written it
	n       int              // edits there were
	marks   [maxEdits]uint32 // of the last ones, by which one is found
	edits   []edit           // the last ones, each at the place of its mark: the newest is the n-th
	open    []*loss
	intents []*intent
}

// edit is one field of a status that a write changed.
type edit struct {
	path, before string
	generation   int64
	author       written
	removed      bool // the write took the field away
}

// loss is one value that was overwritten.
type loss struct {
	group      *lostGroup
	object     Object
	path, kind string
	value      string
	ts         int64
	certainty  Certainty
	by, from   Author
}

// intent is what a refused write wanted.
type intent struct {
	process      *Process
	role         role
	seq, ts      int64
	base, stack  int64
	retryAfter   int64 // how long the process waited before this try
	paths        []string
	pattern      string
	kind, reason string
}

// lostGroup collects the losses of one field by one process on one resource.
type lostGroup struct {
	process  *Process // of the write that overwrote; nil for an outsider
	name     string
	resource string
	pattern  string
	writes   int64 // status writes by the process to the resource
	total    int64
	dropped  int64
	certain  Certainty
	first    int64
	last     int64
	stack    int64
	manager  string
	missing  reservoir // seconds until the value was there again
	evidence places
	open     []scored
	all      map[Object]float64
	example  *loss
	refused  *intent
	refusedO Object
}

// Change implements Detector.
func (d *LostStatus) Change(_ *Model, c *Change) {
	s := c.State
	if s.Heartbeat {
		return
	}
	leaves, known := c.Diff()
	if !known {
		return
	}
	h := d.objects.of(s)
	touched := false
	for i := range leaves {
		if l := &leaves[i]; strings.HasPrefix(l.Path, "status.") {
			touched = true
			if h == nil {
				h = d.objects.open(s)
			}
			h.mend(c, l)
		}
	}
	if !touched {
		return
	}
	for _, l := range d.losses(h, c, leaves) {
		d.lose(h, l)
	}
	part := roleOf(c)
	h.clear(part)
	for i := range leaves {
		if l := &leaves[i]; l.Kind == jsontext.Value && strings.HasPrefix(l.Path, "status.") {
			h.remember(edit{path: c.model.shared(l.Path), before: short(l.Before), removed: l.After == "", generation: c.Generation, author: c.written()})
		}
	}
}

// role is a part of a process, as far as the parts can be told apart: by how they write.
type role struct {
	process                                 *Process
	manager, verb, contentType, subresource string
}

func roleOf(c *Change) role {
	if call := c.Author.Call; call != nil {
		return call.role()
	}
	return role{manager: c.Manager()}
}

func (w *written) role() role {
	if w.call != nil {
		return w.call.role()
	}
	return role{manager: w.way.Manager}
}

func (c *Call) role() role {
	return role{c.Process, c.Manager, c.Verb, c.ContentType, c.Subresource}
}

// short is a value to remember: a long one by its beginning, its end and its length.
func short(v string) string {
	if len(v) > maxValue {
		v = fmt.Sprintf("%s…%d…%s", v[:maxValue/2], len(v), v[len(v)-maxValue/4:])
	}
	return strings.Clone(v)
}

func (h *statusHistory) remember(e edit) {
	limit := maxForeign
	if !h.own && e.author.way.Process != nil {
		h.widen()
	}
	if h.own {
		limit = maxEdits
	}
	i := h.n % limit
	h.n++
	h.marks[i] = mark(e.path, e.before)
	if i == len(h.edits) {
		h.edits = append(h.edits, e)
		return
	}
	h.edits[i] = e
}

// widen makes room for more edits, from the first by a recorded process on: the oldest is the first again.
func (h *statusHistory) widen() {
	var edits []edit
	var marks [maxEdits]uint32
	for i := len(h.edits) - 1; i >= 0; i-- {
		k := h.newest(i)
		marks[len(edits)] = h.marks[k]
		edits = append(edits, h.edits[k])
	}
	h.own, h.n, h.marks, h.edits = true, len(edits), marks, edits
}

// newest is the place of the i-th edit from the end.
func (h *statusHistory) newest(i int) int { return (h.n - 1 - i) % len(h.edits) }

// mend closes the losses that this difference makes good or that it makes pointless.
func (h *statusHistory) mend(c *Change, l *jsontext.Leaf) {
	h.open = slices.DeleteFunc(h.open, func(x *loss) bool {
		switch {
		case x.path == l.Path && (l.After == x.value || (l.After != "" && x.value[0] == '{')):
			x.group.missing.add(float64(c.TS-x.ts) / 1e9)
			return true
		case x.path == l.Path, strings.HasPrefix(x.path, l.Path+".") || strings.HasPrefix(x.path, l.Path+"["):
			return true // written anew with another value
		}
		return false
	})
	h.intents = slices.DeleteFunc(h.intents, func(x *intent) bool {
		x.paths = slices.DeleteFunc(x.paths, func(p string) bool {
			return p == l.Path || strings.HasPrefix(p, l.Path) || strings.HasPrefix(l.Path, p)
		})
		return len(x.paths) == 0
	})
}

// clear forgets what a part of a process wanted, for it has written again and decided anew.
func (h *statusHistory) clear(part role) {
	h.intents = slices.DeleteFunc(h.intents, func(x *intent) bool { return x.role == part })
}

// losses is what the version overwrote without knowing.
func (d *LostStatus) losses(h *statusHistory, c *Change, leaves []jsontext.Leaf) []*loss {
	var out []*loss
	for i := range leaves {
		l := &leaves[i]
		if l.Kind != jsontext.Value || !strings.HasPrefix(l.Path, "status.") || l.Before == "" || len(out) == maxOpen {
			continue
		}
		e := h.reverted(l)
		if e == nil {
			continue
		}
		if certainty, ok := d.unknowing(c, e, l, leaves, h); ok {
			out = append(out, &loss{
				object: c.State.Object, path: strings.Clone(l.Path), kind: strings.Clone(l.Pattern), value: short(l.Before),
				ts: c.TS, certainty: certainty, by: c.Author, from: e.author.author(),
			})
		}
	}
	return out
}

// reverted is the newest edit that the difference takes back.
func (h *statusHistory) reverted(l *jsontext.Leaf) *edit {
	after := l.After
	if len(after) > maxValue {
		after = short(after)
	}
	want := mark(l.Path, after)
	for i := range h.edits {
		k := h.newest(i)
		if h.marks[k] != want {
			continue
		}
		if e := &h.edits[k]; e.path == l.Path && e.before == after {
			return e
		}
	}
	return nil
}

// mark is a number by which most paths with a value differ: an edit is looked at only where it is the same.
func mark(path, value string) uint32 {
	h := uint32(2166136261) // FNV-1a
	for _, s := range [...]string{path[max(0, len(path)-8):], value[:min(len(value), 24)]} {
		for i := range len(s) {
			h = (h ^ uint32(s[i])) * 16777619
		}
	}
	return h ^ uint32(len(value))<<8
}

// unknowing is whether the writer of c did not know of e, which it took back.
func (d *LostStatus) unknowing(c *Change, e *edit, l *jsontext.Leaf, leaves []jsontext.Leaf, h *statusHistory) (Certainty, bool) {
	call := c.Author.Call
	back := timesBack(leaves, l.Path)
	if call == nil {
		// Nobody recorded the request. A time that goes back, while the spec stays, is the trace of an old copy.
		return Possible, back && c.Generation == e.generation
	}
	if call.Base > 0 {
		return Sure, call.Base < e.author.rv
	}
	if !call.Wholesale() || call == e.author.call {
		return "", false
	}
	author := e.author.author()
	knew, exact := c.State.knew(call.Process, &author)
	if call.Process != nil && call.Process.Watches && exact && (knew.Seq == 0 || knew.Seq > call.StartSeq) {
		return Sure, true
	}
	if c.Generation != e.generation || call.Start-knew.TS > d.StaleFor {
		return "", false
	}
	foreign := !h.wrote(call.role(), l.Path)
	return Likely, back || (foreign && l.After == "" && sibling(leaves, l.Path))
}

// knew is when the process could first know of a version: told by a watch or a get, or as the answer to its
// own write.
func (s *State) knew(p *Process, a *Author) (knew Delivery, exact bool) {
	knew, exact = s.Told(p, a.RV)
	if a.Process == p && a.Call != nil && (knew.Seq == 0 || a.Call.Seq < knew.Seq) {
		return Delivery{RV: a.RV, Seq: a.Call.Seq, TS: a.Call.TS}, true
	}
	return knew, exact
}

// wrote is whether that part of a process ever wrote the field: then it may have meant to take it back.
func (h *statusHistory) wrote(part role, path string) bool {
	return slices.ContainsFunc(h.edits, func(e edit) bool {
		return !e.removed && e.author.role() == part && strings.HasPrefix(e.path, path) && (len(e.path) == len(path) || e.path[len(path)] == '.')
	})
}

// sibling is whether the write also changed another element of the list that path is an element of: then it
// came to write that one, and the loss came with it.
func sibling(leaves []jsontext.Leaf, path string) bool {
	i := strings.LastIndexByte(path, '[')
	return i >= 0 && slices.ContainsFunc(leaves, func(l jsontext.Leaf) bool {
		return strings.HasPrefix(l.Path, path[:i+1]) && !strings.HasPrefix(l.Path, path)
	})
}

// timesBack is whether a time beside path went back.
func timesBack(leaves []jsontext.Leaf, path string) bool {
	dir := path[:strings.LastIndexByte(path, '.')+1]
	return slices.ContainsFunc(leaves, func(l jsontext.Leaf) bool {
		return l.Kind == jsontext.Time && len(dir) > len("status.") && strings.HasPrefix(l.Path, dir) && len(l.After) == len(l.Before) && l.After < l.Before
	})
}

func (d *LostStatus) group(p *Process, writer string, o Object, pattern string) *lostGroup {
	name := writer
	if p != nil {
		name = p.Name
	}
	resource := resourceName(o.Group, o.Resource)
	key := strings.Join([]string{name, resource, pattern}, "\x00")
	g := d.groups[key]
	if g == nil {
		g = &lostGroup{process: p, name: name, resource: resource, pattern: pattern, certain: Possible, all: map[Object]float64{}}
		d.groups[key] = g
	}
	return g
}

func (d *LostStatus) lose(h *statusHistory, l *loss) {
	g := d.group(l.by.Process, l.by.Name(), l.object, l.kind)
	l.group = g
	g.total++
	if g.first == 0 {
		g.first = l.from.TS
	}
	g.last = l.ts
	if len(g.all) < 4096 {
		g.all[l.object]++
	}
	if l.by.Call != nil {
		g.stack, g.manager = cmp.Or(l.by.Call.Stack, g.stack), l.by.Call.Manager
	}
	if rankOf(l.certainty) > rankOf(g.certain) || g.example == nil {
		g.certain, g.example = l.certainty, l
	}
	g.evidence.add(l.from.seq(), l.from.TS, "written as version %d", l.from.RV, 0)
	g.evidence.add(l.by.seq(), l.ts, "overwritten by version %d from an older copy", l.by.RV, 0)
	if len(h.open) < maxOpen {
		h.open = append(h.open, l)
	}
}

// seq is the request's row where there is one, else the row that first showed the version.
func (a *Author) seq() int64 {
	if a.Call != nil {
		return a.Call.Seq
	}
	return a.Seq
}

func rankOf(c Certainty) int { return slices.Index([]Certainty{Possible, Likely, Sure}, c) }

// Call implements Detector: it counts status writes and remembers what refused ones wanted.
func (d *LostStatus) Call(m *Model, c *Call) {
	s := c.State
	if s == nil || s.Heartbeat || c.Process == nil || (c.Verb != "update" && c.Verb != "patch") || c.Subresource != "status" {
		return
	}
	h := d.objects.of(s)
	if c.Code != 409 || c.Verb != "update" {
		if h != nil && c.OK() {
			h.clear(c.role())
		}
		return
	}
	now := s.Body
	for _, v := range s.pending {
		if v.body != "" {
			now = v.body
		}
	}
	have, _ := jsontext.Get(now, "status")
	want, ok := jsontext.Get(c.Body, "status")
	if now == "" || !ok {
		return
	}
	if h == nil {
		h = d.objects.open(s)
	}
	x := &intent{process: c.Process, role: c.role(), seq: c.Seq, ts: c.TS, base: c.Base, stack: c.Stack, kind: c.kind(), reason: c.Reason}
	for _, y := range h.intents {
		if y.role == x.role {
			x.retryAfter = max(x.retryAfter, c.TS-y.ts)
		}
	}
	h.clear(x.role)
	for _, l := range m.differ.Values(have, want, "status") {
		e := h.reverted(&l)
		if l.Kind == jsontext.Value && l.After != "" && len(x.paths) < maxLeaves && (e == nil || e.author.rv <= c.Base) {
			x.paths = append(x.paths, strings.Clone(l.Path))
			x.pattern = cmp.Or(x.pattern, strings.Clone(l.Pattern))
		}
	}
	if len(x.paths) > 0 && len(h.intents) < maxIntents {
		h.intents = append(h.intents, x)
	}
}

// Gone implements Detector.
func (d *LostStatus) Gone(m *Model, s *State) {
	if h := d.objects.take(s); h != nil {
		d.close(m, s, h, s.GoneAt)
	}
}

// close decides what becomes of an object's open losses and intents.
func (d *LostStatus) close(m *Model, s *State, h *statusHistory, gone int64) {
	for _, l := range h.open {
		end := m.End(l.by.Process)
		if gone != 0 {
			end = min(end, gone)
		}
		if end-l.ts >= d.MinOpen {
			l.group.open = append(l.group.open, scored{s.Object, float64(end - l.ts)})
		}
	}
	if gone != 0 || s.Deleting != 0 {
		return // nobody misses a status of what goes away
	}
	for _, x := range h.intents {
		if m.End(x.process)-x.ts < max(d.MinOpen, 4*x.retryAfter) {
			continue
		}
		g := d.group(x.process, "", s.Object, x.pattern)
		g.dropped++
		g.certain = Sure
		g.first, g.last = min(cmp.Or(g.first, x.ts), x.ts), max(g.last, x.ts)
		g.stack = cmp.Or(x.stack, g.stack)
		g.all[s.Object]++
		g.open = append(g.open, scored{s.Object, float64(m.End(x.process) - x.ts)})
		g.refused, g.refusedO = x, s.Object
		g.evidence.add(x.seq, x.ts, "refused (409) on base %d and not written again", x.base, 0)
	}
}

// Findings implements Detector: one for each process, resource and field.
func (d *LostStatus) Findings(m *Model) ([]Finding, []Note) {
	for _, s := range d.objects.sorted(m) {
		d.close(m, s, d.objects.of(s), 0)
	}
	var findings []Finding
	var notes []Note
	for _, key := range sortedKeys(d.groups) {
		g := d.groups[key]
		if g.process != nil {
			g.writes = g.process.Writes
		}
		if len(g.open) == 0 && (g.total < d.MinRestored || g.certain == Possible) {
			notes = append(notes, g.note())
			continue
		}
		findings = append(findings, g.finding(m, d))
	}
	return findings, notes
}

func (g *lostGroup) objects() ([]Object, int64) {
	if len(g.open) > 0 {
		byObject := map[Object]float64{}
		for _, s := range g.open {
			byObject[s.object] = max(byObject[s.object], s.score)
		}
		return worstOf(byObject)
	}
	return worstOf(g.all)
}

func worstOf(m map[Object]float64) ([]Object, int64) {
	var list []scored
	for o, n := range m {
		list = append(list, scored{o, n})
	}
	return worst(list)
}

func (g *lostGroup) note() Note {
	n := Note{Process: g.name, Count: g.total, Field: g.pattern}
	n.Objects, n.Total = g.objects()
	n.What = fmt.Sprintf("%s overwrote %s of %s %s from an older copy; it was written again", g.name, g.pattern, g.resource, times(g.total))
	return n
}

// told is when it could be told: by so many losses, or by one that had stayed for so long.
func (g *lostGroup) told(d *LostStatus) int64 {
	stayed := g.first + d.MinOpen
	if g.total >= d.MinRestored { // each has two places
		return min(stayed, g.evidence.nth(2*d.MinRestored))
	}
	return stayed
}

func (g *lostGroup) finding(m *Model, d *LostStatus) Finding {
	f := Finding{
		Severity: Warning, Certainty: g.certain, Process: g.name, Manager: g.manager, Stack: g.stack, Field: g.pattern,
		Evidence: g.evidence.evidence(), First: at(g.first), Last: at(g.last), told: g.told(d),
		Effect: countOf(len(g.open), "values lost for good", float64(g.total+g.dropped)/float64(d.MinRestored)),
	}
	f.Objects, f.Total = g.objects()
	lost := g.total + g.dropped
	f.Statistics = []Statistic{proportion("lost for good", int64(len(g.open)), lost)}
	if g.writes > 0 {
		f.Statistics = append(f.Statistics, proportion("writes that lost a value", min(lost, g.writes), g.writes))
	}
	if g.missing.n > 0 {
		f.Statistics = append(f.Statistics, median("missing for", "s", g.missing.sample, g.missing.n))
	}
	if len(g.open) > 0 {
		f.Severity = Error
		if lost-int64(len(g.open)) < d.MinRestored {
			f.absent = noEvents(g.first, m.LastTS)
		}
	} else {
		f.Effect = countOf(lost, "values lost for a time", f.Effect.Weight)
	}
	if g.example != nil {
		f.What, f.Cause = g.overwritten()
	} else {
		f.What, f.Cause = g.given()
	}
	return f
}

func (g *lostGroup) overwritten() (what, cause string) {
	l := g.example
	end := "was written again each time"
	switch n := int64(len(g.open)); {
	case n == g.total+g.dropped && n == 1:
		end = "was never written again"
	case n > 0:
		end = fmt.Sprintf("was never written again in %d of %s", n, plural(g.total+g.dropped, "case", "cases"))
	}
	what = fmt.Sprintf("%s of %s, written by %s, was overwritten %s later by %s, and %s", l.path, l.object, l.from.doing(), seconds(l.by.TS-l.from.TS), l.by.doing(), end)
	call := l.by.Call
	if call == nil {
		return what, fmt.Sprintf("version %d carries what version %d had replaced, times included, so it was made from an older copy", l.by.RV, l.from.RV)
	}
	how := fmt.Sprintf("the %s was made from a copy older than resourceVersion %d", call.kind(), l.from.RV)
	if list, _, ok := strings.Cut(l.path, "["); ok && call.Verb == "patch" {
		how += fmt.Sprintf(", and it replaces the whole list %s", list)
	}
	if l.certainty == Sure && call.Base == 0 {
		how += "; it began before that version could be known"
	}
	return what, how
}

// doing is the writer with how it wrote, for one process may have several parts.
func (a *Author) doing() string {
	if a.Call == nil {
		return a.Name()
	}
	return fmt.Sprintf("%s (%s)", a.Name(), a.Call.kind())
}

func (g *lostGroup) given() (what, cause string) {
	x := g.refused
	return fmt.Sprintf("what %s wanted to write to %s of %s was refused (409 Conflict) and never written again", g.name, join(x.paths[:min(3, len(x.paths))], "and"), g.refusedO),
		fmt.Sprintf("the %s on base %d met a newer version, and the operator took the conflict for the end of the matter instead of reading again and retrying", x.kind, x.base)
}

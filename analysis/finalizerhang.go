package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/analysis/stats"
	"github.com/opreplay/opreplay/traces"
)

// FinalizerHang finds objects that are being deleted and don't go: deletionTimestamp is set, a finalizer is still
// there at the end, and nothing has moved for long. It says who should have moved: a process that was told and
// did nothing, one whose write is refused over and over, one that is busy with other fields, or nobody.
type FinalizerHang struct {
	// HangAfter is for how many nanoseconds nothing must have moved at the end of a recorded trace. Clean-up that
	// waits for the world outside shows nothing for a while; ten seconds with not one call about the object
	// is more than operators poll apart.
	HangAfter int64
	// HangAfterRun is the same for a simulated run, where there is no world outside that could be waited for.
	HangAfterRun int64
	// TimesMedian is how many times as long as the median of the deletions that did end (at least MinEnded of the
	// same resource) a deletion must take: what takes minutes each time does not hang after ten seconds.
	TimesMedian float64
	// MinEnded is from how many ended deletions on their median counts.
	MinEnded int
	// MinRefused is how many refused writes make an error loop rather than a mishap.
	MinRefused int64

	dying     map[*State]*dying
	ended     map[string]*lives
	adders    map[string]*Process // who set a finalizer, by its name
	finishers map[string]*Process // who took it away
	gone      queue[goneObject]
}

// NewFinalizerHang is a FinalizerHang with its thresholds set.
func NewFinalizerHang() *FinalizerHang {
	return &FinalizerHang{
		HangAfter: 10e9, HangAfterRun: 3e9, TimesMedian: 5, MinEnded: 3, MinRefused: 3,
		dying: map[*State]*dying{}, ended: map[string]*lives{}, adders: map[string]*Process{}, finishers: map[string]*Process{},
	}
}

// Name implements Detector.
func (*FinalizerHang) Name() string { return "finalizer-hang" }

// Bounds of what is remembered.
const (
	maxFinalizers = 4096
	maxLives      = 4096
	maxGone       = 512
	maxRefusals   = 8
	maxLogged     = 256 // dying objects whose names are looked for in log lines
)

// dying is an object that is being deleted.
type dying struct {
	since, moved int64 // when it was marked; when its finalizers last changed
	seq, rv      int64 // of the version that marked it
	finalizers   []string
	refusals     []refusal
	written      map[*Process]int64 // successful writes since it was marked
	logged       int64
	lastLog      string
	evidence     places
	owner        *Process
}

type refusal struct {
	process *Process
	code    int32
	reason  string
	what    string
	n       int64
	stack   int64
}

// lives are the deletions of one resource that ended, in seconds: all, or a uniform sample of many.
type lives struct {
	r reservoir
}

type goneObject struct {
	object Object
	ts     int64
}

// Change implements Detector.
func (d *FinalizerHang) Change(_ *Model, c *Change) {
	s := c.State
	if s.Heartbeat {
		return
	}
	d.finalizers(c)
	x := d.dying[s]
	if x == nil {
		if s.Deleting == 0 || c.Deleted || c.After == "" {
			return
		}
		list := finalizersOf(c.After)
		if len(list) == 0 {
			return
		}
		x = &dying{since: s.Deleting, moved: s.Deleting, seq: c.Seq, rv: c.RV, finalizers: list, written: map[*Process]int64{}}
		x.evidence.add(c.Seq, c.TS, "marked for deletion as version %d", c.RV, 0)
		d.dying[s] = x
		return
	}
	if c.Deleted || c.After == "" {
		return
	}
	if list := finalizersOf(c.After); !slices.Equal(list, x.finalizers) {
		x.finalizers, x.moved = list, c.TS
		x.evidence.add(c.Seq, c.TS, "finalizers changed by version %d", c.RV, 0)
	}
	if p := c.Author.Process; p != nil {
		x.written[p]++
	}
}

// finalizers notes who sets and who removes which finalizer.
func (d *FinalizerHang) finalizers(c *Change) {
	p := c.Author.Process
	if p == nil || len(d.adders) >= maxFinalizers || len(d.finishers) >= maxFinalizers {
		return
	}
	before, after := "", ""
	if c.Created {
		after, _ = c.Get("metadata", "finalizers")
	}
	leaves, _ := c.Diff()
	for i := range leaves {
		if strings.HasPrefix(leaves[i].Path, "metadata.finalizers") {
			before, _ = jsontext.Get(c.Before, "metadata", "finalizers")
			after, _ = c.Get("metadata", "finalizers")
		}
	}
	if before == after {
		return
	}
	was, is := texts(before), texts(after)
	for _, f := range is {
		if !slices.Contains(was, f) {
			d.adders[f] = p
		}
	}
	for _, f := range was {
		if !slices.Contains(is, f) {
			d.finishers[f] = p
		}
	}
}

func finalizersOf(body string) []string {
	list, _ := jsontext.Get(body, "metadata", "finalizers")
	return texts(list)
}

func texts(array string) []string {
	var out []string
	jsontext.Elements(array, func(v string) bool {
		out = append(out, strings.Clone(jsontext.Text(v)))
		return len(out) < 64
	})
	return out
}

// Call implements Detector: refused writes to what is dying.
func (d *FinalizerHang) Call(_ *Model, c *Call) {
	x := d.dying[c.State]
	if x == nil || c.Process == nil || c.OK() || c.Code == 0 || !c.Write() {
		return
	}
	x.evidence.add(c.Seq, c.TS, "write refused with %d", int64(c.Code), 0)
	for i := range x.refusals {
		if r := &x.refusals[i]; r.process == c.Process && r.code == c.Code && r.reason == c.Reason {
			r.n++
			return
		}
	}
	if len(x.refusals) < maxRefusals {
		x.refusals = append(x.refusals, refusal{c.Process, c.Code, c.Reason, c.kind(), 1, c.Stack})
	}
}

// Log implements Detector: errors that name what is dying.
func (d *FinalizerHang) Log(_ *Model, l *traces.Log) {
	if (l.Level != "error" && l.Level != "fatal") || len(d.dying) == 0 || len(d.dying) > maxLogged {
		return
	}
	for s, x := range d.dying {
		if strings.Contains(l.Fields, `"`+s.Name+`"`) || strings.Contains(l.Message, s.Name) {
			x.logged++
			x.lastLog = strings.Clone(l.Message[:min(len(l.Message), 200)])
			x.evidence.add(l.Seq, l.TS, "error in the log", 0, 0)
		}
	}
}

// Gone implements Detector.
func (d *FinalizerHang) Gone(_ *Model, s *State) {
	if !s.Heartbeat {
		d.gone.push(goneObject{s.Object, s.GoneAt})
		if d.gone.len() > maxGone {
			d.gone.pop()
		}
	}
	if x := d.dying[s]; x != nil {
		delete(d.dying, s)
		resource := resourceName(s.Group, s.Resource)
		if d.ended[resource] == nil {
			d.ended[resource] = &lives{reservoir{size: maxLives}}
		}
		d.ended[resource].r.add(float64(s.GoneAt-x.since) / 1e9)
	}
}

// hung is a dying object with what is known at the end.
type hung struct {
	*dying
	state *State
	class string
	age   int64 // nanoseconds without a move
	told  Delivery
	blind bool // no process was recorded at all
}

// Findings implements Detector: one for each resource, finalizer, process and kind of hang.
func (d *FinalizerHang) Findings(m *Model) ([]Finding, []Note) {
	open := map[string][]stats.Lifetime{}
	groups := map[string][]hung{}
	for s, x := range d.dying {
		resource := resourceName(s.Group, s.Resource)
		open[resource] = append(open[resource], stats.Lifetime{Seconds: float64(m.LastTS-x.since) / 1e9})
	}
	for s, x := range d.dying {
		if len(x.finalizers) == 0 {
			continue
		}
		h := d.judge(m, s, x)
		if h.age < d.limit(m, resourceName(s.Group, s.Resource)) {
			continue
		}
		name := ""
		if h.owner != nil {
			name = h.owner.Name
		}
		key := strings.Join([]string{resourceName(s.Group, s.Resource), h.finalizers[0], name, h.class}, "\x00")
		groups[key] = append(groups[key], h)
	}
	var findings []Finding
	var notes []Note
	for _, key := range sortedKeys(groups) {
		list := groups[key]
		slices.SortFunc(list, func(a, b hung) int {
			return cmp.Or(cmp.Compare(b.age, a.age), a.state.Object.compare(b.state.Object))
		})
		resource := resourceName(list[0].state.Group, list[0].state.Resource)
		if list[0].class == absent && builtIn(list[0].finalizers) {
			notes = append(notes, hangNote(list, resource))
			continue
		}
		findings = append(findings, d.finding(m, list, resource, open[resource]))
	}
	return findings, notes
}

// The kinds of hang.
const (
	silent  = "silent"
	refused = "refused"
	failing = "failing"
	busy    = "busy"
	absent  = "absent"
)

// judge finds who should have moved and what it did instead.
func (d *FinalizerHang) judge(m *Model, s *State, x *dying) hung {
	h := hung{dying: x, state: s, class: absent, blind: len(m.nth) == 0}
	x.owner = cmp.Or(d.finishers[x.finalizers[0]], d.adders[x.finalizers[0]])
	end := m.LastTS
	if x.owner != nil && m.End(x.owner) > x.since {
		end = m.End(x.owner)
	}
	h.age = end - x.moved
	var worst refusal
	for _, r := range x.refusals {
		if r.n > worst.n {
			worst = r
		}
	}
	if x.owner == nil {
		x.owner = d.guess(m, s, x, worst)
	}
	if x.owner == nil {
		return h
	}
	h.told, _ = s.Told(x.owner, x.rv)
	switch {
	case worst.n >= d.MinRefused:
		h.class = refused
	case x.logged >= d.MinRefused:
		h.class = failing
	case x.written[x.owner] > 0:
		h.class = busy
	case h.told.Seq != 0:
		h.class = silent
	}
	return h
}

// guess is the process that tried to write the object, else the only one that was told of its deletion.
func (d *FinalizerHang) guess(m *Model, s *State, x *dying, worst refusal) *Process {
	if worst.process != nil {
		return worst.process
	}
	if builtIn(x.finalizers) {
		return nil // for the cluster's own controllers to remove
	}
	var only *Process
	for _, p := range m.nth {
		if told, _ := s.Told(p, x.rv); told.Seq == 0 {
			continue
		}
		if only != nil {
			return nil
		}
		only = p
	}
	return only
}

// builtIn is whether all finalizers are for the cluster's own controllers to remove (metav1.FinalizerOrphanDependents
// and the like), which a trace need not show.
func builtIn(finalizers []string) bool {
	for _, f := range finalizers {
		if f != "orphan" && f != "foregroundDeletion" && f != "kubernetes" && !strings.HasPrefix(f, "kubernetes.io/") && !strings.HasPrefix(f, "batch.kubernetes.io/") {
			return false
		}
	}
	return true
}

// limit is how long a deletion of the resource may stand still.
func (d *FinalizerHang) limit(m *Model, resource string) int64 {
	limit := d.HangAfter
	if m.Simulated {
		limit = d.HangAfterRun
	}
	if e := d.ended[resource]; e != nil && len(e.r.sample) >= d.MinEnded {
		mid, _, _ := stats.Median(slices.Clone(e.r.sample))
		limit = max(limit, int64(mid*d.TimesMedian*1e9))
	}
	return limit
}

func hangNote(list []hung, resource string) Note {
	var s []scored
	for _, h := range list {
		s = append(s, scored{h.state.Object, float64(h.age)})
	}
	n := Note{Count: int64(len(list))}
	n.Objects, n.Total = worst(s)
	n.What = fmt.Sprintf("%s of %s wait for finalizers of the cluster's own controllers (%s), which this trace does not show",
		plural(n.Total, "deletion", "deletions"), resource, join(list[0].finalizers, "and"))
	return n
}

func (d *FinalizerHang) finding(m *Model, list []hung, resource string, open []stats.Lifetime) Finding {
	h := list[0]
	if h.told.Seq != 0 {
		h.evidence.say(h.told.Seq, h.told.TS, "the deletion reached "+h.owner.Name)
	}
	f := Finding{
		Severity: Error, Certainty: Sure, Field: "metadata.finalizers", Evidence: h.evidence.evidence(),
		First: at(h.since), Last: at(h.moved + h.age), told: h.moved + d.limit(m, resource), absent: noEvents(h.since, h.moved+h.age),
		Effect: Effect{Value: float64(h.age) / 1e9, Unit: "s without a move", Weight: float64(h.age) / float64(max(1, d.limit(m, resource)))},
	}
	f.absent.kept = true // no finalizer can be added during deletion: those that are there have been there all along
	if h.owner != nil {
		f.Process = h.owner.Name
	}
	if h.class == absent || h.class == busy {
		f.Certainty = Likely
	}
	var s []scored
	for _, x := range list {
		s = append(s, scored{x.state.Object, float64(x.age)})
		f.First = at(min(f.First.UnixNano(), x.since))
	}
	f.Objects, f.Total = worst(s)
	f.Survival, f.Statistics = d.survival(m, resource, open, h)
	f.What = fmt.Sprintf("%s hangs in deletion%s: finalizer %s is still there %s after deletionTimestamp was set, and nothing has moved",
		h.state.Object, others(f.Total), strings.Join(h.finalizers, ", "), seconds(h.moved+h.age-h.since))
	f.Cause = d.cause(h)
	for _, r := range h.refusals {
		f.Stack = cmp.Or(f.Stack, r.stack)
	}
	return f
}

// survival is the curve of all deletions of the resource and the statistics that go with it.
func (d *FinalizerHang) survival(m *Model, resource string, open []stats.Lifetime, h hung) ([]SurvivalPoint, []Statistic) {
	all := slices.Clone(open)
	ended := int64(0)
	if e := d.ended[resource]; e != nil {
		ended = e.r.n
		if share := float64(len(e.r.sample)) / float64(ended); share < 1 {
			all = part(all, share) // what is open is thinned as what has ended was, lest it weigh too much
		}
		for _, t := range e.r.sample {
			all = append(all, stats.Lifetime{Seconds: t, Ended: true})
		}
	}
	curve := stats.KaplanMeier(all)
	n := ended + int64(len(open))
	still := proportion("deletions still open", int64(len(open)), n)
	age := float64(h.age) / 1e9
	measured := []Statistic{
		{Name: "stands still for", Value: age, Unit: "s", Low: age, High: age, N: 1, Method: "time from the last move to the end, a lower bound (right-censored)", Unbounded: true},
		still,
	}
	if mid, low, high := stats.MedianSurvival(curve); !math.IsInf(mid, 1) {
		s := Statistic{Name: "deletion takes", Value: mid, Unit: "s", Low: min(low, mid), High: high, Confidence: confidence, N: n, Method: "Kaplan–Meier median (JASA 53, 1958), interval of Brookmeyer and Crowley (Biometrics 38, 1982)"}
		if math.IsInf(high, 1) {
			s.High, s.Unbounded = all[len(all)-1].Seconds, true
		}
		measured = append(measured, s)
	}
	if len(curve) > maxCurve {
		curve = thin(curve)
	}
	return curve, measured
}

// part is about that share of the lifetimes, evenly over their lengths, at least one.
func part(list []stats.Lifetime, share float64) []stats.Lifetime {
	stats.KaplanMeier(list) // sorts
	n := max(1, int(math.Round(float64(len(list))*share)))
	var out []stats.Lifetime
	for i := range min(n, len(list)) {
		out = append(out, list[i*len(list)/n])
	}
	return out
}

// maxCurve bounds the points of a curve in a finding.
const maxCurve = 64

// thin keeps every so-manieth point of a curve, and the last.
func thin(curve []SurvivalPoint) []SurvivalPoint {
	var out []SurvivalPoint
	for i := range maxCurve {
		out = append(out, curve[i*(len(curve)-1)/(maxCurve-1)])
	}
	return out
}

// cause says who should have moved, and what it may have been waiting for.
func (d *FinalizerHang) cause(h hung) string {
	why := h.why()
	o, before := d.missing(h)
	switch {
	case o == nil:
		return why
	case before >= 0:
		return fmt.Sprintf("%s; %s, which it names, had gone %s before", why, o, seconds(before))
	}
	return fmt.Sprintf("%s; %s, which it names, went %s after", why, o, seconds(-before))
}

func (h hung) why() string {
	switch h.class {
	case silent:
		log := ", nor logged an error"
		if h.logged > 0 {
			log = ""
		}
		return fmt.Sprintf("%s was told of the deletion (seq %d) and has not written to the object since%s: its clean-up returned early", h.owner.Name, h.told.Seq, log)
	case refused:
		r := slices.MaxFunc(h.refusals, func(a, b refusal) int { return cmp.Compare(a.n, b.n) })
		return fmt.Sprintf("the %s by %s was refused %s with %d %s", r.what, r.process.Name, times(r.n), r.code, r.reason)
	case failing:
		return fmt.Sprintf("%s fails over and over (%d errors in its log that name the object, the last: %s)", h.owner.Name, h.logged, h.lastLog)
	case busy:
		return fmt.Sprintf("%s has written to the object %s since, but never removed the finalizer", h.owner.Name, times(h.written[h.owner]))
	}
	if h.blind {
		return "nobody has taken it away; no process was recorded, so the trace cannot tell who should have"
	}
	return "nobody who was recorded was told of the deletion: what should remove the finalizer is not running, or does not watch the object"
}

// missing is an object that the hanging one names, as owner or by name, and that is gone: the most recent one.
func (d *FinalizerHang) missing(h hung) (*Object, int64) {
	body := h.state.Body
	if body == "" {
		return nil, 0
	}
	spec, _ := jsontext.Get(body, "spec")
	for i := len(d.gone.items) - 1; i >= d.gone.head; i-- {
		g := d.gone.items[i]
		o := g.object
		if o.Group == h.state.Group && o.Resource == h.state.Resource {
			continue
		}
		owned := o.UID != "" && o.UID == h.state.Owner
		named := (o.Namespace == "" || o.Namespace == h.state.Namespace) && len(o.Name) > 1 && strings.Contains(spec, `"`+o.Name+`"`)
		if owned || named {
			return &o, h.since - g.ts
		}
	}
	return nil, 0
}

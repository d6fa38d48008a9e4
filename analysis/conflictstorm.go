package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/analysis/stats"
)

// ConflictStorm finds a process whose writes are refused with 409 Conflict more often than contention explains,
// or that never gets out of it. A write conflicts when it names a resourceVersion (its base) that is no longer
// the newest. One conflict that is followed by a good write is how optimistic locking is meant to work.
type ConflictStorm struct {
	// MinConflicts is how many refused writes to one resource it takes. A handful happen in any operator that
	// starts up beside another.
	MinConflicts int64
	// MinShare is what the lower bound of the share of refused writes must reach, of those that name a base:
	// above one in ten the retries are a considerable part of the load.
	MinShare float64
	// MinStreak is how many refusals in a row to one object, up to the end, count as never recovering: with
	// a fresh read before each try, five in a row need five other writers that came just in between.
	MinStreak int64

	objects map[*State]map[*Process]*conflicts
	total   map[string]*contention // by process and resource
}

// NewConflictStorm is a ConflictStorm with its thresholds set.
func NewConflictStorm() *ConflictStorm {
	return &ConflictStorm{MinConflicts: 5, MinShare: 0.1, MinStreak: 5, objects: map[*State]map[*Process]*conflicts{}, total: map[string]*contention{}}
}

// Name implements Detector.
func (*ConflictStorm) Name() string { return "conflict-storm" }

// contention is what one process met on one resource.
type contention struct {
	process        *Process
	resource       string
	tries, refused int64
	self           int64 // of the refused: the process itself wrote what was newer than the base
	stale          int64 // of the refused: the process had been told of the newer version before it called
	unknown        int64 // of the refused: no base in the body
	first, last    int64
	stack          int64
	manager        string
	kinds          map[string]int64
	rivals         map[string]int64
	behind         reservoir // versions that the base was behind
	age            reservoir // seconds from being told of the newer version to the call
	attempts       reservoir // refusals before a good write
	evidence       places
	objects        map[*State]*conflicts // those with conflicts; bounded
	dropped        []scored              // of deleted objects; bounded
}

// conflicts is what one process met on one object.
type conflicts struct {
	tries, refused, streak int64
	first, last            int64 // of the streak
}

// Call implements Detector.
func (d *ConflictStorm) Call(_ *Model, c *Call) {
	if c.Process == nil || c.State == nil || c.State.Heartbeat || (c.Verb != "update" && c.Verb != "patch") {
		return
	}
	if strings.HasPrefix(c.ContentType, "application/apply-patch") {
		return // its conflicts are about who owns a field, not about versions
	}
	conflict := c.Code == 409
	if !conflict && (!c.OK() || c.Base == 0) {
		return // refused for another reason, or it can't conflict
	}
	t, o := d.of(c)
	t.tries++
	o.tries++
	if !conflict {
		if o.streak > 0 {
			t.attempts.add(float64(o.streak))
		}
		o.streak = 0
		return
	}
	t.refused++
	o.refused++
	if o.streak++; o.streak == 1 {
		o.first = c.TS
	}
	o.last = c.TS
	if len(t.objects) < 4096 {
		t.objects[c.State] = o
	}
	t.learn(c)
}

func (d *ConflictStorm) of(c *Call) (*contention, *conflicts) {
	key := c.Process.Name + "\x00" + c.State.Group + "\x00" + c.State.Resource
	t := d.total[key]
	if t == nil {
		t = &contention{
			process: c.Process, resource: resourceName(c.State.Group, c.State.Resource), first: c.TS,
			kinds: map[string]int64{}, rivals: map[string]int64{}, objects: map[*State]*conflicts{},
		}
		d.total[key] = t
	}
	if d.objects[c.State] == nil {
		d.objects[c.State] = map[*Process]*conflicts{}
	}
	o := d.objects[c.State][c.Process]
	if o == nil {
		o = &conflicts{}
		d.objects[c.State][c.Process] = o
	}
	return t, o
}

// learn notes by whom and on which base a write was refused.
func (t *contention) learn(c *Call) {
	if t.refused == 1 {
		t.first = c.TS
	}
	t.last, t.stack, t.manager = c.TS, cmp.Or(c.Stack, t.stack), c.Manager
	t.kinds[c.kind()]++
	if c.Base == 0 {
		t.unknown++
		t.evidence.add(c.Seq, c.TS, "409; the newest version known is %d", c.State.newest(), 0)
		return
	}
	t.evidence.add(c.Seq, c.TS, "409 on base %d; the newest version known is %d", c.Base, c.State.newest())
	behind, self := int64(0), false
	c.State.since(c.Base, func(a Author) {
		behind++
		self = self || a.Process == c.Process
		if len(t.rivals) < 64 {
			t.rivals[a.Name()]++
		}
	})
	if self {
		t.self++
	}
	if behind > 0 {
		t.behind.add(float64(behind))
	}
	if told, _ := c.State.Told(c.Process, c.Base+1); told.Seq != 0 && told.Seq <= c.StartSeq {
		t.stale++
		t.age.add(float64(c.Start-told.TS) / 1e9)
	}
}

// since calls f with the writers of the versions after rv, as far as they are remembered.
func (s *State) since(rv int64, f func(Author)) {
	for _, v := range s.pending {
		if v.rv > rv {
			a := Author{RV: v.rv, Manager: v.manager}
			if v.call != nil {
				a.Call, a.Process, a.Manager = v.call, v.call.Process, v.call.Manager
			} else if a.Manager == "" {
				top := jsontext.Split(v.body)
				a.Manager = strings.Clone(top.LastManager(nil)) // its request may yet come
			}
			f(a)
		}
	}
	s.Authors(func(a *Author) bool {
		if a.RV > rv {
			f(*a)
		}
		return a.RV > rv
	})
}

// Gone implements Detector.
func (d *ConflictStorm) Gone(_ *Model, s *State) {
	if d.objects[s] == nil {
		return
	}
	delete(d.objects, s)
	for _, key := range sortedKeys(d.total) {
		t := d.total[key]
		if o := t.objects[s]; o != nil {
			delete(t.objects, s)
			if len(t.dropped) < 4096 {
				t.dropped = append(t.dropped, scored{s.Object, float64(o.refused)})
			}
		}
	}
}

// Findings implements Detector: one for each process and resource.
func (d *ConflictStorm) Findings(*Model) ([]Finding, []Note) {
	var findings []Finding
	var notes []Note
	for _, key := range sortedKeys(d.total) {
		t := d.total[key]
		if t.refused == 0 {
			continue
		}
		stuck := t.stuck(d.MinStreak)
		_, low, _ := stats.Proportion(t.refused, t.tries)
		if len(stuck) > 0 || (t.refused >= d.MinConflicts && low >= d.MinShare) {
			findings = append(findings, d.finding(t, stuck))
			continue
		}
		objects, total := worst(t.worst())
		notes = append(notes, Note{
			Process: t.process.Name, Objects: objects, Total: total, Count: t.refused,
			What: fmt.Sprintf("%d of %d writes by %s to %s that named a base version were refused (409)", t.refused, t.tries, t.process.Name, t.resource),
		})
	}
	return findings, notes
}

func (t *contention) worst() []scored {
	list := slices.Clone(t.dropped)
	for s, o := range t.objects {
		list = append(list, scored{s.Object, float64(o.refused)})
	}
	return list
}

// stuck is the objects whose last writes were all refused.
func (t *contention) stuck(streak int64) []scored {
	var list []scored
	for s, o := range t.objects {
		if o.streak >= streak {
			list = append(list, scored{s.Object, float64(o.streak)})
		}
	}
	return list
}

func (d *ConflictStorm) finding(t *contention, stuck []scored) Finding {
	f := Finding{
		Severity: Warning, Certainty: Sure, Process: t.process.Name, Manager: t.manager, Stack: t.stack,
		Evidence: t.evidence.evidence(), First: at(t.first), Last: at(t.last), told: t.evidence.nth(d.MinConflicts),
		Statistics: []Statistic{
			proportion("refused", t.refused, t.tries),
			proportion("against own writes", t.self, t.refused),
		},
		Effect: countOf(t.refused, "refused writes", float64(t.refused)/float64(d.MinConflicts)),
	}
	if t.unknown < t.refused {
		f.Statistics = append(f.Statistics,
			proportion("newer version known before", t.stale, t.refused-t.unknown),
			median("base behind", "versions", t.behind.sample, t.behind.n))
	}
	if t.attempts.n > 0 {
		f.Statistics = append(f.Statistics, median("refusals before success", "1", t.attempts.sample, t.attempts.n))
	}
	f.Objects, f.Total = worst(t.worst())
	f.What = fmt.Sprintf("%s is refused %d of its %d writes to %s that name a base version (409 Conflict)", t.process.Name, t.refused, t.tries, t.resource)
	if len(stuck) > 0 {
		f.Severity = Error
		f.Objects, f.Total = worst(stuck)
		f.What = fmt.Sprintf("%s never gets its write to %s accepted: the last %.0f tries were all refused (409 Conflict)", t.process.Name, f.Objects[0], stuck[0].score)
	}
	f.Cause = t.cause()
	return f
}

func (t *contention) cause() string {
	what := most(t.kinds)
	known := t.refused - t.unknown
	var b strings.Builder
	switch {
	case known == 0:
		return fmt.Sprintf("its %s meets a newer version of the object", what)
	case t.stale*2 > known:
		age, _, _ := stats.Median(slices.Clone(t.age.sample))
		fmt.Fprintf(&b, "its %s is made from a copy read early: the process had been told of a newer version %s (median) before it sent it", what, seconds(int64(age*1e9)))
	default:
		fmt.Fprintf(&b, "its %s is sent before the event of the newer version has reached it", what)
	}
	switch {
	case t.self*2 > known:
		b.WriteString("; the newer version was its own write, so it conflicts with itself")
	case len(t.rivals) > 0:
		b.WriteString("; the newer version was written by " + most(t.rivals))
	}
	return b.String()
}

// most is the key with the highest count.
func most(m map[string]int64) string {
	best := ""
	for _, k := range sortedKeys(m) {
		if best == "" || m[k] > m[best] {
			best = k
		}
	}
	return best
}

package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/stats"
	"github.com/opreplay/opreplay/traces"
)

// RetryStorm finds retries that nothing slows down or ends:
//
//   - failures of one key at intervals that do not grow, though nobody else changed the object between them: an error
//     that is answered by a fixed short RequeueAfter, a rate limiter with a low cap, or a status write on failure whose
//     event queues the key again at once, past the backoff;
//   - one call refused for the same reason over and over, to the end, backoff or not: what is refused as invalid or
//     forbidden is refused again for as long as it stays the same;
//   - passes that have neither an event before them nor a write in them, at a rate that nothing can need: a computed
//     delay that is zero or negative, Requeue in place of RequeueAfter.
//
// Failures are read from error lines with the key that controller-runtime logs, or from recorded reconciles.
type RetryStorm struct {
	// MinFailures is how many failures of one key are needed for a regression whose interval means something; the
	// default backoff of controller-runtime reaches 5 s with the tenth.
	MinFailures int
	// MaxGrowth is what the upper bound of the intervals' growth must stay under: exponential backoff has a factor
	// of 2, a linear one of ten steps still 1.2.
	MaxGrowth float64
	// MaxInterval is the longest median interval, in nanoseconds, that counts: retries every few seconds are load in
	// proportion to the number of failing objects, while once in half a minute is a poll.
	MaxInterval int64
	// MinRefusals is how many times in a row one call must be refused; with exponential backoff from 5 ms the eighth
	// comes after a second, so they must also have gone on for Sustained nanoseconds.
	MinRefusals int64
	Sustained   int64
	// MinPasses is how many passes of one key in a row, without event and without write, and MinPassRate how many of
	// them a second, are a loop: polls are made every second or more seldom.
	MinPasses   int64
	MinPassRate float64

	keys     map[retryKey]*retries
	names    map[Key]namesakes // by namespace and name
	named    memory[namesakes] // those of an object's name
	refusals map[refusalKey]*rejection
}

// NewRetryStorm is a RetryStorm with its thresholds set.
func NewRetryStorm() *RetryStorm {
	return &RetryStorm{
		MinFailures: 10, MaxGrowth: 1.1, MaxInterval: 5e9, MinRefusals: 8, Sustained: 10e9, MinPasses: 50, MinPassRate: 5,
		keys: map[retryKey]*retries{}, names: map[Key]namesakes{}, refusals: map[refusalKey]*rejection{},
	}
}

// Name implements Detector.
func (*RetryStorm) Name() string { return "retry-storm" }

func (d *RetryStorm) memories() []placed { return []placed{&d.named} }

type retryKey struct{ process, controller, namespace, name string }

// maxRetryKeys bounds the failing keys, and the refused calls, that are told apart.
const maxRetryKeys = 1 << 13

// namesakes are the keys of one namespace and name: few, mostly one.
type namesakes struct {
	first *retries // nil for none
	more  []*retries
}

func (n namesakes) all(yield func(*retries) bool) {
	if n.first == nil || !yield(n.first) {
		return
	}
	for _, r := range n.more {
		if !yield(r) {
			return
		}
	}
}

// retries are the failures and passes of one key.
type retries struct {
	n          int64
	process    string
	controller string // as in about: what each version asks for lies together
	spin       spin
	about      said
	first      int64
	recent     rings[moment] // of the failures
	foreign    rings[moment] // since the first: versions of the object, or of what it owns, by others
	own        rings[moment] // by the process itself
	message    string        // of the last failure
	pass       string        // its reconcileID
	fromLogs   bool
	places     places
}

type moment struct{ seq, ts int64 }

func (d *RetryStorm) of(m *Model, process string, s *said) *retries {
	k := retryKey{process, s.controller, s.namespace, s.name}
	r := d.keys[k]
	if r == nil {
		if len(d.keys) >= maxRetryKeys {
			return nil
		}
		r = &retries{process: m.shared(process), about: said{
			controller: m.shared(s.controller), group: m.shared(s.group), kind: m.shared(s.kind),
			namespace: m.shared(s.namespace), name: strings.Clone(s.name),
		}}
		r.controller = r.about.controller
		d.keys[retryKey{r.process, r.controller, r.about.namespace, r.about.name}] = r
		d.name(m, r)
	}
	return r
}

// name lets a key be found by its object's name.
func (d *RetryStorm) name(m *Model, r *retries) {
	n := Key{Namespace: r.about.namespace, Name: r.about.name}
	list := d.names[n]
	if list.first == nil {
		list.first = r
	} else {
		list.more = append(list.more, r)
	}
	d.rename(m, n, list)
}

// rename is that the keys of that name are others.
func (d *RetryStorm) rename(m *Model, n Key, list namesakes) {
	if d.names[n] = list; list.first == nil {
		delete(d.names, n)
	}
	for x := range m.Named(n.Namespace, n.Name) {
		*d.named.open(x) = list
	}
}

// Log implements LogDetector.
func (d *RetryStorm) Log(m *Model, l *traces.Log) {
	if !strings.Contains(l.Fields, `"name"`) {
		return
	}
	s := readLog(l)
	if s.name == "" || s.controller == "" {
		return
	}
	r := d.of(m, l.Process, &s)
	if r == nil {
		return
	}
	failed := l.Level == "error"
	if s.pass != "" && s.pass != r.spin.pass {
		r.spin.pass = strings.Clone(s.pass)
		r.spin.passed(moment{l.Seq, l.TS})
	}
	if failed && (s.pass == "" || s.pass != r.pass) {
		r.pass, r.fromLogs = r.spin.pass, true
		r.fail(moment{l.Seq, l.TS}, cmp.Or(s.err, l.Message))
	}
}

// Pass implements PassDetector.
func (d *RetryStorm) Pass(m *Model, x *Pass) {
	r := d.known(x)
	if r == nil {
		s := said{controller: x.Row.Controller, namespace: x.Row.Namespace, name: x.Row.Name}
		if r = d.of(m, x.Row.Process, &s); r == nil {
			return
		}
	}
	switch {
	case x.Row.Outcome == "error" && !r.fromLogs:
		r.fail(moment{x.Row.Seq, x.Row.TS}, x.Row.Error)
	case x.Trigger.Seq != 0 || x.Writes > 0:
		r.spin.broken()
	case r.spin.pass == "":
		r.spin.passed(moment{x.Row.Seq, x.Row.TS})
	}
}

// known is the key of the pass where it is the name of the object whose event queued it, as it mostly is, and was met
// before: found without a search.
func (d *RetryStorm) known(x *Pass) *retries {
	s := x.Trigger.State
	if s == nil || s.Gone || s.Name != x.Row.Name || s.Namespace != x.Row.Namespace {
		return nil
	}
	for r := range d.about(s).all {
		if r.process == x.Row.Process && r.controller == x.Row.Controller {
			return r
		}
	}
	return nil
}

func (r *retries) fail(at moment, message string) {
	if r.n++; r.n == 1 {
		r.first = at.ts
	}
	r.recent.add(at)
	if message != r.message {
		r.message = strings.Clone(message)
	}
	r.places.add(at.seq, at.ts, "failed", 0, 0)
}

// Change implements ChangeDetector.
func (d *RetryStorm) Change(m *Model, c *Change) {
	if len(d.keys) == 0 || c.State.Heartbeat {
		return
	}
	d.changed(c, c.State)
	if c.State.Owner != "" {
		if owner := m.ByUID(c.State.Owner); owner != nil {
			d.changed(c, owner)
		}
	}
}

func (d *RetryStorm) changed(c *Change, s *State) {
	for r := range d.about(s).all {
		r.spin.broken()
		switch {
		case r.n == 0: // what lies between failures counts
		case c.Author.Process != nil && c.Author.Process.Name == r.process:
			r.own.add(moment{c.Seq, c.TS})
		default:
			r.foreign.add(moment{c.Seq, c.TS})
		}
	}
}

// about are the keys that are the object's name.
func (d *RetryStorm) about(s *State) namesakes {
	if list := d.named.of(s); list != nil {
		return *list
	}
	list := d.names[Key{Namespace: s.Namespace, Name: s.Name}]
	if !s.Gone {
		*d.named.open(s) = list
	}
	return list
}

// Call implements CallDetector.
func (d *RetryStorm) Call(_ *Model, c *Call) {
	if c.Process != nil && (c.Write() || c.Code >= 400 && c.Code != 404) {
		d.refused(c)
	}
}

// Findings implements Detector.
func (d *RetryStorm) Findings(m *Model) ([]Finding, []Note) {
	var failing, spinning []*retries
	for _, r := range d.keys {
		switch {
		case d.storms(m, r):
			failing = append(failing, r)
		case d.spins(r):
			spinning = append(spinning, r)
		}
	}
	out := d.failing(m, failing)
	out = append(out, d.spinning(m, spinning)...)
	refused, notes := d.refusing(m)
	return append(out, refused...), notes
}

// intervals are the seconds between failures that nobody else's change can have caused, and how many of them saw a
// write of the operator's own.
func (r *retries) intervals() (seconds []float64, woken int) {
	for i := r.recent.len() - 2; i >= 0; i-- {
		a, b := r.recent.newest(i+1), r.recent.newest(i)
		if within(&r.foreign, a, b) {
			continue
		}
		seconds = append(seconds, float64(b.ts-a.ts)/1e9)
		if within(&r.own, a, b) {
			woken++
		}
	}
	return seconds, woken
}

// within is whether one of the moments is after a and up to b.
func within(list *rings[moment], a, b *moment) bool {
	for i := range list.len() {
		if x := list.newest(i); x.ts > a.ts && x.ts <= b.ts {
			return true
		}
	}
	return false
}

// storms is whether the failures of the key come without backoff.
func (d *RetryStorm) storms(m *Model, r *retries) bool {
	intervals, _ := r.intervals()
	if len(intervals) < d.MinFailures-1 {
		return false
	}
	if g := stats.Backoff(intervals); g.High > d.MaxGrowth || math.IsNaN(g.High) {
		return false
	}
	typical, _, _ := stats.Median(slices.Clone(intervals))
	last := r.recent.newest(0).ts
	lasts := float64(m.End(m.process(r.process))-last) <= max(10*typical*1e9, 1e9)
	return typical*1e9 <= float64(d.MaxInterval) && (lasts || last-r.first >= d.Sustained)
}

// failing makes one finding for each process, controller and kind of message.
func (d *RetryStorm) failing(m *Model, all []*retries) []Finding {
	groups := map[string][]*retries{}
	for _, r := range all {
		key := r.process + "\x00" + r.about.controller + "\x00" + steady(r.message)
		groups[key] = append(groups[key], r)
	}
	var out []Finding
	for _, key := range sortedKeys(groups) {
		group := groups[key]
		slices.SortFunc(group, func(a, b *retries) int {
			return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.about.key(), b.about.key()))
		})
		out = append(out, d.storm(m, group))
	}
	return out
}

func (d *RetryStorm) storm(m *Model, group []*retries) Finding {
	r := group[0]
	intervals, woken := r.intervals()
	last := r.recent.newest(0).ts
	sorted := slices.Clone(intervals)
	typical, _, _ := stats.Median(sorted)
	f := Finding{
		Severity: Warning, Certainty: Sure, Process: r.process, First: at(r.first), Last: at(last), Evidence: r.places.evidence(), told: r.places.nth(int64(d.MinFailures)),
		Statistics: []Statistic{
			growth(backoff(intervals, intervals)),
			median("interval", "s", sorted, int64(len(intervals))),
			rate("failures", r.n-1, float64(last-r.first)/1e9),
		},
	}
	f.Evidence.Backoff = r.places.backoff()
	if typical < 1 {
		f.Severity = Error // load without end: a key a second and object
	}
	var n int64
	var perSecond float64
	f.Objects, f.Total, n, perSecond = retried(m, group)
	f.Effect = Effect{Value: perSecond, Unit: "failures/s", Weight: float64(n) / float64(d.MinFailures)}
	f.What = fmt.Sprintf("%s retries %s without backoff: %d failures in %s, every %s: %s",
		r.process, r.about.key(), r.n, seconds(last-r.first), seconds(int64(typical*1e9)), brief(r.message))
	if f.Total > 1 {
		f.What += fmt.Sprintf("; and likewise %s", plural(f.Total-1, "other object", "other objects"))
	}
	switch {
	case woken*2 > len(intervals):
		f.Cause = "on failure it writes the object, and the event of that write queues the key again at once, past the rate limiter"
	case typical < 0.02:
		f.Cause = "the key is queued again at once after an error rather than rate-limited"
	default:
		f.Cause = fmt.Sprintf("the error is answered by a fixed delay (%s), or the rate limiter's cap is that low: return the error, and the queue backs off", seconds(int64(typical*1e9)))
	}
	return f
}

func retried(m *Model, group []*retries) (objects []Object, total, n int64, perSecond float64) {
	var list []scored
	for _, r := range group {
		count, from, to := r.n, r.first, int64(0)
		if r.recent.len() > 0 {
			to = r.recent.newest(0).ts
		}
		if count == 0 {
			count, from, to = r.spin.longest, r.spin.from, r.spin.to
		}
		n += count
		perSecond += float64(count-1) / max(float64(to-from)/1e9, 1e-3)
		if o, ok := r.about.object(m); ok {
			list = append(list, scored{o, float64(count)})
		}
	}
	objects, total = worst(list)
	return objects, total, n, perSecond
}

// Gone implements GoneDetector.
func (d *RetryStorm) Gone(m *Model, s *State) {
	n := Key{Namespace: s.Namespace, Name: s.Name}
	d.named.take(s)
	var kept []*retries
	for r := range d.names[n].all {
		if o, _ := r.about.object(m); o.UID != s.UID || d.storms(m, r) || d.spins(r) {
			kept = append(kept, r)
			continue
		}
		delete(d.keys, retryKey{r.process, r.about.controller, r.about.namespace, r.about.name})
	}
	var list namesakes
	if len(kept) > 0 {
		list = namesakes{kept[0], kept[1:]}
	}
	d.rename(m, n, list)
}

const methodBackoff = "slope of log intervals, Student's interval (Draper and Smith 1998, §1.4)"

// growth is by which factor intervals grow from one to the next, as a statistic: 2 for a backoff that doubles, 1 for
// none.
func growth(b *Backoff) Statistic {
	s := Statistic{Name: "growth of the interval", Value: b.Ratio, Unit: "factor", Low: b.Low, High: b.High, Confidence: confidence, N: b.Fitted, Method: methodBackoff}
	if b.Fitted < 3 {
		s.Confidence = 0
	}
	return s
}

// backoff is how the first delays between the places grow, until they stop.
func (p *places) backoff() *Backoff {
	delays := p.delays()
	return backoff(delays, stats.Growing(delays))
}

// backoff is how delays grow, those in fitted; it is told of the delays that are given.
func backoff(delays, fitted []float64) *Backoff {
	g := stats.Backoff(fitted)
	b := &Backoff{DelaysSeconds: delays, FirstSeconds: g.First, Ratio: g.Factor, Low: g.Low, High: g.High, Fitted: g.N, Fit: g.Fit, Method: methodBackoff}
	if g.N < 3 {
		b.Low, b.High = g.Factor, g.Factor
	}
	return b
}

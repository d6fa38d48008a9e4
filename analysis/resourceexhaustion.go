package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// ResourceExhaustion finds a process that has run into the end of something: nobody listens where it connects to, over
// and over; the disk is full; there are no file descriptors, processes or memory left; it starts processes faster than
// anything needs. It reads kernel events where they were recorded, and the words of the system's errors in log lines.
type ResourceExhaustion struct {
	// MinRefused is how many refused connections to one address it takes, MinRefusedFor over how many nanoseconds: a
	// server that starts, or is updated, refuses for some seconds.
	MinRefused    int64
	MinRefusedFor int64
	// MinForks is how many processes a second, on the lower bound, for at least MinRefusedFor, are a storm. Operators
	// that run a tool for each pass start one or two.
	MinForks float64
	// MinErrors is how many errors of "too many open files" and the like it takes. One may be somebody else's fault on
	// the node; the third of the same process is its own. A full disk is told of at the first.
	MinErrors int64

	seen map[string]*exhaustion
}

// NewResourceExhaustion is a ResourceExhaustion with its thresholds set.
func NewResourceExhaustion() *ResourceExhaustion {
	return &ResourceExhaustion{MinRefused: 20, MinRefusedFor: 10e9, MinForks: 5, MinErrors: 3, seen: map[string]*exhaustion{}}
}

// Name implements Detector.
func (*ResourceExhaustion) Name() string { return "resource-exhaustion" }

// maxExhaustions bounds the causes that are told apart.
const maxExhaustions = 1 << 10

// exhaustion is one cause in one process.
type exhaustion struct {
	process     string // or of a pid
	pid         int32
	kind        string // refused, fork, enospc, emfile, enomem, eagain
	where       string // the address
	logged      bool
	n           int64
	first, last int64
	enough      int64 // when there were so many as it takes
	stack       int64
	places      places
}

func (d *ResourceExhaustion) of(process string, pid int32, kind, where string, ts int64) *exhaustion {
	key := fmt.Sprintf("%s\x00%d\x00%s\x00%s", process, pid, kind, where)
	x := d.seen[key]
	if x == nil {
		if len(d.seen) >= maxExhaustions {
			return nil
		}
		x = &exhaustion{process: strings.Clone(process), pid: pid, kind: kind, where: strings.Clone(where), first: ts}
		d.seen[key] = x
	}
	return x
}

// Kernel implements KernelDetector.
func (d *ResourceExhaustion) Kernel(m *Model, e *traces.KernelEvent) {
	where := ""
	switch e.Kind {
	case "refused":
		where = fmt.Sprintf("%s:%d", e.Address, e.Port)
	case "fork", "enospc":
	default:
		return
	}
	if x := d.of(processOf(m, e.PID), e.PID, strings.Clone(e.Kind), where, e.TS); x != nil {
		x.n += max(e.Count, 1)
		x.last, x.stack = e.TS, cmp.Or(e.StackID, x.stack)
		d.count(x)
		x.places.add(e.Seq, e.TS, map[string]string{"refused": "connection refused", "fork": "processes started: %d", "enospc": "no space left"}[x.kind], max(e.Count, 1), 0)
	}
}

// errnos are the system's errors as Go words them (syscall/zerrors_linux_*.go).
var errnos = []struct{ words, kind string }{
	{"connection refused", "refused"},
	{"no space left on device", "enospc"},
	{"too many open files", "emfile"},
	{"cannot allocate memory", "enomem"},
	{"resource temporarily unavailable", "eagain"},
}

// Log implements LogDetector.
func (d *ResourceExhaustion) Log(_ *Model, l *traces.Log) {
	if l.Level == "info" || l.Level == "debug" {
		return
	}
	for _, e := range errnos {
		text := l.Message
		i := strings.Index(text, e.words)
		if i < 0 {
			text = l.Fields
			i = strings.Index(text, e.words)
		}
		if i < 0 {
			continue
		}
		where := ""
		if e.kind == "refused" {
			where = dialed(text[:i])
		}
		if x := d.of(l.Process, 0, e.kind, where, l.TS); x != nil {
			x.n++
			x.last, x.logged = l.TS, true
			d.count(x)
			x.places.add(l.Seq, l.TS, e.words, 0, 0)
		}
		return
	}
}

// dialed is the address in front of an error of net.Dial: dial tcp 10.0.0.7:443: connect: …
func dialed(text string) string {
	i := strings.LastIndex(text, "dial ")
	if i < 0 {
		return ""
	}
	words := strings.Fields(text[i:])
	if len(words) < 3 {
		return ""
	}
	return strings.TrimSuffix(words[2], ":")
}

// Findings implements Detector: one for each process and cause.
func (d *ResourceExhaustion) Findings(m *Model) ([]Finding, []Note) {
	groups := map[string][]*exhaustion{}
	for _, key := range sortedKeys(d.seen) {
		if x := d.seen[key]; d.counts(m, x) {
			groups[x.process+"\x00"+x.kind] = append(groups[x.process+"\x00"+x.kind], x)
		}
	}
	var findings []Finding
	var notes []Note
	for _, key := range sortedKeys(groups) {
		group := groups[key]
		told := int64(0)
		for _, x := range group { // whichever was first
			if t := d.told(x); told == 0 || t < told {
				told = t
			}
		}
		if slices.ContainsFunc(group, func(x *exhaustion) bool { return !x.logged }) { // the kernel knows better
			group = slices.DeleteFunc(group, func(x *exhaustion) bool { return x.logged })
		}
		slices.SortStableFunc(group, func(a, b *exhaustion) int { return cmp.Compare(b.n, a.n) })
		if x := group[0]; m.Simulated && x.kind == "refused" {
			notes = append(notes, Note{Process: x.process, Count: x.n, What: fmt.Sprintf(
				"%s was refused %s by %s, which the simulated world does not have", nameOf(x.process, x.pid), plural(x.n, "connection", "connections"), cmp.Or(x.where, "somebody"))})
			continue
		}
		f := d.finding(group)
		f.told = told
		findings = append(findings, f)
	}
	return findings, notes
}

func (d *ResourceExhaustion) counts(m *Model, x *exhaustion) bool {
	lasted := x.last - x.first
	switch x.kind {
	case "refused":
		return x.n >= d.MinRefused && lasted >= d.MinRefusedFor && m.LastTS-x.last <= max(lasted, d.MinRefusedFor)
	case "fork":
		r := rate("", x.n, float64(lasted)/1e9)
		return lasted >= d.MinRefusedFor && r.Low >= d.MinForks
	case "enospc":
		return true
	}
	return x.n >= d.MinErrors
}

// need is how many it takes.
func (d *ResourceExhaustion) need(kind string) int64 {
	switch kind {
	case "refused":
		return d.MinRefused
	case "fork":
		return int64(d.MinForks * float64(d.MinRefusedFor) / 1e9)
	case "enospc":
		return 1
	}
	return d.MinErrors
}

// count notes when there were enough: a row may stand for several.
func (d *ResourceExhaustion) count(x *exhaustion) {
	if x.enough == 0 && x.n >= d.need(x.kind) {
		x.enough = x.last
	}
}

// told is when it could be told.
func (d *ResourceExhaustion) told(x *exhaustion) int64 {
	switch x.kind {
	case "refused":
		return max(x.enough, x.first+d.MinRefusedFor)
	case "fork": // the rate decides, as soon as it has lasted
		return x.first + d.MinRefusedFor
	}
	return x.enough
}

func (d *ResourceExhaustion) finding(group []*exhaustion) Finding {
	x := group[0]
	f := Finding{
		Severity: Error, Certainty: Sure, Process: x.process, Stack: x.stack, First: at(x.first), Last: at(x.last), Evidence: x.places.evidence(), Objects: []Object{},
		Statistics: []Statistic{rate("events", x.n, float64(max(x.last-x.first, 1e9))/1e9)},
	}
	need := d.need(x.kind)
	who := nameOf(x.process, x.pid)
	lasted := seconds(x.last - x.first)
	switch x.kind {
	case "refused":
		f.Severity = Warning
		f.What = fmt.Sprintf("%s was refused %d connections by %s in %s", who, x.n, cmp.Or(x.where, "one address"), lasted)
		f.Cause = "nobody listens there: the server is down, its Service has no endpoints, or the address is out of date"
		if len(group) > 1 {
			f.What += fmt.Sprintf(", and likewise by %s", plural(int64(len(group)-1), "other address", "other addresses"))
		}
	case "fork":
		f.Severity = Warning
		f.What = fmt.Sprintf("%s started %d processes in %s", who, x.n, lasted)
		f.Cause = "each pass starts a program, or a program that fails is started again without a pause"
	case "enospc":
		f.What = fmt.Sprintf("%s found the disk full %s", who, times(x.n))
		f.Cause = "what it writes to (a volume, an emptyDir with a limit, the node's disk) has no space left"
	case "emfile":
		f.What = fmt.Sprintf("%s ran out of file descriptors %s", who, times(x.n))
		f.Cause = "it opens connections or files that it does not close: bodies of answers that are not read and closed, a client made for each pass"
	case "enomem":
		f.What = fmt.Sprintf("%s was refused memory %s", who, times(x.n))
		f.Cause = "it has reached its container's memory limit, or the node's"
	default:
		f.What = fmt.Sprintf("%s was refused processes or threads %s (resource temporarily unavailable)", who, times(x.n))
		f.Cause = "it has reached the limit of processes of its container or user: children that are not waited for, or started too fast"
	}
	f.Effect = countOf(x.n, "times", float64(x.n)/float64(max(need, 1)))
	return f
}

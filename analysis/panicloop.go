package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// PanicLoop finds one panic over and over: a reconciler that panics on the same key at the same place on each retry
// (controller-runtime recovers, logs "Observed a panic" and takes it for an error), or a process that starts, panics
// at the same place and is started again.
//
// It is known by what the process logged, and where there is no such line by the outcome of recorded reconciles.
type PanicLoop struct {
	// MinPanics is how many panics of one key at one place it takes. One is what the fault makes; a second may be
	// the retry that heals, because what was missing has come; a third shows that retrying does not.
	MinPanics int64

	loops map[string]*panics
	open  map[string]*crash // by process: the panic whose stack is being printed
}

// NewPanicLoop is a PanicLoop with its thresholds set.
func NewPanicLoop() *PanicLoop {
	return &PanicLoop{MinPanics: 3, loops: map[string]*panics{}, open: map[string]*crash{}}
}

// Name implements Detector.
func (*PanicLoop) Name() string { return "panic-loop" }

// maxPanics bounds the distinct panics that are told apart.
const maxPanics = 1 << 10

// panics are the panics of one key with one message at one place.
type panics struct {
	process     string
	object      Object
	named       bool
	key         string
	message     string
	frame       string // function and line, "" unknown
	n           int64
	first, last int64
	pass        string // the last one's reconcileID: one panic is logged in two lines
	crashes     bool
	logged      bool
	period      reservoir
	places      places
}

// crash is a panic that ends its process, of which the stack follows line by line.
type crash struct {
	message  string
	seq, ts  int64
	lines    int
	function string
	running  bool
}

// Log implements LogDetector.
func (d *PanicLoop) Log(_ *Model, l *traces.Log) {
	if c := d.open[l.Process]; c != nil {
		d.crashing(l, c)
	}
	switch {
	case strings.HasPrefix(l.Message, "panic: ") || strings.HasPrefix(l.Message, "fatal error: "):
		if strings.HasSuffix(l.Message, "[recovered]") { // the same again follows, or a second panic with its own line
			return
		}
		d.open[strings.Clone(l.Process)] = &crash{message: strings.Clone(l.Message), seq: l.Seq, ts: l.TS}
	case strings.HasPrefix(l.Message, "Observed a panic"):
		s := readLog(l)
		if s.panicked == "" {
			_, s.panicked, _ = strings.Cut(l.Message, ": ")
		}
		d.add(l, &s, s.panicked, ownFrame(strings.Split(plainLines(s.stack), "\n")))
	case l.Message == "Reconciler error":
		if s := readLog(l); strings.HasPrefix(s.err, "panic: ") && strings.HasSuffix(s.err, "[recovered]") {
			d.add(l, &s, strings.TrimSuffix(strings.TrimPrefix(s.err, "panic: "), " [recovered]"), "")
		}
	}
}

// plainLines undoes the escapes of a stack in a JSON string.
func plainLines(v string) string {
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `"`, "").Replace(v)
}

func (d *PanicLoop) add(l *traces.Log, s *said, message, frame string) {
	p := d.of(l.Process, s.key(), message, frame)
	if p == nil || s.pass != "" && p.pass == s.pass {
		return
	}
	p.pass, p.logged = strings.Clone(s.pass), true
	if p.n == 0 {
		p.object = Object{Group: strings.Clone(s.group), Resource: strings.Clone(s.kind), Namespace: strings.Clone(s.namespace), Name: strings.Clone(s.name)}
		p.named = s.name != ""
	}
	p.note(l.Seq, l.TS)
}

// of is the loop of a panic. A panic without a known place is counted with the one of the same words.
func (d *PanicLoop) of(process, key, message, frame string) *panics {
	id := strings.Join([]string{process, key, steady(message)}, "\x00")
	p := d.loops[id]
	if p == nil {
		if len(d.loops) >= maxPanics {
			return nil
		}
		p = &panics{process: strings.Clone(process), key: strings.Clone(key), message: strings.Clone(message)}
		d.loops[id] = p
	}
	p.frame = cmp.Or(p.frame, strings.Clone(frame))
	return p
}

func (p *panics) note(seq, ts int64) {
	p.n++
	if p.n == 1 {
		p.first = ts
	} else {
		p.period.add(float64(ts-p.last) / 1e9)
	}
	p.last = ts
	p.places.add(seq, ts, "panic", 0, 0)
}

// crashing reads the stack of a process that is dying, to the first place that is the operator's own.
func (d *PanicLoop) crashing(l *traces.Log, c *crash) {
	const most = 64 // lines of a stack that are looked at
	c.lines++
	line := strings.TrimRight(l.Message, "\r")
	at := strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(at, "goroutine ") && c.running, c.lines > most, at == "exit status 2":
		d.crashed(l.Process, c, "")
	case strings.HasPrefix(at, "goroutine "):
		c.running = true
	case strings.Contains(at, ".go:") && c.function != "":
		if own(c.function) {
			d.crashed(l.Process, c, frameAt(c.function, at))
		}
		c.function = ""
	case c.running && strings.HasSuffix(at, ")") && strings.Contains(at, "("): // other lines may come between those of the stack
		c.function = strings.Clone(at[:strings.LastIndexByte(at, '(')])
	}
}

func (d *PanicLoop) crashed(process string, c *crash, frame string) {
	delete(d.open, process)
	if p := d.of(process, "", strings.TrimPrefix(c.message, "panic: "), frame); p != nil {
		p.crashes = true
		p.note(c.seq, c.ts)
	}
}

// Pass implements PassDetector.
func (d *PanicLoop) Pass(_ *Model, x *Pass) {
	if x.Row.Outcome != "panic" {
		return
	}
	s := said{controller: x.Row.Controller, namespace: x.Row.Namespace, name: x.Row.Name}
	for _, p := range d.loops {
		if p.process == x.Row.Process && p.key == s.key() && p.logged {
			return // its lines have been counted
		}
	}
	if p := d.of(x.Row.Process, s.key(), cmp.Or(x.Row.Error, "panic"), ""); p != nil {
		if p.n == 0 {
			p.object = Object{Resource: strings.Clone(s.controller), Namespace: strings.Clone(s.namespace), Name: strings.Clone(s.name)}
			p.named = s.name != ""
		}
		p.note(x.Row.Seq, x.Row.TS)
	}
}

// Findings implements Detector: one for each process and panic, with the keys that it meets.
func (d *PanicLoop) Findings(m *Model) ([]Finding, []Note) {
	for _, process := range sortedKeys(d.open) { // the trace ends within a stack
		d.crashed(process, d.open[process], "")
	}
	groups := map[string][]*panics{}
	for _, p := range d.loops {
		if p.n >= d.MinPanics {
			key := p.process + "\x00" + steady(p.message) + "\x00" + p.frame
			groups[key] = append(groups[key], p)
		}
	}
	var out []Finding
	for _, key := range sortedKeys(groups) {
		out = append(out, d.finding(m, groups[key]))
	}
	return out, nil
}

func (d *PanicLoop) finding(m *Model, group []*panics) Finding {
	slices.SortFunc(group, func(a, b *panics) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.key, b.key)) })
	p := group[0]
	var list []scored
	var n int64
	first, last := p.first, p.last
	for _, x := range group {
		n += x.n
		first, last = min(first, x.first), max(last, x.last)
		if x.named {
			s := said{group: x.object.Group, kind: x.object.Resource, controller: x.object.Resource, namespace: x.object.Namespace, name: x.object.Name}
			o, _ := s.object(m)
			list = append(list, scored{o, float64(x.n)})
		}
	}
	f := Finding{
		Severity: Error, Certainty: Sure, Process: p.process, First: at(first), Last: at(last), Evidence: p.places.evidence(), told: p.places.nth(d.MinPanics),
		Statistics: []Statistic{median("period", "s", p.period.sample, p.period.n)},
		Effect:     countOf(n, "panics", float64(n)/float64(d.MinPanics)),
	}
	f.Objects, f.Total = worst(list)
	where := ""
	if p.frame != "" {
		where = " at " + p.frame
	}
	if p.crashes {
		f.What = fmt.Sprintf("%s panicked %s%s in the same way, and was started again each time: %s", p.process, times(p.n), where, brief(p.message))
		f.Cause = "what it meets when it starts is the same each time, so a restart can't help"
		return f
	}
	f.What = fmt.Sprintf("%s panicked %s%s when it reconciled %s: %s", p.process, times(p.n), where, cmp.Or(p.key, "a key"), brief(p.message))
	if len(group) > 1 {
		f.What += fmt.Sprintf("; and likewise %s", plural(int64(len(group)-1), "other key", "other keys"))
	}
	f.Cause = "the panic is recovered and retried, and the state that the reconciler can't cope with is still there"
	if strings.Contains(p.message, "nil pointer") || strings.Contains(p.message, "nil map") {
		f.Cause = "something that may be absent is used without a check, and is still absent on each retry"
	}
	return f
}

// ownFrame is the first place of the operator's own in the lines of a Go stack, after the call of panic if there is one.
func ownFrame(lines []string) string {
	from := 0
	for i, l := range lines {
		if strings.HasPrefix(l, "panic(") {
			from = i + 1
		}
	}
	for i := from; i+1 < len(lines); i++ {
		call, at := lines[i], strings.TrimSpace(lines[i+1])
		open := strings.LastIndexByte(call, '(')
		if open > 0 && strings.Contains(at, ".go:") && own(call[:open]) {
			return frameAt(call[:open], at)
		}
	}
	return ""
}

// libraries are what operators are built on, the clock of the kernel too: a panic or a hot place there is owed to who called it.
var libraries = []string{"[vdso]", "runtime.", "runtime/", "panic", "k8s.io/", "sigs.k8s.io/", "golang.org/", "google.golang.org/", "github.com/go-logr/", "go.uber.org/", "internal/"}

// standard are the first words of Go's own packages that stand in stacks.
var standard = []string{"net", "encoding", "crypto", "bufio", "bytes", "strings", "sync", "syscall", "time", "os", "io", "reflect", "sort", "slices", "maps", "regexp", "fmt", "context", "log", "math", "compress", "hash", "strconv", "unicode", "errors", "iter", "aeshashbody", "memeqbody", "indexbytebody", "cmpbody", "gogo", "vendor", "mime"}

// own is whether a function is the operator's own rather than of Go or a library.
func own(function string) bool {
	for _, l := range libraries {
		if strings.HasPrefix(function, l) {
			return false
		}
	}
	first, _, _ := strings.Cut(function, "/")
	first, _, _ = strings.Cut(first, ".")
	return !slices.Contains(standard, first)
}

// frameAt writes a function and its line as in a stack: main.(*R).Reconcile (main.go:41).
func frameAt(function, at string) string {
	at, _, _ = strings.Cut(at, " +0x")
	return function + " (" + at[strings.LastIndexByte(at, '/')+1:] + ")"
}

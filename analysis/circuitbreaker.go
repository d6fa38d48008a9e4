package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/traces"
)

// CircuitBreaker finds circuit breakers that never close: after some failures an operator stops trying for a while,
// says so, and goes on saying so to the end without ever trying again or being closed.
//
// Breakers have no form of their own in the API. They are known by words: log lines that speak of a circuit that is
// open, half-open or closed (sony/gobreaker, Crossplane's watch circuit breaker, hand-made ones).
type CircuitBreaker struct {
	// MinOpen is for how many nanoseconds a breaker must have been open, up to the end. Common breakers try again
	// after 5 s to 60 s (gobreaker's default is 60 s): twice that without a try is no pause.
	MinOpen int64
	// MinLines is how many lines must say that it is open: one may be a last word before the trace ends.
	MinLines int64

	breakers map[string]*breaker
}

// NewCircuitBreaker is a CircuitBreaker with its thresholds set.
func NewCircuitBreaker() *CircuitBreaker {
	return &CircuitBreaker{MinOpen: 120e9, MinLines: 3, breakers: map[string]*breaker{}}
}

// Name implements Detector.
func (*CircuitBreaker) Name() string { return "circuit-breaker" }

// breaker is the breaker of one key, or of one message, of one process.
type breaker struct {
	process, key string
	about        said
	open         bool
	since, last  int64
	lines        int64 // that said open since then
	opened       int64 // times
	period       reservoir
	places       places
}

// maxBreakers bounds the breakers that are told apart.
const maxBreakers = 1 << 10

// Log implements LogDetector.
func (d *CircuitBreaker) Log(_ *Model, l *traces.Log) {
	open, ok := circuit(l.Message)
	s := said{}
	if !ok {
		if !strings.Contains(l.Fields, "ircuit") {
			return
		}
		s = readLog(l)
		if open, ok = circuit(s.err); !ok {
			return
		}
	} else {
		s = readLog(l)
	}
	key := s.key()
	if key == "" {
		key = subject(l)
	}
	b := d.breakers[l.Process+"\x00"+key]
	if b == nil {
		if !open || len(d.breakers) >= maxBreakers {
			return
		}
		b = &breaker{process: strings.Clone(l.Process), key: strings.Clone(key), about: said{
			controller: strings.Clone(s.controller), group: strings.Clone(s.group), kind: strings.Clone(s.kind),
			namespace: strings.Clone(s.namespace), name: strings.Clone(s.name),
		}}
		d.breakers[b.process+"\x00"+b.key] = b
	}
	b.say(open, l)
}

// subject is what a line without a key names its breaker by.
func subject(l *traces.Log) string {
	name := ""
	for _, field := range [...]string{`"breaker":`, `"circuit":`, `"endpoint":`, `"host":`} {
		if _, rest, ok := strings.Cut(l.Fields, field); ok {
			name, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(rest), `"`), `"`)
			break
		}
	}
	return name
}

// circuit reads whether a text says that a circuit is open, or that it is closed or tries again.
func circuit(text string) (open, ok bool) {
	i := strings.Index(text, "ircuit")
	if i < 0 {
		return false, false
	}
	text = strings.ToLower(text)
	switch {
	case strings.Contains(text, "half-open"), strings.Contains(text, "half open"), strings.Contains(text, "closed"), strings.Contains(text, "closing"), strings.Contains(text, "reset"):
		return false, true
	case strings.Contains(text, "open"), strings.Contains(text, "tripped"):
		return true, true
	}
	return false, false
}

func (b *breaker) say(open bool, l *traces.Log) {
	if !open {
		b.open, b.lines, b.places, b.period = false, 0, places{}, reservoir{}
		return
	}
	if !b.open {
		b.open, b.since = true, l.TS
		b.opened++
	} else {
		b.period.add(float64(l.TS-b.last) / 1e9)
	}
	b.last = l.TS
	b.lines++
	b.places.add(l.Seq, l.TS, "said to be open", 0, 0)
}

// Findings implements Detector: one for each process.
func (d *CircuitBreaker) Findings(m *Model) ([]Finding, []Note) {
	byProcess := map[string][]*breaker{}
	for _, key := range sortedKeys(d.breakers) {
		b := d.breakers[key]
		end := m.End(m.process(b.process))
		if !b.open || b.lines < d.MinLines || end-b.since < d.MinOpen {
			continue
		}
		byProcess[b.process] = append(byProcess[b.process], b)
	}
	var out []Finding
	for _, process := range sortedKeys(byProcess) {
		out = append(out, d.finding(m, byProcess[process]))
	}
	return out, nil
}

func (d *CircuitBreaker) finding(m *Model, list []*breaker) Finding {
	slices.SortStableFunc(list, func(a, b *breaker) int { return int(b.lines - a.lines) })
	b := list[0]
	end := m.End(m.process(b.process))
	open := float64(end-b.since) / 1e9
	f := Finding{
		Severity: Error, Certainty: Likely, Process: b.process, First: at(b.since), Last: at(b.last), Evidence: b.places.evidence(), told: max(b.since+d.MinOpen, b.places.nth(d.MinLines)), absent: absence{table: traces.TableLogs, from: b.since, to: end},
		Statistics: []Statistic{
			{Name: "open", Value: open, Unit: "s", Low: open, High: open, Unbounded: true, N: 1, Method: "time from the first line that says so to the end, a lower bound"},
			median("said again after", "s", b.period.sample, b.period.n),
		},
		Effect: Effect{Value: open, Unit: "s open", Weight: open * 1e9 / float64(d.MinOpen)},
	}
	var objects []scored
	for _, x := range list {
		if o, ok := x.about.object(m); ok {
			objects = append(objects, scored{o, float64(x.lines)})
		}
	}
	f.Objects, f.Total = worst(objects)
	of := ""
	if b.key != "" {
		of = " of " + b.key
	}
	f.What = fmt.Sprintf("the circuit breaker%s in %s has been open for %s, to the end, and is never tried: %s say so", of, b.process, seconds(end-b.since), plural(b.lines, "line", "lines"))
	f.Cause = "nothing puts it half-open: no time is set after which one call may try, or what it waits for is the very call that it holds back"
	return f
}

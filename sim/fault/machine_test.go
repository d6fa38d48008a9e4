package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestMachine runs the transcripts of testdata. Their commands:
//
//	plan                                     parses the input, prints it, and starts a new run
//	begin                                    the operator makes its first call
//	arrive VERB RES[.GROUP][/NAME[/SUB]] [ns=NS] [client=C] [version=V]    a call; C is "manager", the operator, by default
//	done tN | dropped tN | answered tN       call N has been executed, will never be, has its answer
//	deliver STREAM [client=C] TYPE RES[.GROUP]/NAME rv=N       an event is at the head of its stream
//	behind  STREAM …                                           an event waits behind the head
//	closed STREAM [client=C]
//	expire [dN]                              the time of the N-th deadline has come, or of the last
//	report                                   the selectors that matched nothing, and how often each fault struck
func TestMachine(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s transcript
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

// transcript is one run of a plan.
type transcript struct {
	m         *Machine
	deadlines []Deadline
	streams   []string
}

func (s *transcript) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	m := s.m
	switch d.Cmd {
	case "plan":
		p, err := Parse("plan", []byte(d.Input))
		if err != nil {
			return err.Error()
		}
		*s = transcript{m: NewMachine(p, Options{Operator: "manager"})}
		return p.String()
	case "begin":
		return s.effect("begun", m.Begin())
	case "arrive":
		v := m.Arrive(callOf(t, d))
		return v.text()
	case "done":
		return s.effect("done", m.Done(ticket(t, d)))
	case "dropped":
		return s.effect("dropped", m.Dropped(ticket(t, d)))
	case "answered":
		return s.effect("answered", m.Answered(ticket(t, d)))
	case "deliver":
		e := eventOf(t, d)
		if !slices.Contains(s.streams, e.Stream) {
			s.streams = append(s.streams, e.Stream)
		}
		v := m.Deliver(e)
		return s.effect(v.text(), v.Effect)
	case "behind":
		return s.effect("behind", m.Behind(eventOf(t, d)))
	case "closed":
		plain, named := words(d)
		m.Closed(named["client"] + "/" + plain[0])
		return "closed"
	case "expire":
		n := len(s.deadlines)
		if len(d.CmdArgs) > 0 {
			n = number(t, d, "d")
		}
		fx := m.Expire(s.deadlines[n-1])
		if !fx.Released && len(fx.Actions) == 0 && len(fx.Begun) == 0 {
			return "nothing to do"
		}
		return s.effect("expired", fx)
	case "report":
		return report(m)
	}
	t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	return ""
}

// effect adds to WHAT what follows from it.
func (s *transcript) effect(what string, fx Effect) string {
	var b strings.Builder
	b.WriteString(what)
	if fx.Released {
		b.WriteString(": released")
	}
	for _, d := range fx.Begun {
		s.deadlines = append(s.deadlines, d)
		fmt.Fprintf(&b, "\n  d%d in %s: %s", len(s.deadlines), d.After, d.What)
	}
	for _, a := range fx.Actions {
		fmt.Fprintf(&b, "\n  %s", a)
		if a.Do == DoCut {
			b.WriteString(": " + strings.Join(s.cut(a), ", "))
		}
	}
	return b.String()
}

// cut names the streams that an action means. To be asked, a stream has to have had an event of pods.
func (s *transcript) cut(a Action) (names []string) {
	for _, name := range s.streams {
		client, _, _ := strings.Cut(name, "/")
		if a.Matches(Event{Client: client, Stream: name, Resource: "pods"}) {
			names = append(names, name)
		}
	}
	if names == nil {
		names = []string{"none"}
	}
	return names
}

func report(m *Machine) string {
	var lines []string
	for _, u := range m.Report() {
		lines = append(lines, u.String())
	}
	if lines == nil {
		lines = []string{"every selector matched"}
	}
	lines = append(lines, "struck: "+strings.Trim(fmt.Sprint(m.Struck()), "[]"))
	return strings.Join(lines, "\n")
}

func number(t *testing.T, d *datadriven.TestData, prefix string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(d.CmdArgs[0].Key, prefix))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ticket(t *testing.T, d *datadriven.TestData) Ticket {
	t.Helper()
	return Ticket(number(t, d, "t"))
}

func (v Verdict) text() string {
	s := fmt.Sprintf("t%d: ", v.Ticket)
	switch r := v.Refusal; {
	case r == nil:
		s += "execute"
	case r.Lost() && r.Committed:
		s += "execute, then break the connection"
	case r.Lost():
		s += "break the connection"
	default:
		if r.Committed {
			s += "execute, then "
		}
		code, header, _ := r.Answer()
		s += fmt.Sprintf("answer %d %s", code, r.Status.Reason)
		if after := header.Get("Retry-After"); after != "" {
			s += ", retry after " + after + "s"
		}
		if r.Wait > 0 {
			s += ", waiting " + r.Wait.String()
		}
	}
	if v.Delay > 0 {
		s += " after " + v.Delay.String()
	}
	for _, m := range v.Marks {
		word := "before"
		if m.After {
			word = "after"
		}
		s += ", remember the version " + word + " it"
	}
	for _, a := range v.Before {
		s += "\n  first " + a.String()
	}
	return s
}

func (d Delivery) text() string {
	s := "deliver"
	if d.Held {
		s = "hold"
	}
	if d.Delay > 0 {
		s += " after " + d.Delay.String()
	}
	if d.Ahead {
		s += ", and look ahead"
	}
	return s
}

// words splits a command's arguments into plain ones and key=value ones.
func words(d *datadriven.TestData) (plain []string, named map[string]string) {
	named = map[string]string{"client": "manager"}
	for _, a := range d.CmdArgs {
		switch len(a.Vals) {
		case 0:
			plain = append(plain, a.Key)
		default:
			named[a.Key] = a.Vals[0]
		}
	}
	return plain, named
}

func resourceOf(word string) (group, resource string, rest []string) {
	parts := append(strings.Split(word, "/"), "", "")
	resource, group, _ = strings.Cut(parts[0], ".")
	return group, resource, parts[1:]
}

func callOf(t *testing.T, d *datadriven.TestData) Call {
	t.Helper()
	plain, named := words(d)
	if len(plain) != 2 {
		t.Fatalf("%s: want VERB TARGET", d.Pos)
	}
	group, resource, rest := resourceOf(plain[1])
	return Call{
		Client: named["client"], Verb: plain[0], Group: group, Resource: resource,
		Namespace: named["ns"], Name: rest[0], Subresource: rest[1], Version: named["version"],
	}
}

func eventOf(t *testing.T, d *datadriven.TestData) Event {
	t.Helper()
	plain, named := words(d)
	if len(plain) != 3 {
		t.Fatalf("%s: want STREAM TYPE RESOURCE/NAME", d.Pos)
	}
	rv, err := strconv.ParseInt(named["rv"], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	group, resource, rest := resourceOf(plain[2])
	return Event{
		Client: named["client"], Stream: named["client"] + "/" + plain[0], Type: plain[1],
		Group: group, Resource: resource, Name: rest[0], ResourceVersion: rv,
	}
}

// TestLatencyIgnoresArrivalOrder: what a call waits depends on the call, not on which of two came first.
func TestLatencyIgnoresArrivalOrder(t *testing.T) {
	plan, err := Parse("plan", []byte(`{seed: 3, faults: [{latency: {request: "*", between: [1ms, 10s]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	a := Call{Client: "op", Verb: "create", Resource: "pods", Name: "a"}
	b := Call{Client: "op", Verb: "create", Resource: "pods", Name: "b"}
	delays := func(seed uint64, calls ...Call) map[string][]time.Duration {
		m := NewMachine(&Plan{Seed: seed, Faults: plan.Faults}, Options{})
		got := map[string][]time.Duration{}
		for _, c := range calls {
			d := m.Arrive(c).Delay
			if d < time.Millisecond || d > 10*time.Second {
				t.Errorf("a delay of %s is out of bounds", d)
			}
			got[c.Name] = append(got[c.Name], d)
		}
		return got
	}
	one, other := delays(3, a, b, a), delays(3, b, a, a)
	if fmt.Sprint(one) != fmt.Sprint(other) {
		t.Errorf("delays depend on the order of arrival: %v and %v", one, other)
	}
	if one["a"][0] == one["a"][1] || one["a"][0] == one["b"][0] {
		t.Errorf("delays do not vary: %v", one)
	}
	if fmt.Sprint(one) == fmt.Sprint(delays(4, a, b, a)) {
		t.Error("another seed gives the same delays")
	}
}

// TestLatencySpreads: over many calls the delays fill the interval evenly.
func TestLatencySpreads(t *testing.T) {
	f, err := ParseFault(`latency: {request: "*", between: [0s, 100ms]}`)
	if err != nil {
		t.Fatal(err)
	}
	m := NewMachine(&Plan{Faults: []Fault{f}}, Options{})
	const n = 10000
	var tenths [10]int
	for i := range n {
		d := m.Arrive(Call{Client: "op", Verb: "get", Resource: "pods", Name: strconv.Itoa(i % 10)}).Delay
		tenths[min(int(d*10/(100*time.Millisecond)), 9)]++
	}
	for i, got := range tenths {
		// 1000 are due; the binomial's standard deviation is 30.
		if got < 850 || got > 1150 {
			t.Errorf("tenth %d has %d of %d", i, got, n)
		}
	}
}

func BenchmarkMachine(b *testing.B) {
	p, err := Parse("plan", []byte(`
faults:
- hold: {watch: pods, client: operator, from: "MODIFIED db #9", until: "CREATE statefulsets/db #2"}
- latency: {request: "*", between: [5ms, 200ms]}
- answer: {request: "UPDATE */status", nth: 2, code: 409}
`))
	if err != nil {
		b.Fatal(err)
	}
	m := NewMachine(p, Options{Operator: "op"})
	c := Call{Client: "op", Verb: "update", Resource: "pods", Name: "db", Subresource: "status"}
	e := Event{Client: "op", Stream: "w", Type: "MODIFIED", Resource: "services", Name: "db"}
	for b.Loop() {
		m.Done(m.Arrive(c).Ticket)
		e.ResourceVersion++
		m.Deliver(e)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls+events/s")
}

// A version is served until the plan takes it away, and others stay.
func TestServes(t *testing.T) {
	plan, err := Parse("plan", []byte(`faults:
- unserve: {version: web.example.com/v1, at: 10s}
- unserve: {version: v1, resource: secrets}
`))
	if err != nil {
		t.Fatal(err)
	}
	m := NewMachine(plan, Options{Operator: "operator"})
	serves := func(group, version, resource string, want bool) {
		t.Helper()
		if got := m.Serves(group, version, resource); got != want {
			t.Errorf("serves %s/%s %s: %v", group, version, resource, got)
		}
	}
	serves("web.example.com", "v1", "sites", true)
	serves("", "v1", "secrets", false)
	serves("", "v1", "configmaps", true)
	for _, d := range m.Begin().Begun {
		m.Expire(d)
	}
	serves("web.example.com", "v1", "sites", false)
	serves("web.example.com", "v2", "sites", true)
}

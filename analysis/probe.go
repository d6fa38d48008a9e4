package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// Probe finds liveness probes that take longer than they may, so that healthy containers are killed, and readiness that
// says more than is true: a custom resource that goes on to say Ready while nothing of the workload that it owns is.
type Probe struct {
	// MinFailures is how many liveness probes of one pod must have timed out: kubelets kill after the third failure in
	// a row unless told otherwise.
	MinFailures int64
	// MinStale is for how many nanoseconds readiness must have been wrong, since the operator knew. A pass takes
	// seconds; what lags for longer than half a minute is read from something else.
	MinStale int64

	probes    map[string]*probed // by uid of the pod
	workloads map[*State]*workload
	ready     map[*State]readiness // custom resources that say Ready
	stale     map[Object]*staleReady
}

// NewProbe is a Probe with its thresholds set.
func NewProbe() *Probe {
	return &Probe{
		MinFailures: 3, MinStale: 30e9,
		probes: map[string]*probed{}, workloads: map[*State]*workload{}, ready: map[*State]readiness{}, stale: map[Object]*staleReady{},
	}
}

// Name implements Detector.
func (*Probe) Name() string { return "probe" }

// maxProbed bounds the pods with failing probes, and the objects with stale readiness.
const maxProbed = 1 << 12

// probed are the liveness probes of one pod that timed out.
type probed struct {
	pod         Object
	container   string
	counts      map[string]int64 // by Event: its count rises
	killed      map[string]int64
	first, last int64
	places      places
	timeout     string // timeoutSeconds of its probe
	handler     string
}

// workload is something with pods that a custom resource owns.
type workload struct {
	down int64 // since when nothing of it is ready, 0 if something is
	seq  int64 // of the version that said so
}

// readiness is since when a custom resource says Ready, and who had it do so.
type readiness struct {
	since, stack int64
	manager      string
}

// staleReady is a custom resource that says Ready while its workload is down.
type staleReady struct {
	owner, workload Object
	process         string
	says            readiness
	seconds         float64
	n               int64
	first, last     int64
	places          places
}

// Change implements ChangeDetector.
func (d *Probe) Change(m *Model, c *Change) {
	switch c.State.Group {
	case "", "events.k8s.io":
		switch c.State.Resource {
		case "events":
			d.event(m, c)
		case "pods":
			d.pod(c)
		}
		return
	case "apps":
		switch c.State.Resource {
		case "deployments", "statefulsets", "daemonsets":
			d.workload(m, c)
		}
		return
	}
	if strings.Contains(c.State.Group, ".") && !strings.HasSuffix(c.State.Group, ".k8s.io") && c.Touches("status.conditions") {
		d.owner(m, c)
	}
}

// event counts what kubelets say of liveness probes.
func (d *Probe) event(m *Model, c *Change) {
	if c.Deleted || c.After == "" || !strings.Contains(c.After, "iveness probe") {
		return
	}
	reason, _ := jsontext.Get(c.After, "reason")
	message, ok := jsontext.Get(c.After, "message")
	if !ok {
		message, _ = jsontext.Get(c.After, "note")
	}
	killed := jsontext.Text(reason) == "Killing"
	if !killed && (!strings.Contains(message, "Liveness probe failed") || !tookTooLong(message)) {
		return
	}
	about, _ := eventOf(c.After)
	about.Resource = "pods"
	if state := m.Object(Key{"", "pods", about.Namespace, about.Name}); state != nil {
		about = state.Object
	}
	p := d.probes[about.UID]
	if p == nil {
		if len(d.probes) >= maxProbed {
			return
		}
		p = &probed{pod: about, counts: map[string]int64{}, killed: map[string]int64{}, first: c.TS}
		d.probes[about.UID] = p
		if state := m.ByUID(about.UID); state != nil {
			p.read(state.Body)
		}
	}
	n := max(count(c.After), 1)
	if killed {
		p.killed[c.State.UID] = n
	} else {
		p.counts[c.State.UID] = n
	}
	p.last = c.TS
	p.places.add(c.Seq, c.TS, "Event, %d times by now", n, 0)
}

// tookTooLong is whether a probe's failure was its time limit (k8s.io/kubernetes/pkg/probe, net/http).
func tookTooLong(message string) bool {
	for _, words := range [...]string{"context deadline exceeded", "Client.Timeout exceeded", "i/o timeout", "timed out", "timeout:"} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// count is how often an Event has been seen, in its old and its new form.
func count(event string) int64 {
	if n, ok := jsontext.Get(event, "series", "count"); ok {
		return jsontext.Int(n)
	}
	n, _ := jsontext.Get(event, "count")
	return jsontext.Int(n)
}

// pod reads the time limit of the probe of a pod that is known to fail.
func (d *Probe) pod(c *Change) {
	if p := d.probes[c.State.UID]; p != nil && p.timeout == "" {
		p.read(c.After)
	}
}

func (p *probed) read(pod string) {
	containers, _ := jsontext.Get(pod, "spec", "containers")
	jsontext.Elements(containers, func(container string) bool {
		probe, ok := jsontext.Get(container, "livenessProbe")
		if !ok {
			return true
		}
		name, _ := jsontext.Get(container, "name")
		p.container, p.timeout = strings.Clone(jsontext.Text(name)), "1"
		if seconds, ok := jsontext.Get(probe, "timeoutSeconds"); ok {
			p.timeout = strings.Clone(seconds)
		}
		for _, handler := range [...]string{"exec", "httpGet", "grpc", "tcpSocket"} {
			if _, ok := jsontext.Get(probe, handler); ok {
				p.handler = handler
			}
		}
		return false
	})
}

// workload notes whether anything of a workload is ready.
func (d *Probe) workload(m *Model, c *Change) {
	s := c.State
	if s.Owner == "" || !c.Deleted && !c.Touches("status") && !c.Touches("spec.replicas") {
		return
	}
	w := d.workloads[s]
	if w == nil {
		w = &workload{}
		d.workloads[s] = w
	}
	wanted, ready := replicas(c.After)
	down := !c.Deleted && wanted > 0 && ready == 0
	switch {
	case down && w.down == 0:
		w.down, w.seq = c.TS, c.Seq
	case !down && w.down != 0:
		d.compare(m, m.ByUID(s.Owner), s, w.down, c.TS)
		w.down = 0
	}
}

// replicas are how many pods a workload should have and how many are ready.
func replicas(body string) (wanted, ready int64) {
	wanted = 1
	if n, ok := jsontext.Get(body, "spec", "replicas"); ok {
		wanted = jsontext.Int(n)
	}
	for _, field := range [...]string{"readyReplicas", "numberReady"} {
		if n, ok := jsontext.Get(body, "status", field); ok {
			ready = jsontext.Int(n)
		}
	}
	if n, ok := jsontext.Get(body, "status", "desiredNumberScheduled"); ok {
		wanted = jsontext.Int(n)
	}
	return wanted, ready
}

// owner notes since when a custom resource says Ready.
func (d *Probe) owner(m *Model, c *Change) {
	was, said := d.ready[c.State]
	says := !c.Deleted && saysReady(c.After)
	switch {
	case says && !said:
		by := readiness{since: c.TS, manager: c.Manager()}
		if c.Author.Call != nil {
			by.stack = c.Author.Call.Stack
		}
		d.ready[c.State] = by
	case !says && said:
		for _, s := range d.down() {
			if s.Owner == c.State.UID {
				d.compare(m, c.State, s, max(d.workloads[s].down, was.since), c.TS)
			}
		}
		delete(d.ready, c.State)
	}
}

func saysReady(body string) bool {
	conditions, _ := jsontext.Get(body, "status", "conditions")
	ready := false
	jsontext.Elements(conditions, func(c string) bool {
		kind, _ := jsontext.Get(c, "type")
		status, _ := jsontext.Get(c, "status")
		if k := jsontext.Text(kind); k == "Ready" || k == "Available" {
			ready = jsontext.Text(status) == "True"
		}
		return !ready
	})
	return ready
}

// compare looks whether the owner said Ready from a time on in which its workload was down, and its operator knew.
func (d *Probe) compare(m *Model, owner, s *State, from, to int64) {
	if owner == nil {
		return
	}
	says, said := d.ready[owner]
	if !said {
		return
	}
	process := ""
	from = max(from, says.since)
	for _, p := range m.Processes() {
		if told, _ := s.Told(p, s.RV); told.Seq != 0 && p.Writes > 0 {
			process, from = p.Name, max(from, told.TS)
		} else if p.Watches && len(m.Processes()) == 1 && s.Newest(p) < s.RV {
			return // nobody told it
		}
	}
	if to-from < d.MinStale {
		return
	}
	x := d.stale[owner.Object]
	if x == nil {
		if len(d.stale) >= maxProbed {
			return
		}
		x = &staleReady{owner: owner.Object, workload: s.Object, process: process, says: says, first: from}
		d.stale[owner.Object] = x
	}
	x.n++
	x.seconds += float64(to-from) / 1e9
	x.last = to
	x.places.add(d.workloads[s].seq, from, "nothing is ready, and the owner says Ready", 0, 0)
}

// Gone implements GoneDetector.
func (d *Probe) Gone(_ *Model, s *State) {
	delete(d.workloads, s)
	delete(d.ready, s)
}

// Findings implements Detector.
func (d *Probe) Findings(m *Model) ([]Finding, []Note) {
	for _, s := range d.down() {
		d.compare(m, m.ByUID(s.Owner), s, d.workloads[s].down, m.LastTS)
	}
	findings, notes := d.liveness()
	return append(findings, d.staleness()...), notes
}

// down are the workloads of which nothing is ready, by name.
func (d *Probe) down() (list []*State) {
	for s, w := range d.workloads {
		if w.down != 0 {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *State) int { return a.compare(b.Object) })
	return list
}

func (d *Probe) liveness() (findings []Finding, notes []Note) {
	for _, uid := range sortedKeys(d.probes) {
		p := d.probes[uid]
		var n, killed int64
		for _, c := range p.counts {
			n += c
		}
		for _, c := range p.killed {
			killed += c
		}
		if n < d.MinFailures {
			continue
		}
		what := fmt.Sprintf("the liveness probe of %s took longer than it may (timeoutSeconds %s) %s", p.pod, p.timeout, times(n))
		if killed == 0 {
			notes = append(notes, Note{Objects: []Object{p.pod}, Total: 1, Count: n, What: what + "; it was not killed for it"})
			continue
		}
		findings = append(findings, Finding{
			Severity: Warning, Certainty: Sure, Objects: []Object{p.pod}, Total: 1, Field: "spec.containers[*].livenessProbe.timeoutSeconds",
			What:       what + fmt.Sprintf(", and its container %s was killed %s", p.container, times(killed)),
			Cause:      fmt.Sprintf("what the probe (%s) asks takes longer than its time limit, at least under load: it should answer from memory, and be given more time than the slowest answer", p.handler),
			Statistics: []Statistic{rate("timed out", n, float64(max(p.last-p.first, 1e9))/1e9)},
			Evidence:   p.places.evidence(), First: at(p.first), Last: at(p.last), told: p.places.nth(d.MinFailures),
			Effect: countOf(n, "probes", float64(n)/float64(d.MinFailures)),
		})
	}
	return findings, notes
}

func (d *Probe) staleness() []Finding {
	var owners []*staleReady
	for _, x := range d.stale {
		owners = append(owners, x)
	}
	slices.SortFunc(owners, func(a, b *staleReady) int { return a.owner.compare(b.owner) })
	var out []Finding
	for _, x := range owners {
		out = append(out, Finding{
			Severity: Warning, Certainty: Likely, Process: x.process, Manager: x.says.manager, Stack: x.says.stack, Objects: []Object{x.owner, x.workload}, Total: 2, Field: "status.conditions[*]",
			What:       fmt.Sprintf("%s said Ready for %s while nothing of %s was ready", x.owner, seconds(int64(x.seconds*1e9)), x.workload),
			Cause:      "readiness is set when the workload is made or once ready, and not taken back when it is down: it should be read from the workload's status on each of its events",
			Statistics: []Statistic{{Name: "said Ready for", Value: x.seconds, Unit: "s", Low: x.seconds, High: x.seconds, N: x.n, Method: "sum of times"}},
			Evidence:   x.places.evidence(), First: at(x.first), Last: at(x.last), told: x.first + d.MinStale, absent: noEvents(x.first, x.last),
			Effect: Effect{Value: x.seconds, Unit: "s", Weight: x.seconds * 1e9 / float64(d.MinStale)},
		})
	}
	return out
}

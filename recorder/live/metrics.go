package live

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/opreplay/opreplay/traces"
)

// Options say where to learn what no row tells. Each may be nil.
type Options struct {
	// Process is what the process of that number is called in the trace.
	Process func(pid int) string
	// Lost is how much is known to be lost so far, by its source.
	Lost func() map[string]int64
	// Loops are the loops of reads that are hot now.
	Loops func() []Loop
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Loop is one stack of a process that makes the same read over and over.
type Loop struct {
	Process string
	Rate    float64       // reads in the last second
	Persist time.Duration // for how long already
}

// Metrics are those of one recording. Its methods may be called by several goroutines.
type Metrics struct {
	o        Options
	registry *prometheus.Registry
	keys     *keys

	mu     sync.Mutex
	labels map[string]map[string]bool // values given so far, by label

	reconciles, writes, conflicts, requests *prometheus.CounterVec
	events, refused, forks, noSpace         *prometheus.CounterVec
	samples                                 *prometheus.CounterVec
	passes, calls                           *prometheus.HistogramVec
}

// maxValues bounds the values of a label; further ones are "other".
const (
	maxValues = 100
	other     = "other"
)

// buckets are of seconds: from a call that a cache answers to a pass that waits for its timeout.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// New has metrics of a recording that begins now.
func New(o Options) *Metrics {
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Metrics{o: o, registry: prometheus.NewRegistry(), keys: newKeys(o.Now), labels: map[string]map[string]bool{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	m.reconciles = counter("oprec_reconciles_total", "Reconciles that ended, by outcome: success, error, requeue; empty where the end was not seen.", "process", "controller", "outcome")
	m.passes = histogram("oprec_reconcile_duration_seconds", "How long reconciles took.", "process", "controller")
	m.requests = counter("oprec_requests_total", "API calls that ended, by HTTP status; 0 where there was no answer.", "process", "verb", "code")
	m.calls = histogram("oprec_request_duration_seconds", "How long API calls took, but for watches and other streams.", "process", "verb")
	m.writes = counter("oprec_writes_total", "API calls that would change an object.", "process", "verb", "resource")
	m.conflicts = counter("oprec_conflicts_total", "Writes that were refused with status 409.", "process", "verb", "resource")
	m.events = counter("oprec_watch_events_total", "Watch events recorded, by whom they were delivered to.", "process", "resource")
	m.refused = counter("oprec_refused_connections_total", "TCP connections that were refused.", "process", "address")
	m.forks = counter("oprec_forks_total", "Processes that were started.", "process")
	m.noSpace = counter("oprec_no_space_errors_total", "System calls that found no space left in a file system.", "process")
	m.samples = counter("oprec_stack_samples_total", "Samples of stacks: processor time, by how often a second it is sampled.", "process")
	m.registry.MustRegister(m.keys, &sources{o: o})
	return m
}

// bounded is a label's value, or "other" where it has too many.
func (m *Metrics) bounded(label, value string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.labels[label]
	if known == nil {
		known = map[string]bool{}
		m.labels[label] = known
	}
	switch {
	case known[value]:
	case len(known) >= maxValues:
		return other
	default:
		known[value] = true
	}
	return value
}

// Row counts a row of the trace.
func (m *Metrics) Row(r traces.Record) {
	switch r := r.(type) {
	case *traces.Reconcile:
		m.reconcile(r)
	case *traces.Request:
		m.request(r)
	case *traces.WatchEvent:
		m.events.WithLabelValues(m.bounded("process", r.Process), m.resource(&r.Identity)).Inc()
	case *traces.KernelEvent:
		m.befell(r)
	case *traces.Sample:
		m.samples.WithLabelValues(m.process(int(r.PID))).Add(float64(r.Weight))
	}
}

func (m *Metrics) process(pid int) string {
	if m.o.Process == nil {
		return ""
	}
	return m.bounded("process", m.o.Process(pid))
}

// resource is a resource as kubectl names it.
func (m *Metrics) resource(id *traces.Identity) string {
	name := id.Resource
	if id.Group != "" {
		name += "." + id.Group
	}
	return m.bounded("resource", name)
}

func (m *Metrics) reconcile(r *traces.Reconcile) {
	process, controller := m.bounded("process", r.Process), m.bounded("controller", r.Controller)
	m.reconciles.WithLabelValues(process, controller, r.Outcome).Inc()
	if r.Outcome != "" {
		m.passes.WithLabelValues(process, controller).Observe(seconds(r.TS - r.Start))
	}
	m.keys.count(key{process, controller, r.Namespace, r.Name})
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func (m *Metrics) request(r *traces.Request) {
	process, verb := m.bounded("process", r.Process), m.bounded("verb", r.Verb)
	m.requests.WithLabelValues(process, verb, m.bounded("code", code(r.Code))).Inc()
	switch r.Verb {
	case "watch", "connect":
	default:
		if r.Subresource != "log" && r.Code != 0 {
			m.calls.WithLabelValues(process, verb).Observe(seconds(r.TS - r.Start))
		}
	}
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		resource := m.resource(&r.Identity)
		m.writes.WithLabelValues(process, verb, resource).Inc()
		if r.Code == 409 {
			m.conflicts.WithLabelValues(process, verb, resource).Inc()
		}
	}
}

func (m *Metrics) befell(r *traces.KernelEvent) {
	process, n := m.process(int(r.PID)), float64(r.Count)
	switch r.Kind {
	case "refused":
		m.refused.WithLabelValues(process, m.bounded("address", address(r))).Add(n)
	case "fork":
		m.forks.WithLabelValues(process).Add(n)
	case "enospc":
		m.noSpace.WithLabelValues(process).Add(n)
	}
}

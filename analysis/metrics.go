package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/traces"
)

// Metrics finds scraped metrics whose names break Prometheus' conventions (prometheus.io/docs/practices/naming, as
// promtool check metrics applies them), and metrics of an operator that no ServiceMonitor selects, so that nobody ever
// sees them. Both are notes.
//
// Where the endpoint says a metric's type, that decides what its name must be like; else how its values move does.
type Metrics struct {
	// MinRises is how often a value must have risen, and never fallen, for a metric without the ending to be taken for
	// a counter, where no type is known.
	MinRises int64

	metrics map[string]*metric // by process and name
}

// NewMetrics is a Metrics with its thresholds set.
func NewMetrics() *Metrics { return &Metrics{MinRises: 10, metrics: map[string]*metric{}} }

// Name implements Detector.
func (*Metrics) Name() string { return "metrics" }

// maxMetrics bounds the metrics that are told apart, maxSeries the series of one whose values are compared.
const (
	maxMetrics = 1 << 13
	maxSeries  = 64
)

// metric is one metric of one process: all that an author named at once.
type metric struct {
	process, name, kind string // kind is its type, "" where none is known
	labels              []string
	values              map[string]float64 // the last, by labels; of what may be a counter
	rises, falls        int64
}

// familyOf is what the author named: a histogram's samples have endings of their own.
func familyOf(r *traces.Metric) string {
	if r.Type == "histogram" || r.Type == "summary" {
		for _, end := range [...]string{"_bucket", "_sum", "_count"} {
			if name, ok := strings.CutSuffix(r.Name, end); ok {
				return name
			}
		}
	}
	return r.Name
}

// Metric implements MetricDetector.
func (d *Metrics) Metric(_ *Model, r *traces.Metric) {
	name := familyOf(r)
	key := r.Process + "\x00" + name
	x := d.metrics[key]
	if x == nil {
		if len(d.metrics) >= maxMetrics {
			return
		}
		x = &metric{process: strings.Clone(r.Process), name: strings.Clone(name), kind: strings.Clone(r.Type), values: map[string]float64{}}
		d.metrics[x.process+"\x00"+x.name] = x
	}
	for _, l := range r.Labels {
		if !slices.Contains(x.labels, l.Name) && len(x.labels) < maxSeries {
			x.labels = append(x.labels, strings.Clone(l.Name))
		}
	}
	if x.kind == "" || x.kind == counter {
		x.moves(r)
	}
}

// moves counts how the values of a series go.
func (x *metric) moves(r *traces.Metric) {
	var series strings.Builder
	for _, l := range r.Labels {
		series.WriteString(l.Name + "=" + l.Value + ",")
	}
	last, known := x.values[series.String()]
	switch {
	case known && r.Value > last:
		x.rises++
	case known && r.Value < last:
		x.falls++
	}
	if known || len(x.values) < maxSeries {
		x.values[series.String()] = r.Value
	}
}

// Findings implements Detector: notes only, one for each process and rule.
func (d *Metrics) Findings(m *Model) ([]Finding, []Note) {
	broken := map[string][]string{}
	for _, key := range sortedKeys(d.metrics) {
		x := d.metrics[key]
		if library(x.name) {
			continue
		}
		for _, rule := range x.breaks(d) {
			broken[x.process+"\x00"+rule] = append(broken[x.process+"\x00"+rule], x.name)
		}
	}
	var notes []Note
	for _, key := range sortedKeys(broken) {
		process, rule, _ := strings.Cut(key, "\x00")
		notes = append(notes, Note{Process: process, Count: int64(len(broken[key])), What: fmt.Sprintf("metrics of %s whose %s: %s", process, rule, some(broken[key]))})
	}
	return nil, append(notes, unmonitored(m)...)
}

// library is whether a metric is of controller-runtime, client-go or Go, whose names are not the operator's to choose.
func library(name string) bool {
	for _, prefix := range [...]string{"go_", "process_", "promhttp_", "controller_runtime_", "workqueue_", "rest_client_", "certwatcher_", "leader_election_", "reflector_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// units are what names must not have, with the base unit to use in its place.
var units = map[string]string{
	"milliseconds": "seconds", "millis": "seconds", "ms": "seconds", "microseconds": "seconds", "us": "seconds", "nanoseconds": "seconds", "ns": "seconds",
	"minutes": "seconds", "hours": "seconds", "days": "seconds", "kilobytes": "bytes", "kb": "bytes", "megabytes": "bytes", "mb": "bytes", "gigabytes": "bytes",
	"gb": "bytes", "kibibytes": "bytes", "mebibytes": "bytes", "bits": "bytes", "percent": "ratio", "percentage": "ratio", "fahrenheit": "celsius",
}

// breaks are the rules that a metric breaks.
func (x *metric) breaks(d *Metrics) (rules []string) {
	if strings.Contains(x.name, ":") {
		rules = append(rules, "names have a colon, which is for recording rules")
	}
	if strings.ToLower(x.name) != x.name {
		rules = append(rules, "names are not in snake_case")
	}
	words := strings.Split(x.name, "_")
	for _, w := range words {
		if base := units[strings.ToLower(w)]; base != "" {
			rules = append(rules, fmt.Sprintf("unit is not a base unit (%s rather than %s)", base, w))
		}
	}
	for _, w := range [...]string{"gauge", "counter", "histogram", "summary"} {
		if slices.Contains(words, w) {
			rules = append(rules, "names have their type in them")
		}
	}
	rules = append(rules, x.breaksOfType(d, words[len(words)-1])...)
	for _, l := range x.labels {
		if strings.ToLower(l) != l || strings.HasPrefix(l, "__") {
			rules = append(rules, "labels are not in snake_case")
			break
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

const counter = "counter"

// breaksOfType are the rules about a metric's type that its name breaks, which ends in the word LAST.
func (x *metric) breaksOfType(d *Metrics, last string) (rules []string) {
	total := last == "total"
	switch {
	case x.kind == counter && !total:
		rules = append(rules, "type is counter, and whose names do not end in _total")
	case x.kind != "" && x.kind != counter && total:
		rules = append(rules, "names end in _total, as a counter's, and whose type is another")
	case x.kind == "" && !x.mayOnlyRise(last) && x.falls == 0 && x.rises >= d.MinRises:
		rules = append(rules, "values only rise, as a counter's, and whose names do not end in _total")
	case total && x.falls > 0 && x.rises > 0 && x.falls*4 > x.rises:
		rules = append(rules, "values fall though their names end in _total, as a counter's")
	}
	if x.kind != counter && x.kind != "gauge" {
		return rules
	}
	if last == "bucket" || last == "sum" || last == "count" {
		rules = append(rules, "names end in _bucket, _sum or _count, as a histogram's samples, and whose type is another")
	}
	if slices.Contains(x.labels, "le") || slices.Contains(x.labels, "quantile") {
		rules = append(rules, "labels are le or quantile, as a histogram's or a summary's, and whose type is another")
	}
	return rules
}

// mayOnlyRise is whether values of a name that ends so may rise all the time though it is no counter's.
func (x *metric) mayOnlyRise(last string) bool {
	return slices.Contains([]string{"total", "count", "sum", "bucket", "created", "info", "generation", "version"}, last) || strings.Contains(x.name, "timestamp")
}

// unmonitored are the Services with a port for metrics that no ServiceMonitor selects, where the cluster has them.
func unmonitored(m *Model) (notes []Note) {
	has := false
	for _, r := range m.Manifest.Resources {
		has = has || r.Group == monitoring && r.Resource == "servicemonitors"
	}
	var services, monitors []*State
	for s := range m.Objects {
		switch {
		case s.Group == "" && s.Resource == "services" && metricsPort(s.Body):
			services = append(services, s)
		case s.Group == monitoring && s.Resource == "servicemonitors":
			monitors, has = append(monitors, s), true
		}
	}
	if !has {
		return nil
	}
	slices.SortFunc(services, func(a, b *State) int { return a.compare(b.Object) })
	slices.SortFunc(monitors, func(a, b *State) int { return a.compare(b.Object) })
	for _, s := range services {
		if !slices.ContainsFunc(monitors, func(monitor *State) bool { return selects(monitor, s) }) {
			notes = append(notes, Note{Objects: []Object{s.Object}, Total: 1, Count: 1, What: fmt.Sprintf("no ServiceMonitor selects %s, which has a port for metrics: nobody scrapes them", s.Object)})
		}
	}
	for _, monitor := range monitors {
		if !slices.ContainsFunc(services, func(s *State) bool { return selects(monitor, s) }) {
			notes = append(notes, Note{Objects: []Object{monitor.Object}, Total: 1, Count: 1, What: fmt.Sprintf("%s selects no Service with a port for metrics", monitor.Object)})
		}
	}
	return notes
}

const monitoring = "monitoring.coreos.com"

// metricsPort is whether a Service has a port that is named for metrics.
func metricsPort(body string) bool {
	ports, _ := jsontext.Get(body, "spec", "ports")
	found := false
	jsontext.Elements(ports, func(p string) bool {
		name, _ := jsontext.Get(p, "name")
		found = strings.Contains(name, "metrics")
		return !found
	})
	if name, _ := jsontext.Get(body, "metadata", "name"); !found && strings.Contains(name, "metrics") {
		found = true
	}
	return found
}

// selects is whether a ServiceMonitor's labels and namespaces take in a Service. Expressions are taken for a match.
func selects(monitor, s *State) bool {
	in := monitor.Namespace == s.Namespace
	if all, _ := jsontext.Get(monitor.Body, "spec", "namespaceSelector", "any"); all == "true" {
		in = true
	}
	if spec, ok := jsontext.Get(monitor.Body, "spec", "namespaceSelector"); ok {
		in = in || slices.Contains(listed(spec, "matchNames"), s.Namespace)
	}
	labels, _ := jsontext.Get(monitor.Body, "spec", "selector", "matchLabels")
	jsontext.Members(labels, func(key, value string) bool {
		has, _ := jsontext.Get(s.Body, "metadata", "labels", key)
		in = in && has == value
		return in
	})
	return in
}

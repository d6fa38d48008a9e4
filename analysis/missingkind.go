package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/stats"
	"github.com/opreplay/opreplay/traces"
)

// MissingKind finds kinds that an operator uses and does not know: not registered in its scheme, which is a bug of
// the operator's and never heals, or not served by the cluster, because a CustomResourceDefinition is not installed
// or serves another version.
//
// Both are errors that the libraries word (k8s.io/apimachinery/pkg/runtime/error.go, pkg/api/meta/errors.go), so they
// are known by their text, wherever in a log line it stands.
type MissingKind struct {
	// MinLines is how many lines it takes for a kind that the cluster does not serve, up to the end: an operator that
	// starts beside its definitions meets one or two, and asks again every 10 s. One line is enough for a kind that is
	// missing in the scheme, for a scheme does not change once the manager has started.
	MinLines int64

	kinds map[string]*missing
}

// NewMissingKind is a MissingKind with its thresholds set.
func NewMissingKind() *MissingKind { return &MissingKind{MinLines: 3, kinds: map[string]*missing{}} }

// Name implements Detector.
func (*MissingKind) Name() string { return "missing-kind" }

// maxMissing bounds the kinds that are told apart.
const maxMissing = 256

// missing is one kind that one process does not know.
type missing struct {
	process, kind string
	scheme        bool // missing in the operator's scheme, else in the cluster
	n             int64
	first, last   int64
	period        reservoir
	places        places
	objects       map[string]said // the keys that fail for it; bounded
}

// Log implements LogDetector.
func (d *MissingKind) Log(_ *Model, l *traces.Log) {
	kind, scheme := missingKind(l.Message)
	if kind == "" && l.Fields != "" {
		kind, scheme = missingKind(l.Fields)
	}
	if kind == "" {
		return
	}
	x := d.of(l.Process, kind, scheme)
	if x == nil {
		return
	}
	if x.n++; x.n == 1 {
		x.first = l.TS
	} else {
		x.period.add(float64(l.TS-x.last) / 1e9)
	}
	x.last = l.TS
	x.places.add(l.Seq, l.TS, "error", 0, 0)
	if s := readLog(l); s.name != "" && s.controller != "" && len(x.objects) < 64 {
		x.objects[strings.Clone(s.key())] = said{
			controller: strings.Clone(s.controller), group: strings.Clone(s.group), kind: strings.Clone(s.kind),
			namespace: strings.Clone(s.namespace), name: strings.Clone(s.name),
		}
	}
}

func (d *MissingKind) of(process, kind string, scheme bool) *missing {
	key := process + "\x00" + kind
	x := d.kinds[key]
	if x == nil {
		if len(d.kinds) >= maxMissing {
			return nil
		}
		x = &missing{process: strings.Clone(process), kind: strings.Clone(kind), objects: map[string]said{}}
		d.kinds[key] = x
	}
	x.scheme = x.scheme || scheme
	return x
}

// missingKind reads the kind out of an error. scheme is whether it is the operator's scheme that lacks it.
func missingKind(text string) (kind string, scheme bool) {
	switch {
	case strings.Contains(text, "is registered for"): // no kind "Site" is registered for version "web.example.com/v1" in scheme …
		text = strings.ReplaceAll(text, `\"`, `"`)
		_, rest, ok := strings.Cut(text, `no kind "`)
		if !ok {
			if _, rest, ok = strings.Cut(text, "no kind is registered for the type "); !ok {
				return "", false
			}
			kind, _, _ = strings.Cut(rest, " ")
			return strings.TrimLeft(kind, "*"), true
		}
		kind, rest, _ = strings.Cut(rest, `"`)
		if _, version, ok := strings.Cut(rest, `version "`); ok {
			version, _, _ = strings.Cut(version, `"`)
			kind = version + " " + kind
		}
		return kind, true
	case strings.Contains(text, "no matches for kind "): // no matches for kind "Site" in version "web.example.com/v1"
		text = strings.ReplaceAll(text, `\"`, `"`)
		_, rest, _ := strings.Cut(text, `no matches for kind "`)
		kind, rest, ok := strings.Cut(rest, `"`)
		if !ok {
			return "", false
		}
		if _, version, ok := strings.Cut(rest, `version "`); ok {
			version, _, _ = strings.Cut(version, `"`)
			kind = version + " " + kind
		}
		return kind, false
	}
	return "", false
}

// Findings implements Detector: one for each process and kind.
func (d *MissingKind) Findings(m *Model) ([]Finding, []Note) {
	var findings []Finding
	var notes []Note
	for _, key := range sortedKeys(d.kinds) {
		x := d.kinds[key]
		switch {
		case x.scheme || x.n >= d.MinLines && x.lasts(m):
			findings = append(findings, d.finding(m, x))
		default:
			notes = append(notes, Note{Process: x.process, Count: x.n, What: fmt.Sprintf("%s met %s, which the cluster did not serve then, %s; it has come since", x.process, x.kind, times(x.n))})
		}
	}
	return findings, notes
}

// lasts is whether the errors go on to the end of the process: controller-runtime asks again every 10 s.
func (x *missing) lasts(m *Model) bool {
	period, _, _ := stats.Median(slices.Clone(x.period.sample))
	return float64(m.End(m.process(x.process))-x.last) <= max(10*period*1e9, 15e9)
}

func (d *MissingKind) finding(m *Model, x *missing) Finding {
	f := Finding{
		Severity: Error, Certainty: Sure, Process: x.process, First: at(x.first), Last: at(x.last), Evidence: x.places.evidence(), told: x.places.nth(d.MinLines),
		Statistics: []Statistic{rate("errors", x.n, float64(max(x.last-x.first, 1e9))/1e9)},
		Effect:     countOf(x.n, "errors", max(1, float64(x.n)/float64(d.MinLines))),
	}
	var list []scored
	for _, key := range sortedKeys(x.objects) {
		s := x.objects[key]
		if o, ok := s.object(m); ok {
			list = append(list, scored{o, 1})
		}
	}
	f.Objects, f.Total = worst(list)
	fails := cmp.Or(plural(f.Total, "object", "objects"), "")
	if f.Total == 0 {
		fails = "what needs it"
	}
	if x.scheme {
		f.What = fmt.Sprintf("%s uses the kind %s, which is not in its scheme: %s, and %s cannot be reconciled", x.process, x.kind, plural(x.n, "error", "errors"), fails)
		f.Cause = fmt.Sprintf("AddToScheme of the package that has %s is not called before the manager is made; no retry can help", x.kind)
		return f
	}
	f.What = fmt.Sprintf("%s uses the kind %s, which the cluster does not serve: %s up to the end, and %s cannot be reconciled", x.process, x.kind, plural(x.n, "error", "errors"), fails)
	f.Cause = "its CustomResourceDefinition is not installed, or does not serve that version"
	return f
}

package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/traces"
)

// Divergence compares what the operator wrote in the recording with what it wrote in the run.
//
// Writes are compared by what they are about: verb, resource, subresource, and the object's namespace and name
// (for a generated name its generateName). Of the writes about one such target those that say the same as an
// earlier one, but for times and versions, are repetitions: an operator that wakes itself makes as many as the
// time allows. They are counted and not compared. Leader election and Events are counted apart as well.
type Divergence struct {
	// Recorded and Run are the numbers of distinct writes.
	Recorded int `json:"recorded"`
	Run      int `json:"run"`
	// Again are recorded writes that the run made again, Equal those of them with equal content.
	Again int `json:"again"`
	Equal int `json:"equal"`
	// Missing are recorded writes that the run did not make, New those that it made beyond the recorded.
	Missing int `json:"missing"`
	New     int `json:"new"`
	// The repetitions, the writes of leader election, the Events and the refused writes on both sides, and those whose
	// writer was gone, or its connection, before an answer: they may have been made or not.
	Repeated Pair `json:"repeated"`
	Election Pair `json:"election"`
	Events   Pair `json:"events"`
	Refused  Pair `json:"refused"`

	Unanswered Pair `json:"unanswered"`
	// Targets has a row for each target, those that differ first.
	Targets []Target `json:"targets"`
}

// Pair is a count on both sides.
type Pair struct {
	Recorded int `json:"recorded"`
	Run      int `json:"run"`
}

// Target is what writes were about.
type Target struct {
	Verb        string `json:"verb"`
	Resource    string `json:"resource"` // with its group
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name"` // of a generated name the generateName and a *
	Recorded    int    `json:"recorded"`
	Run         int    `json:"run"`
	Again       int    `json:"again"`
	Equal       int    `json:"equal"`
	Repeated    Pair   `json:"repeated"`
	// Missing and New are the seqs, in the recording and in the run, of the writes that differ.
	Missing []int64 `json:"missing,omitempty"`
	New     []int64 `json:"new,omitempty"`
}

// String is the target as kubectl would name it.
func (t *Target) String() string {
	s := t.Verb + " " + t.Resource
	if t.Name != "" {
		s += "/" + t.Name
	}
	if t.Subresource != "" {
		s += "/" + t.Subresource
	}
	if t.Namespace != "" {
		s += " -n " + t.Namespace
	}
	return s
}

// differs says whether the run did not do exactly the same.
func (t *Target) differs() bool { return t.Equal != t.Recorded || t.Recorded != t.Run }

// Percent is how many of a hundred recorded writes were made again; 100 when there were none.
func (d *Divergence) Percent() float64 {
	if d.Recorded == 0 {
		return 100
	}
	return 100 * float64(d.Again) / float64(d.Recorded)
}

// Same says whether the run made all recorded writes again and no others.
func (d *Divergence) Same() bool { return d.Missing == 0 && d.New == 0 }

// write is one write as it is compared.
type write struct {
	seq    int64
	target Target // identity only
	// content is the body with all that differs from run to run masked.
	content string
}

// compare matches the recorded writes with the run's. MASK and RUNMASK know the objects of either side.
func compare(recorded, run []*traces.Request, mask, runMask *masker) *Divergence {
	d := &Divergence{}
	type sides struct{ recorded, run []write }
	byTarget := map[string]*sides{}
	var order []string
	sort := func(calls []*traces.Request, m *masker, pick func(*sides) *[]write, count func(*Pair) *int) {
		for _, r := range calls {
			kind := kindOf(r)
			switch {
			case kind != nil:
				*count(kind(d))++
				continue
			case r.Code == 0:
				*count(&d.Unanswered)++
				continue
			case !succeeded(r):
				*count(&d.Refused)++
				continue
			case dryRun(r):
				continue
			}
			w := write{seq: r.Seq, target: targetOf(r), content: m.body(r)}
			k := w.target.String()
			s := byTarget[k]
			if s == nil {
				s = &sides{}
				byTarget[k] = s
				order = append(order, k)
			}
			into := pick(s)
			*into = append(*into, w)
		}
	}
	sort(recorded, mask, func(s *sides) *[]write { return &s.recorded }, func(p *Pair) *int { return &p.Recorded })
	sort(run, runMask, func(s *sides) *[]write { return &s.run }, func(p *Pair) *int { return &p.Run })
	for _, k := range order {
		s := byTarget[k]
		d.add(matchTarget(s.recorded, s.run))
	}
	slices.SortStableFunc(d.Targets, func(a, b Target) int { return cmp.Compare(rank(&a), rank(&b)) })
	return d
}

// rank puts first what a person wants to see.
func rank(t *Target) int {
	switch {
	case len(t.Missing) > 0:
		return 0
	case len(t.New) > 0:
		return 1
	case t.differs():
		return 2
	}
	return 3
}

func (d *Divergence) add(t Target) {
	d.Recorded += t.Recorded
	d.Run += t.Run
	d.Again += t.Again
	d.Equal += t.Equal
	d.Missing += len(t.Missing)
	d.New += len(t.New)
	d.Repeated.Recorded += t.Repeated.Recorded
	d.Repeated.Run += t.Repeated.Run
	d.Targets = append(d.Targets, t)
}

// matchTarget matches the writes about one target: equal contents first, the rest in order.
func matchTarget(recorded, run []write) Target {
	var t Target
	if len(recorded) > 0 {
		t = recorded[0].target
	} else {
		t = run[0].target
	}
	recorded, t.Repeated.Recorded = distinct(recorded)
	run, t.Repeated.Run = distinct(run)
	t.Recorded, t.Run = len(recorded), len(run)
	inRun := map[string]bool{}
	for _, w := range run {
		inRun[w.content] = true
	}
	inRecording := map[string]bool{}
	var left []write
	for _, w := range recorded {
		inRecording[w.content] = true
		if inRun[w.content] {
			t.Equal++
		} else {
			left = append(left, w)
		}
	}
	var extra []write
	for _, w := range run {
		if !inRecording[w.content] {
			extra = append(extra, w)
		}
	}
	pairs := min(len(left), len(extra))
	t.Again = t.Equal + pairs
	for _, w := range left[pairs:] {
		t.Missing = append(t.Missing, w.seq)
	}
	for _, w := range extra[pairs:] {
		t.New = append(t.New, w.seq)
	}
	return t
}

// distinctWrites are the operator's recorded writes that are compared, in order.
func distinctWrites(s *Script) []write {
	m := newMasker(s.Refs, s.Writes)
	seen := map[string]bool{}
	var out []write
	for _, r := range s.Writes {
		if kindOf(r) != nil || !succeeded(r) || dryRun(r) {
			continue
		}
		w := write{seq: r.Seq, target: targetOf(r), content: m.body(r)}
		if k := w.target.String() + "\x00" + w.content; !seen[k] {
			seen[k] = true
			out = append(out, w)
		}
	}
	return out
}

// distinct drops the writes that say what an earlier one said.
func distinct(all []write) (kept []write, repeated int) {
	seen := map[string]bool{}
	for _, w := range all {
		if seen[w.content] {
			repeated++
			continue
		}
		seen[w.content] = true
		kept = append(kept, w)
	}
	return kept, repeated
}

func targetOf(r *traces.Request) Target {
	t := Target{Verb: r.Verb, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name}
	if r.Group != "" {
		t.Resource += "." + r.Group
	}
	if base := generateName(r); base != "" {
		t.Name = base + "*"
	}
	return t
}

// generateName is the base of the name that the server made for a created object; "" when the client named it.
func generateName(r *traces.Request) string {
	if r.Verb != "create" || r.Subresource != "" {
		return ""
	}
	var o struct {
		Metadata struct {
			Name         string `json:"name"`
			GenerateName string `json:"generateName"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(r.RequestBody), &o) != nil || o.Metadata.Name != "" {
		return ""
	}
	return o.Metadata.GenerateName
}

// kindOf is where a write is counted when it is not compared; nil when it is.
func kindOf(r *traces.Request) func(*Divergence) *Pair {
	switch {
	case r.Resource == "events" && (r.Group == "" || r.Group == "events.k8s.io"):
		return func(d *Divergence) *Pair { return &d.Events }
	case r.Resource == "leases" && r.Group == "coordination.k8s.io",
		// Locks of the years before Leases (client-go's resourcelock).
		(r.Resource == "configmaps" || r.Resource == "endpoints") && strings.Contains(r.RequestBody, "control-plane.alpha.kubernetes.io/leader"):
		return func(d *Divergence) *Pair { return &d.Election }
	}
	return nil
}

// StepOutcome is what became of an outsider's recorded change in the run.
type StepOutcome struct {
	Step    string       `json:"step"`
	Seq     int64        `json:"seq"` // of the recorded row
	Result  actor.Result `json:"result"`
	Detail  string       `json:"detail,omitempty"`
	RunTime string       `json:"at"` // since the operator's first call
}

// String says it in a line.
func (o StepOutcome) String() string {
	return fmt.Sprintf("%s (recorded as seq %d): %s: %s", o.Step, o.Seq, o.Result, o.Detail)
}

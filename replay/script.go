package replay

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/opreplay/opreplay/sim/actor"
	"github.com/opreplay/opreplay/traces"
)

// Recorded is an object in a state in which the trace has it.
type Recorded struct {
	actor.Ref
	JSON            string
	ResourceVersion int64
}

// Script is a recording with the operator taken out: the cluster that it came to, and what the others did to it.
type Script struct {
	// Start is the time of the operator's first call, from which everything is measured.
	Start time.Time
	// Span is from there to the last row.
	Span time.Duration
	// Initial is the cluster at Start, CRDs first.
	Initial []Recorded
	// Steps are what others did since, in order.
	Steps []actor.Step
	// Refs are all recorded objects by uid.
	Refs map[string]actor.Ref
	// Writes are the operator's recorded writes, in order.
	Writes []*traces.Request
}

// makeScript turns a history into a script.
func makeScript(h *history) *Script {
	s := &Script{Refs: map[string]actor.Ref{}, Writes: h.calls}
	since, start := int64(0), h.start
	if h.first != nil {
		since, start = h.first.StartSeq, h.first.Start
	}
	s.Start = time.Unix(0, start).UTC()
	s.Span = time.Duration(max(h.end-start, 0))
	m := &maker{Script: s, operator: h.manages, since: since, start: start, touched: map[actor.Ref]bool{}, ends: map[string]int64{}}
	for _, r := range h.calls {
		if r.Resource == "leases" {
			m.touched[actor.Ref{Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name}] = true
		}
	}
	for _, o := range h.objects {
		s.Refs[o.uid] = o.ref
		if o.gone != nil {
			m.ends[o.uid] = o.gone.seq
		}
	}
	for _, o := range h.objects {
		if len(o.versions) > 0 && !m.heartbeat(o.ref) {
			m.object(o)
		}
	}
	slices.SortStableFunc(s.Initial, func(a, b Recorded) int {
		return cmp.Or(cmp.Compare(loadRank(a.Ref), loadRank(b.Ref)), cmp.Compare(a.ResourceVersion, b.ResourceVersion))
	})
	slices.SortStableFunc(s.Steps, func(a, b actor.Step) int { return cmp.Compare(a.Seq, b.Seq) })
	return s
}

// loadRank has definitions come before what they define, and namespaces before what lies in them.
func loadRank(r actor.Ref) int {
	switch r.Resource {
	case "customresourcedefinitions":
		return 0
	case "namespaces":
		return 1
	}
	return 2
}

type maker struct {
	*Script
	operator     func(manager string) bool // whose fields are not an outsider's
	since, start int64                     // what was known, and the time, when the operator came
	touched      map[actor.Ref]bool
	ends         map[string]int64 // seq of an object's end, by uid
}

// heartbeat: leases that others renew every few seconds and the operator has no part in.
func (m *maker) heartbeat(r actor.Ref) bool {
	return r.Group == "coordination.k8s.io" && r.Resource == "leases" && !m.touched[r]
}

// serverMade: what the API server of a run makes and deletes itself, with the Service whose address it stands for.
func serverMade(o *object) bool {
	if o.ref.Group != networkingv1.GroupName || o.ref.Resource != "ipaddresses" {
		return false
	}
	var t struct{ Metadata metav1.ObjectMeta }
	return json.Unmarshal([]byte(o.versions[0].json), &t) == nil && t.Metadata.Labels[networkingv1.LabelManagedBy] == ipAllocator
}

// ipAllocator manages such objects (k8s.io/kubernetes/pkg/registry/core/service/ipallocator, ControllerName).
const ipAllocator = "ipallocator.k8s.io"

func (m *maker) object(o *object) {
	// What was there when the operator came.
	i := 0
	for i < len(o.versions) && m.initial(o, i) {
		i++
	}
	if o.gone != nil && o.gone.seq <= m.since {
		return
	}
	var before *version
	if i > 0 {
		before = o.versions[i-1]
		m.Initial = append(m.Initial, Recorded{o.ref, before.json, before.rv})
	}
	if serverMade(o) {
		return
	}
	for _, v := range o.versions[i:] {
		if !v.operator {
			m.step(o, before, v)
		}
		before = v
	}
	if o.gone != nil && !o.gone.operator {
		m.end(o, before)
	}
}

// initial says whether version i was there before the operator came: it was known by then, or it is the
// first that is known of an older object and came with a list.
func (m *maker) initial(o *object, i int) bool {
	v := o.versions[i]
	if v.seq <= m.since {
		return true
	}
	if i > 0 || !v.listed || v.operator || o.created {
		return false
	}
	var t struct {
		Metadata struct {
			CreationTimestamp time.Time `json:"creationTimestamp"`
		} `json:"metadata"`
	}
	// Creation times have a grain of one second.
	return json.Unmarshal([]byte(v.json), &t) != nil || t.Metadata.CreationTimestamp.UnixNano() < m.start
}

func (m *maker) at(v *version) time.Duration { return time.Duration(max(v.ts-m.start, 0)) }

func (m *maker) base(o *object, v *version) actor.Step {
	return actor.Step{
		Ref: o.ref, Seq: v.seq, At: m.at(v), After: v.json, UID: o.uid, ResourceVersion: v.rv, Time: time.Unix(0, v.ts).UTC(),
	}
}

// step adds what led from one version to the next.
func (m *maker) step(o *object, before, v *version) {
	s := m.base(o, v)
	if before == nil {
		s.Kind, s.Manager = actor.Create, writerBut("", v.json, m.operator)
		s.Time = creationTime(v)
		m.Steps = append(m.Steps, s)
		return
	}
	s.Before, s.Manager = before.json, writerBut(before.json, v.json, m.operator)
	deleted := terminating(v) && !terminating(before)
	if differs(before.json, v.json, deleted) {
		s.Kind = actor.Change
		m.Steps = append(m.Steps, s)
	}
	if deleted {
		s.Kind = actor.Delete
		m.Steps = append(m.Steps, s)
	}
}

func creationTime(v *version) time.Time {
	var t struct {
		Metadata struct {
			CreationTimestamp time.Time `json:"creationTimestamp"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(v.json), &t) != nil {
		return time.Time{}
	}
	return t.Metadata.CreationTimestamp
}

// end adds what made an object go.
func (m *maker) end(o *object, before *version) {
	if before == nil {
		return
	}
	s := m.base(o, o.gone)
	s.Before, s.After, s.ResourceVersion = before.json, "", o.gone.rv
	if without, had := withoutFinalizers(before.json); had && terminating(before) {
		// Whoever took the last finalizer away ended it.
		s.Kind, s.After = actor.Change, without
		m.Steps = append(m.Steps, s)
		return
	}
	s.Kind = actor.Delete
	s.Collected = !terminating(before) && m.orphaned(before.json, o.gone.seq)
	m.Steps = append(m.Steps, s)
}

// orphaned says whether all owners that the trace knows of were gone: then it was the garbage collector.
func (m *maker) orphaned(text string, by int64) bool {
	var o struct {
		Metadata struct {
			OwnerReferences []struct {
				UID string `json:"uid"`
			} `json:"ownerReferences"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(text), &o) != nil || len(o.Metadata.OwnerReferences) == 0 {
		return false
	}
	for _, r := range o.Metadata.OwnerReferences {
		if end, gone := m.ends[r.UID]; !gone || end > by {
			return false
		}
	}
	return true
}

// differs compares what a client can change. When the change is a deletion, what deleting adds is left out.
func differs(before, after string, deletion bool) bool {
	a, b := changeable(before, deletion), changeable(after, deletion)
	return a == nil || b == nil || !reflect.DeepEqual(a, b)
}

func changeable(text string, deletion bool) map[string]any {
	var o map[string]any
	if json.Unmarshal([]byte(text), &o) != nil {
		return nil
	}
	m, _ := o["metadata"].(map[string]any)
	for _, k := range []string{"resourceVersion", "generation", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		delete(m, k)
	}
	if l, ok := m["finalizers"].([]any); ok && deletion {
		l = slices.DeleteFunc(l, func(f any) bool { return f == "foregroundDeletion" || f == "orphan" })
		if m["finalizers"] = l; len(l) == 0 {
			delete(m, "finalizers")
		}
	}
	return o
}

// withoutFinalizers is the object without its finalizers, and whether it had any.
func withoutFinalizers(text string) (without string, had bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var o map[string]any
	if d.Decode(&o) != nil {
		return text, false
	}
	m, _ := o["metadata"].(map[string]any)
	if l, _ := m["finalizers"].([]any); len(l) == 0 {
		return text, false
	}
	delete(m, "finalizers")
	out, err := json.Marshal(o)
	if err != nil {
		return text, false
	}
	return string(out), true
}

package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
)

// WebhookBypass finds objects that were created past a mutating webhook which others of their kind went through: the
// webhook adds fields to what one writer creates, and one that this writer created in the same shape has none of
// them. With failurePolicy Ignore that is what the API server does while the webhook doesn't answer, and nobody is told.
//
// Fields that the API server itself defaults are added to all alike, and so are never missing from one.
type WebhookBypass struct {
	// MinThrough is how many created objects of one shape must have what the webhook adds.
	MinThrough int64
	// MaxShare is up to what share of them may lack it: where every second one does, the webhook adds it to some by
	// their content.
	MaxShare float64

	hooks  map[Key][]mutatingHook // by configuration
	shapes map[string]*shape
	differ jsontext.Differ
}

// NewWebhookBypass is a WebhookBypass with its thresholds set.
func NewWebhookBypass() *WebhookBypass {
	return &WebhookBypass{MinThrough: 3, MaxShare: 0.34, hooks: map[Key][]mutatingHook{}, shapes: map[string]*shape{}}
}

// Name implements Detector.
func (*WebhookBypass) Name() string { return "webhook-bypass" }

// Bounds of what is remembered.
const (
	maxShapes = 512
	maxSets   = 8  // sets of added fields of one shape
	maxAdded  = 16 // added fields of one object
)

// mutatingHook is one webhook that sees creates.
type mutatingHook struct {
	configuration Object
	name          string
	ignore        bool // failurePolicy
	rules         []hookRule
}

type hookRule struct{ groups, resources []string }

// shape is what one writer creates of one resource with the same fields.
type shape struct {
	process         *Process
	manager         string
	group, resource string
	sets            []*addedSet
}

// addedSet are the objects to which the same fields were added.
type addedSet struct {
	fields      []string
	n           int64
	example     *Call
	object      Object
	objects     map[Object]float64
	first, last int64
	places      places
}

// Change implements ChangeDetector.
func (d *WebhookBypass) Change(_ *Model, c *Change) {
	s := c.State
	if s.Group == "admissionregistration.k8s.io" && s.Resource == "mutatingwebhookconfigurations" {
		if c.Deleted || c.After == "" {
			return // what it did before counts still
		}
		if c.Created || c.Touches("webhooks") {
			d.hooks[s.Key()] = mutatingHooks(s.Object, c.After)
		}
		return
	}
	call := c.Author.Call
	if len(d.hooks) == 0 || call == nil || call.Verb != "create" || call.Body == "" || c.After == "" || s.Heartbeat || d.hook(s) == nil {
		return
	}
	fields := d.added(call.Body, c.After)
	key := strings.Join([]string{call.UserAgent, call.Manager, s.Group, s.Resource, fieldsOfBody(call.Body)}, "\x00")
	x := d.shapes[key]
	if x == nil {
		if len(d.shapes) >= maxShapes {
			return
		}
		x = &shape{process: call.Process, manager: call.Manager, group: s.Group, resource: s.Resource}
		d.shapes[key] = x
	}
	x.add(call, s.Object, fields)
}

// mutatingHooks reads the webhooks of a configuration that see creates.
func mutatingHooks(o Object, body string) []mutatingHook {
	var out []mutatingHook
	list, _ := jsontext.Get(body, "webhooks")
	jsontext.Elements(list, func(hook string) bool {
		name, _ := jsontext.Get(hook, "name")
		policy, _ := jsontext.Get(hook, "failurePolicy")
		h := mutatingHook{configuration: o, name: strings.Clone(jsontext.Text(name)), ignore: jsontext.Text(policy) == "Ignore"}
		rules, _ := jsontext.Get(hook, "rules")
		jsontext.Elements(rules, func(rule string) bool {
			read := func(field string) []string {
				v, _ := jsontext.Get(rule, field)
				return texts(v)
			}
			if operations := read("operations"); slices.Contains(operations, "CREATE") || slices.Contains(operations, "*") {
				h.rules = append(h.rules, hookRule{read("apiGroups"), read("resources")})
			}
			return true
		})
		if len(h.rules) > 0 {
			out = append(out, h)
		}
		return len(out) < 64
	})
	return out
}

// hook is a webhook that sees creates of such objects; one that may be passed over before one that may not.
func (d *WebhookBypass) hook(s *State) *mutatingHook {
	var found *mutatingHook
	keys := make([]Key, 0, len(d.hooks))
	for k := range d.hooks {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(a.Name, b.Name) })
	for _, k := range keys {
		for i := range d.hooks[k] {
			h := &d.hooks[k][i]
			for _, r := range h.rules {
				matches := holds(r.groups, s.Group) && (holds(r.resources, s.Resource) || slices.Contains(r.resources, "*/*"))
				if matches && (found == nil || h.ignore && !found.ignore) {
					found = h
				}
			}
		}
	}
	return found
}

func holds(list []string, one string) bool {
	return slices.Contains(list, one) || slices.Contains(list, "*")
}

// added are the fields of the stored object that the request did not have, sorted.
func (d *WebhookBypass) added(sent, stored string) []string {
	var out []string
	for _, l := range d.differ.Objects(sent, stored) {
		switch {
		case l.Before != "" || len(out) >= maxAdded:
		case beneath(l.Path, "metadata.labels"), beneath(l.Path, "metadata.annotations"), beneath(l.Path, "metadata.finalizers"):
			out = append(out, strings.Clone(l.Pattern))
		case strings.HasPrefix(l.Path, "metadata."), strings.HasPrefix(l.Path, "status"), l.Path == "apiVersion", l.Path == "kind":
		default:
			out = append(out, strings.Clone(l.Pattern))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fieldsOfBody names the fields of a request, two deep: objects with the same are of one shape.
func fieldsOfBody(body string) string {
	var names []string
	jsontext.Members(body, func(key, value string) bool {
		if key == "metadata" {
			return true
		}
		names = append(names, key)
		jsontext.Members(value, func(inner, _ string) bool {
			names = append(names, key+"."+inner)
			return len(names) < 64
		})
		return true
	})
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (x *shape) add(c *Call, o Object, fields []string) {
	i := slices.IndexFunc(x.sets, func(s *addedSet) bool { return slices.Equal(s.fields, fields) })
	if i < 0 {
		if len(x.sets) >= maxSets {
			return
		}
		x.sets = append(x.sets, &addedSet{fields: fields, example: c, object: o, first: c.TS, objects: map[Object]float64{}})
		i = len(x.sets) - 1
	}
	s := x.sets[i]
	s.n++
	s.last = c.TS
	if len(s.objects) < 1024 {
		s.objects[o]++
	}
	s.places.add(c.Seq, c.TS, "created as version %d", c.RV, 0)
}

// Findings implements Detector: one for each writer and shape.
func (d *WebhookBypass) Findings(m *Model) ([]Finding, []Note) {
	var out []Finding
	for _, key := range sortedKeys(d.shapes) {
		x := d.shapes[key]
		usual := slices.MaxFunc(x.sets, func(a, b *addedSet) int { return cmp.Compare(a.n, b.n) })
		if usual.n < d.MinThrough {
			continue
		}
		for _, s := range x.sets {
			if missing := lacking(s.fields, usual.fields); s != usual && len(missing) > 0 && float64(s.n) <= d.MaxShare*float64(usual.n) {
				out = append(out, d.finding(x, s, usual, missing))
			}
		}
	}
	return out, nil
}

// lacking is what some have and others, which have nothing besides, have not.
func lacking(some, all []string) []string {
	for _, f := range some {
		if !slices.Contains(all, f) {
			return nil
		}
	}
	var out []string
	for _, f := range all {
		if !slices.Contains(some, f) {
			out = append(out, f)
		}
	}
	return out
}

func (d *WebhookBypass) finding(x *shape, s, usual *addedSet, missing []string) Finding {
	c := s.example
	f := Finding{
		Severity: Error, Certainty: Likely, Manager: x.manager, Stack: c.Stack, Row: c.Seq, Field: missing[0],
		First: at(s.first), Last: at(s.last), Evidence: s.places.evidence(), told: max(s.places.nth(1), usual.places.nth(d.MinThrough)),
		Statistics: []Statistic{proportion("created without it", s.n, s.n+usual.n)},
		Effect:     countOf(s.n, "objects past the webhook", float64(s.n)),
	}
	if x.process != nil {
		f.Process = x.process.Name
	}
	f.Objects, f.Total = worstOf(s.objects)
	f.Objects = foremost(f.Objects, s.object)
	f.What = fmt.Sprintf("%s was created without %s%s, which %s that %s created in the same way %s",
		s.object, join(missing[:min(3, len(missing))], "and"), others(f.Total), plural(usual.n, "other", "others"), cmp.Or(x.manager, "the writer"), haveOrHas(usual.n))
	h := d.hook(&State{Object: s.object})
	if h == nil {
		f.Cause = "no webhook that sees such creates is there any more"
		return f
	}
	f.Cause = fmt.Sprintf("webhook %s of %s did not see it", h.name, h.configuration.Name)
	if h.ignore {
		f.Cause += ", for its failurePolicy is Ignore: while it doesn't answer, the API server stores objects as they come, and tells nobody"
	} else {
		f.Cause += ": it was not registered then, or its selectors leave the object out"
	}
	if wait := c.TS - c.Start; wait >= 1e9 {
		f.Cause += fmt.Sprintf("; the create took %s, as long as one waits for a webhook", seconds(wait))
	}
	return f
}

func haveOrHas(n int64) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

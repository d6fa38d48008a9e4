package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/analysis/internal/jsontext"
	"github.com/opreplay/opreplay/traces"
)

// refusalKey is a call that may be refused over and over.
type refusalKey struct {
	process          *Process
	verb, sub        string
	group, resource  string
	namespace, named string
}

// rejection is a row of refusals of one call for one reason.
type rejection struct {
	key         refusalKey
	object      Object
	code        int32
	reason      string
	message     string
	field       string
	n           int64
	first, last int64
	gap         int64 // between the last two
	stack       int64
	manager     string
	places      places
}

// final is whether a refusal is the same for as long as what is asked is the same: conflicts, what is not found when
// it is read, throttling and the server's own troubles may pass.
func final(verb string, code int32, reason string) bool {
	switch {
	case code == 409:
		return reason == "AlreadyExists"
	case code == 404:
		return verb != "get" && verb != "delete"
	case code == 408, code == 429:
		return false
	}
	return code >= 400 && code < 500
}

// refused follows a call that was refused, or ends its row when it was not.
func (d *RetryStorm) refused(c *Call) {
	if c.Row == nil {
		return
	}
	k := refusalKey{c.Process, c.Verb, c.Subresource, c.Row.Group, c.Row.Resource, c.Row.Namespace, c.Row.Name}
	if c.OK() {
		delete(d.refusals, k)
		return
	}
	d.refuse(k, c.Row, c.State)
}

// Request implements RequestDetector: lists and watches that are refused.
func (d *RetryStorm) Request(_ *Model, p *Process, r *traces.Request) {
	if p == nil || r.Resource == "" || r.Verb != "list" && r.Verb != "watch" {
		return
	}
	k := refusalKey{process: p, verb: "list", group: r.Group, resource: r.Resource, namespace: r.Namespace}
	if r.Code >= 200 && r.Code < 300 {
		delete(d.refusals, k)
		return
	}
	d.refuse(k, r, nil)
}

func (d *RetryStorm) refuse(k refusalKey, r *traces.Request, s *State) {
	if !final(k.verb, r.Code, r.Reason) {
		return
	}
	x := d.refusals[k]
	if x != nil && (x.code != r.Code || x.reason != r.Reason) {
		delete(d.refusals, k)
		x = nil
	}
	if x == nil {
		if len(d.refusals) >= maxRetryKeys {
			return
		}
		k.verb, k.sub, k.group, k.resource = strings.Clone(k.verb), strings.Clone(k.sub), strings.Clone(k.group), strings.Clone(k.resource)
		k.namespace, k.named = strings.Clone(k.namespace), strings.Clone(k.named)
		x = &rejection{key: k, code: r.Code, reason: strings.Clone(r.Reason), first: r.TS}
		x.object = Object{Group: k.group, Version: strings.Clone(r.Version), Resource: k.resource, Namespace: k.namespace, Name: k.named}
		if s != nil {
			x.object = s.Object
		}
		d.refusals[k] = x
	} else {
		x.gap = r.TS - x.last
	}
	x.n++
	x.last, x.stack, x.manager = r.TS, cmp.Or(r.StackID, x.stack), strings.Clone(r.FieldManager)
	if x.n == 1 {
		message, _ := jsontext.Get(r.ResponseBody, "message")
		x.message = strings.Clone(plain(message))
		if causes, ok := jsontext.Get(r.ResponseBody, "details", "causes"); ok {
			jsontext.Elements(causes, func(c string) bool {
				f, _ := jsontext.Get(c, "field")
				x.field = strings.Clone(jsontext.Text(f))
				return false
			})
		}
	}
	x.places.add(r.Seq, r.TS, "refused with %d", int64(r.Code), 0)
}

// lasts is whether the refusals go on to the end: with a backoff that doubles, the next would come after twice the
// last interval.
func (x *rejection) lasts(m *Model) bool { return m.End(x.key.process)-x.last <= max(3*x.gap, 15e9) }

// refusing makes one finding for each process, verb, resource, code and reason.
func (d *RetryStorm) refusing(m *Model) (findings []Finding, notes []Note) {
	groups := map[string][]*rejection{}
	for _, x := range d.refusals {
		if x.n < d.MinRefusals || x.last-x.first < d.Sustained || !x.lasts(m) {
			continue
		}
		key := strings.Join([]string{x.key.process.Name, x.key.verb, x.key.sub, x.key.group, x.key.resource, fmt.Sprint(x.code), x.reason}, "\x00")
		groups[key] = append(groups[key], x)
	}
	for _, key := range sortedKeys(groups) {
		group := groups[key]
		slices.SortFunc(group, func(a, b *rejection) int { return cmp.Or(cmp.Compare(b.n, a.n), a.object.compare(b.object)) })
		if x := group[0]; x.code == 409 {
			objects, total, n := refusedObjects(group)
			notes = append(notes, Note{
				Process: x.key.process.Name, Objects: objects, Total: total, Count: n,
				What: fmt.Sprintf("%s creates %s again on each pass though it is there: %d calls refused (AlreadyExists)", x.key.process.Name, x.object, n),
			})
			continue
		}
		findings = append(findings, d.rejected(group))
	}
	return findings, notes
}

func refusedObjects(group []*rejection) (objects []Object, total, n int64) {
	var list []scored
	for _, x := range group {
		n += x.n
		if x.object.Name != "" { // a list has no object
			list = append(list, scored{x.object, float64(x.n)})
		}
	}
	objects, total = worst(list)
	return objects, total, n
}

func (d *RetryStorm) rejected(group []*rejection) Finding {
	x := group[0]
	grown := x.places.backoff()
	f := Finding{
		Severity: Error, Certainty: Sure, Process: x.key.process.Name, Manager: x.manager, Field: x.field, Stack: x.stack,
		First: at(x.first), Last: at(x.last), Evidence: x.places.evidence(), told: max(x.places.nth(d.MinRefusals), x.first+d.Sustained),
		Statistics: []Statistic{
			rate("refusals", x.n-1, float64(x.last-x.first)/1e9),
			growth(grown),
		},
	}
	f.Evidence.Backoff = grown
	var n int64
	f.Objects, f.Total, n = refusedObjects(group)
	f.Effect = countOf(n, "refused calls", float64(n)/float64(d.MinRefusals))
	what := x.key.verb
	if x.key.sub != "" {
		what += " of " + x.key.sub
	}
	target := x.object.String()
	if x.object.Name == "" {
		target = resourceName(x.object.Group, x.object.Resource)
	}
	f.What = fmt.Sprintf("%s is refused its %s of %s %s in a row, up to the end, for the same reason: %d %s", x.key.process.Name, what, target, times(x.n), x.code, x.reason)
	if f.Total > 1 {
		f.What += fmt.Sprintf("; and likewise %s", plural(f.Total-1, "other object", "other objects"))
	}
	switch x.code {
	case 401, 403:
		f.Cause = "its account may not do that, and no retry changes it"
	case 404:
		f.Cause = "what it writes to is not there, or the cluster does not serve the resource"
	case 422, 400:
		f.Cause = "the API server does not admit what it sends, which is the same each time"
	default:
		f.Cause = "the call is the same each time, and so is its answer"
	}
	if x.message != "" {
		f.Cause += ": " + brief(x.message)
	}
	return f
}

package fault

import (
	"fmt"
)

// Quota has creates refused since a quota is used up (403, "exceeded quota").
//
// On a real cluster: a ResourceQuota of the namespace, which counts pods, claims, services, or any resource by
// count/RESOURCE.GROUP. Updates pass, and so do creates in other namespaces.
type Quota struct {
	// Request selects the creates.
	Request Selector
	// Client is the process whose creates are refused; "" is any process.
	Client string
	// Name is the ResourceQuota's in the message; "" is "quota".
	Name string
	Span
}

// Kind implements Fault.
func (q *Quota) Kind() string { return "quota" }

// String implements Fault.
func (q *Quota) String() string {
	l := line{kind: q.Kind()}
	l.text("request", q.Request.String())
	l.text("client", q.Client)
	l.text("name", q.Name)
	q.print(&l)
	return l.String()
}

func parseQuota(f *fields) (Fault, error) {
	q := &Quota{}
	for _, err := range []error{
		f.selector("request", ParseCall, &q.Request),
		f.word("client", &q.Client),
		f.word("name", &q.Name),
		f.span(&q.Span),
	} {
		if err != nil {
			return nil, err
		}
	}
	if q.Request.Verb != "CREATE" {
		return nil, f.errorAt(f.take("request"), "quota needs request: \"CREATE RESOURCE\", which calls are refused; a quota counts what is created")
	}
	return q, nil
}

type quotaRule struct {
	spanRule
	*Quota
	count counter
}

func (q *Quota) rule(b base) rule {
	return &quotaRule{newSpanRule(b, q.Span), q, counter{sel: q.Request}}
}

func (r *quotaRule) arrive(c Call, v *Verdict) {
	// Objects outside of namespaces have no quota.
	hit := c.Namespace != "" && matchClient(r.Client, c.Client, r.m.operator) && r.count.call(c)
	if !r.arrived(c, v.Ticket) || !hit || v.Refusal != nil {
		return
	}
	name, what := r.Name, "count/"+c.groupResource().String()
	if name == "" {
		name = "quota"
	}
	if c.Group == "" && c.Resource == "pods" {
		what = c.Resource
	}
	// The words of k8s.io/apiserver/pkg/admission/plugin/resourcequota; that the quota is 10 is as good as any number.
	v.Refusal = forbidden(c, fmt.Sprintf("exceeded quota: %s, requested: %s=1, used: %s=10, limited: %s=10", name, what, what, what))
	r.strike(&v.Rules)
}

func (r *quotaRule) report() []Unmatched { return r.unmatched("request", r.Request.String()) }

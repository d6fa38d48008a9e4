package fault

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Webhook has calls answered as the API server does when a webhook that it asks about them does not do its part. None
// has to be there: on a real cluster others may have registered one.
//
// On a real cluster:
//   - refused nobody listens at the webhook's address, as while its pod is restarted: 500 at once (failurePolicy
//     Fail, the default). With Ignore the call would have gone on.
//   - timeout it does not answer within its timeoutSeconds: 500 after that.
//   - denied it says no: 403.
//
// An admission webhook is asked about writes. A conversion webhook is asked when an object is read or written in
// another version than the one that is stored, so that reads fail too; it cannot say no, but fail.
type Webhook struct {
	Request Selector
	// Client is the process whose calls meet it; "" is any process.
	Client string
	// Fails is how: refused, timeout or denied.
	Fails string
	// Conversion makes it a conversion webhook.
	Conversion bool
	// Name is the webhook's in the message; "" is "webhook.example.com".
	Name string
	// After is its time limit: 0 is 10 seconds, the default of an admission webhook, and 30 for a conversion.
	After time.Duration
	Span
}

// Kind implements Fault.
func (w *Webhook) Kind() string { return "webhook" }

// String implements Fault.
func (w *Webhook) String() string {
	l := line{kind: w.Kind()}
	l.text("request", w.Request.String())
	l.text("client", w.Client)
	l.text("fails", w.Fails)
	if w.Conversion {
		l.raw("conversion", "true")
	}
	l.text("name", w.Name)
	if w.After > 0 {
		l.raw("after", w.After.String())
	}
	w.print(&l)
	return l.String()
}

var webhookFails = []string{"refused", "timeout", "denied"}

func parseWebhook(f *fields) (Fault, error) {
	w := &Webhook{}
	for _, err := range []error{
		f.selector("request", ParseCall, &w.Request),
		f.word("client", &w.Client),
		f.word("fails", &w.Fails),
		f.boolean("conversion", &w.Conversion),
		f.word("name", &w.Name),
		f.duration("after", f.take("after"), &w.After),
		f.span(&w.Span),
	} {
		if err != nil {
			return nil, err
		}
	}
	switch {
	case w.Request == (Selector{}):
		return nil, f.errorAt(nil, "webhook needs request, the calls that it is asked about")
	case !slices.Contains(webhookFails, w.Fails):
		return nil, f.errorAt(f.take("fails"), "fails of webhook is %q; want one of %v", w.Fails, webhookFails)
	case w.Conversion && w.Fails == "denied":
		return nil, f.errorAt(f.take("fails"), "a conversion webhook cannot deny a call; it fails by refused or timeout")
	case !w.Conversion && slices.Contains([]string{"GET", "LIST", "WATCH"}, w.Request.Verb):
		return nil, f.errorAt(f.take("request"), "no admission webhook is asked about a %s; a conversion webhook is (conversion: true)", w.Request.Verb)
	case w.After > 0 && (w.Fails != "timeout" || w.After > 30*time.Second):
		return nil, f.errorAt(f.take("after"), "after of webhook goes with fails: timeout, and is at most 30s, as timeoutSeconds")
	}
	return w, nil
}

type webhookRule struct {
	spanRule
	*Webhook
	count counter
}

func (w *Webhook) rule(b base) rule {
	return &webhookRule{newSpanRule(b, w.Span), w, counter{sel: w.Request}}
}

func (r *webhookRule) arrive(c Call, v *Verdict) {
	asked := c.Resource != "" && (r.Conversion || writes(c)) && matchClient(r.Client, c.Client, r.m.operator)
	hit := asked && r.count.call(c)
	if !r.arrived(c, v.Ticket) || !hit || v.Refusal != nil {
		return
	}
	v.Refusal = r.refuse(c, r.m.stored)
	r.strike(&v.Rules)
}

// refuse says it in the words of k8s.io/apiserver/pkg/admission/plugin/webhook (errors, util/webhook) and of
// k8s.io/apiextensions-apiserver/pkg/apiserver/conversion.
func (w *Webhook) refuse(c Call, stored func(group, resource string) (version, kind string)) *Refusal {
	name := w.Name
	if name == "" {
		name = "webhook.example.com"
	}
	if w.Fails == "denied" {
		return refusalOf(&apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
			Message: fmt.Sprintf("admission webhook %q denied the request: the plan of this run says no", name),
		}})
	}
	limit, why := 10*time.Second, "dial tcp 10.96.0.10:443: connect: connection refused"
	if w.Conversion {
		limit = 30 * time.Second
	}
	if w.After > 0 {
		limit = w.After
	}
	if w.Fails == "timeout" {
		why = "context deadline exceeded"
	}
	why = fmt.Sprintf("Post \"https://webhook.default.svc:443/?timeout=%s\": %s", limit, why)
	r := refusalOf(apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: failed to call webhook: %s", name, why)))
	if w.Conversion { // this error has no Status of its own: no reason, no details (responsewriters.ErrorToAPIStatus)
		r = refusalOf(&apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: 500, Message: fmt.Sprintf("conversion webhook for %s failed: %s", converted(c, stored), why),
		}})
	}
	if w.Fails == "timeout" {
		r.Wait = limit
	}
	return r
}

// converted is what a conversion webhook would have been given: what a create brings, else what is stored.
func converted(c Call, stored func(group, resource string) (version, kind string)) schema.GroupVersionKind {
	version, kind := stored(c.Group, c.Resource)
	if kind == "" {
		kind = c.Resource
	}
	if c.Verb == "create" || version == "" {
		version = c.Version
	}
	return schema.GroupVersionKind{Group: c.Group, Version: version, Kind: kind}
}

func (r *webhookRule) report() []Unmatched { return r.unmatched("request", r.Request.String()) }

package fault

import (
	"slices"
	"strconv"
	"time"
)

// Answer has a call answered by an error.
//
// On a real cluster:
//   - 401 a token that expired; 403 a role that was taken away; both before anything is committed.
//   - 409 another writer was faster (on create: the name is taken); never committed.
//   - 429 priority and fairness turned the call away, with Retry-After; never committed.
//   - 500, 503, 504 the server, its etcd or a proxy failed before or after the commit.
//   - timeout the API server gave up on a call that took too long (504, reason Timeout), which may have been
//     committed all the same.
//   - lost the connection broke before the answer came; committed or not.
type Answer struct {
	Request Selector
	// Client is the process whose calls are answered so; "" is any process.
	Client string
	// Nth is the same as a number in Request, of which only one may be there; 0 for none.
	Nth int
	// Code is an HTTP status, "timeout" or "lost".
	Code string
	// Committed has the call executed first, and only its answer replaced.
	Committed bool
	// After is how long the API server takes to answer, once it has executed the call or not; 0 for at once, but
	// 34 seconds for a timeout, which is when the API server gives up on a write
	// (requestTimeoutUpperBound in k8s.io/apiserver/pkg/endpoints/handlers/rest.go).
	After time.Duration
	// RetryAfter is the answer's Retry-After header; 0 for none, but one second for 429.
	RetryAfter time.Duration
}

// The codes that are no HTTP status.
const (
	CodeTimeout = "timeout"
	CodeLost    = "lost"
)

var (
	answerCodes    = []string{"401", "403", "409", "429", "500", "503", "504", CodeTimeout, CodeLost}
	committedCodes = []string{"500", "503", "504", CodeTimeout, CodeLost}
	retryCodes     = []string{"429", "500", "503", "504", CodeTimeout}
)

// Kind implements Fault.
func (a *Answer) Kind() string { return "answer" }

// String implements Fault.
func (a *Answer) String() string {
	l := line{kind: a.Kind()}
	l.text("request", a.Request.String())
	l.text("client", a.Client)
	if a.Nth > 0 {
		l.raw("nth", strconv.Itoa(a.Nth))
	}
	l.raw("code", a.Code)
	if a.Committed {
		l.raw("committed", "true")
	}
	if a.After > 0 {
		l.raw("after", a.After.String())
	}
	if a.RetryAfter > 0 {
		l.raw("retryAfter", a.RetryAfter.String())
	}
	return l.String()
}

func parseAnswer(f *fields) (Fault, error) {
	a := &Answer{}
	var nth uint64
	for _, err := range []error{
		f.selector("request", ParseCall, &a.Request),
		f.word("client", &a.Client),
		f.uint("nth", &nth),
		f.text("code", &a.Code),
		f.boolean("committed", &a.Committed),
		f.duration("after", f.take("after"), &a.After),
		f.duration("retryAfter", f.take("retryAfter"), &a.RetryAfter),
	} {
		if err != nil {
			return nil, err
		}
	}
	if a.Request == (Selector{}) {
		return nil, f.errorAt(nil, "answer needs request, the calls that are answered")
	}
	if n := f.take("nth"); n != nil {
		if nth < 1 || nth > 1<<31-1 || a.Request.N > 0 {
			return nil, f.errorAt(n, "nth of answer counts from 1, and stands there or as #N in request, not both")
		}
		a.Nth = int(nth)
	}
	return a, a.check(f)
}

// check refuses what no real cluster does.
func (a *Answer) check(f *fields) error {
	if !slices.Contains(answerCodes, a.Code) {
		return f.errorAt(f.take("code"), "code of answer is %q; want one of %v", a.Code, answerCodes)
	}
	if a.Committed && !slices.Contains(committedCodes, a.Code) {
		return f.errorAt(f.take("committed"), "no API server commits a call and answers %s; committed goes with %v", a.Code, committedCodes)
	}
	if a.RetryAfter > 0 && !slices.Contains(retryCodes, a.Code) {
		return f.errorAt(f.take("retryAfter"), "an answer of %s has no Retry-After; it goes with %v", a.Code, retryCodes)
	}
	if a.RetryAfter%time.Second != 0 {
		return f.errorAt(f.take("retryAfter"), "Retry-After is in whole seconds (RFC 9110, 10.2.3)")
	}
	if a.Code == "409" && slices.Contains([]string{"GET", "LIST", "WATCH"}, a.Request.Verb) {
		return f.errorAt(f.take("request"), "no %s is answered by 409", a.Request.Verb)
	}
	return nil
}

type answerRule struct {
	base
	*Answer
	count counter
}

func (a *Answer) rule(b base) rule {
	sel := a.Request
	sel.N = max(sel.N, a.Nth)
	return &answerRule{base: b, Answer: a, count: counter{sel: sel}}
}

func (r *answerRule) arrive(c Call, v *Verdict) {
	// A read changes nothing, so that 409, which says that another write came first, cannot be its answer.
	if r.Code == "409" && !writes(c) {
		return
	}
	if !matchClient(r.Client, c.Client, r.m.operator) || !r.count.call(c) || v.Refusal != nil {
		return
	}
	v.Refusal = r.refuse(c)
	r.strike(&v.Rules)
}

func (r *answerRule) report() []Unmatched {
	if r.struck > 0 {
		return nil
	}
	return []Unmatched{r.unmet("request", r.count.sel, r.count.seen, "")}
}

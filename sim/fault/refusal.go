package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Refusal is what a plan has a call answered by in place of what the API server says.
type Refusal struct {
	// Status is the answer; nil when the client gets none at all: its connection breaks.
	Status *metav1.Status
	// Text is the answer where it is no Status but plain text: that of a path that is not served.
	Text string
	// Wait is how long the answer takes beyond its way.
	Wait time.Duration
	// Committed has the call executed first.
	Committed bool
}

// Edit changes an answer of discovery. The API server is to be asked for it in JSON, and whether or not the client has
// a copy (If-None-Match): that is of another text. found is false when nothing is left of it, so that the path is not
// served.
type Edit func(body []byte) (edited []byte, found bool)

// NotServed is how the API server answers a path that it does not serve.
func NotServed() *Refusal {
	return &Refusal{Status: &metav1.Status{Code: http.StatusNotFound}, Text: "404 page not found"}
}

// Lost says that the client gets no answer.
func (r *Refusal) Lost() bool { return r.Status == nil }

// Answer is the HTTP answer. It must not be Lost.
func (r *Refusal) Answer() (code int, header http.Header, body []byte) {
	header = http.Header{"Content-Type": {"application/json"}}
	if r.Text != "" {
		header.Set("Content-Type", "text/plain; charset=utf-8")
		return int(r.Status.Code), header, []byte(r.Text + "\n")
	}
	if d := r.Status.Details; d != nil && d.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	body, err := json.Marshal(r.Status)
	if err != nil {
		panic(err) // a Status always encodes
	}
	return int(r.Status.Code), header, append(body, '\n')
}

// refusalOf is a Refusal by one of the API server's errors.
func refusalOf(e *apierrors.StatusError) *Refusal {
	s := e.Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &Refusal{Status: &s}
}

// forbidden is how the API server says 403.
func forbidden(c Call, why string) *Refusal {
	return refusalOf(apierrors.NewForbidden(c.groupResource(), c.Name, errors.New(why)))
}

func (c Call) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: c.Group, Resource: c.Resource}
}

// writes says whether a call is one that changes something.
func writes(c Call) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, c.Verb)
}

// throttle is the Retry-After of a 429 that says none: what priority and fairness gives
// (k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go).
const throttle = time.Second

// giveUp is when the API server gives up on a call (requestTimeoutUpperBound in
// k8s.io/apiserver/pkg/endpoints/handlers/rest.go).
const giveUp = 34 * time.Second

// refuse is the answer in the API server's own words (k8s.io/apimachinery/pkg/api/errors).
func (a *Answer) refuse(c Call) *Refusal {
	r := &Refusal{}
	if a.Code != CodeLost {
		r = refusalOf(a.statusError(c))
	}
	r.Wait, r.Committed = a.After, a.Committed
	if a.Code == CodeTimeout && a.After == 0 {
		r.Wait = giveUp
	}
	retry := a.RetryAfter
	if retry == 0 && a.Code == "429" {
		retry = throttle
	}
	if retry > 0 {
		if r.Status.Details == nil {
			r.Status.Details = &metav1.StatusDetails{}
		}
		r.Status.Details.RetryAfterSeconds = int32(math.Ceil(retry.Seconds()))
	}
	return r
}

func (a *Answer) statusError(c Call) *apierrors.StatusError {
	switch resource := c.groupResource(); a.Code {
	case "401":
		return apierrors.NewUnauthorized("Unauthorized")
	case "403":
		return apierrors.NewForbidden(resource, c.Name, fmt.Errorf("User %q cannot %s resource %q in API group %q", c.Client, c.Verb, c.Resource, c.Group))
	case "409":
		if c.Verb == "create" {
			return apierrors.NewAlreadyExists(resource, c.Name)
		}
		return apierrors.NewConflict(resource, c.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case "429":
		return apierrors.NewTooManyRequestsError("too many requests, please try again later")
	case "503":
		return apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	case "504", CodeTimeout:
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	}
	return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
}

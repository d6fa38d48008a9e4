package html

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// kind is what a mark stands for: an index into kinds.
type kind int

// The kinds, as the page's script and legend know them.
const (
	kindAdded kind = iota
	kindModified
	kindDeleted
	kindListed
	kindRead
	kindCreate
	kindUpdate
	kindPatch
	kindDelete
	kindConflict
	kindRefused
	kindUnanswered
	kindReconcile
	kindReconcileError
	kindKernel
	kindFault
)

var kinds = []string{
	kindAdded: "added", kindModified: "modified", kindDeleted: "deleted", kindListed: "listed",
	kindRead: "read", kindCreate: "create", kindUpdate: "update", kindPatch: "patch", kindDelete: "delete",
	kindConflict: "conflict", kindRefused: "refused", kindUnanswered: "unanswered",
	kindReconcile: "reconcile", kindReconcileError: "failed reconcile", kindKernel: "kernel event", kindFault: "fault",
}

var eventKinds = map[traces.EventType]kind{
	traces.Added: kindAdded, traces.Modified: kindModified, traces.Deleted: kindDeleted, traces.Sync: kindListed, traces.Error: kindRefused,
}

func callKind(x *traces.Request) kind {
	switch {
	case x.Code == 0:
		return kindUnanswered
	case x.Code == http.StatusConflict:
		return kindConflict
	case x.Code >= http.StatusBadRequest && !(x.Code == http.StatusNotFound && x.Verb == "get"): // which is an answer
		return kindRefused
	}
	switch x.Verb {
	case "create":
		return kindCreate
	case "update":
		return kindUpdate
	case "patch":
		return kindPatch
	case "delete", "deletecollection":
		return kindDelete
	}
	return kindRead
}

func callNote(x *traces.Request) string {
	target := x.Path
	if x.Resource != "" {
		target = objectName(&x.Identity)
		if x.Subresource != "" {
			target += " " + x.Subresource
		}
	}
	note := fmt.Sprintf("%s %s: %d", x.Verb, target, x.Code)
	if x.Reason != "" {
		note += " " + x.Reason
	}
	return note
}

func outcome(x *traces.Reconcile) kind {
	if x.Outcome == "error" || x.Outcome == "panic" {
		return kindReconcileError
	}
	return kindReconcile
}

// key names what a reconciler was called for.
func key(x *traces.Reconcile) string {
	name := x.Name
	if x.Namespace != "" {
		name = x.Namespace + "/" + name
	}
	return x.Controller + " " + name
}

func address(x *traces.KernelEvent) string {
	note := ""
	if x.Address != "" {
		note = x.Address + " port " + strconv.Itoa(int(x.Port))
	}
	if x.Count > 1 {
		note += fmt.Sprintf(" %d times", x.Count)
	}
	return note
}

// objectName names an object as findings do.
func objectName(x *traces.Identity) string {
	return analysis.Object{Group: x.Group, Resource: x.Resource, Namespace: x.Namespace, Name: x.Name}.String()
}

// lanesOf are the names of the lanes that a finding is about.
func lanesOf(f *analysis.Finding) []string {
	var names []string
	for _, o := range f.Objects {
		names = append(names, o.String())
	}
	if f.Process != "" {
		names = append(names, callsBy(f.Process))
	}
	return names
}

func callsBy(process string) string { return "calls by " + process }

// heartbeat is whether an object changes by the clock alone.
func heartbeat(name string) bool {
	return strings.HasPrefix(name, "leases.coordination.k8s.io ") || strings.HasPrefix(name, "events ") || strings.HasPrefix(name, "events.events.k8s.io ")
}

package actor

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Namespaces is a model of the namespace controller of kube-controller-manager
// (k8s.io/kubernetes/pkg/controller/namespace): it finishes the deletion of namespaces where no such process runs. It
// deletes what is in a namespace, pods before all else; waits for what has finalizers or a grace period; says in the
// namespace's conditions how far it has come; and takes the finalizer "kubernetes" off when nothing is left. Unlike the
// real one it goes through resources in the order of their names, which there is that of a map, and sends no deletion to
// a collection that is empty.
type Namespaces struct {
	read, write *client
	now         func() time.Time
	tries       map[string]int // passes over a namespace that failed one after the other
}

// The controller's own names, and how long it waits before it looks at a namespace that is being deleted, for others
// to stop writing into it.
const (
	NamespaceController      = "system:serviceaccount:kube-system:namespace-controller"
	NamespaceGrace           = 5 * time.Second
	namespaceControllerAgent = "kube-controller-manager"
	kubernetesFinalizer      = "kubernetes"
)

// NewNamespaces makes a model that acts through WRITE, looks through READ, which is no part of the run, and has the
// time from NOW; with nil it says nothing in conditions.
func NewNamespaces(write, read http.RoundTripper, now func() time.Time) *Namespaces {
	return &Namespaces{
		read: &client{via: read}, write: &client{via: write, agent: namespaceControllerAgent}, now: now, tries: map[string]int{},
	}
}

// Finish makes one pass over a namespace. AGAIN is how long to wait before the next one, 0 when there need not be any:
// the namespace is finalized, gone, or not being deleted. An error means that the cluster could not be spoken to.
func (n *Namespaces) Finish(ctx context.Context, name string) (again time.Duration, err error) {
	ref := Ref{Version: "v1", Resource: "namespaces", Name: name}
	ns, err := n.read.get(ctx, ref)
	if err != nil || ns == nil || metaText(ns, "deletionTimestamp") == "" || !slices.Contains(specFinalizers(ns), kubernetesFinalizer) {
		delete(n.tries, name)
		return 0, err
	}
	left, err := n.empty(ctx, ns)
	if err != nil {
		return 0, err
	}
	if n.now != nil && left.conditions(ns, n.now()) {
		if _, err := n.put(ctx, ref, "status", ns); err != nil {
			return 0, err
		}
	}
	switch {
	case left.failed() || left.pending() && left.estimate == 0:
		n.tries[name]++
		return min(5*time.Millisecond<<min(n.tries[name], 14), time.Minute), nil // workqueue's exponential back-off
	case left.estimate > 0:
		delete(n.tries, name)
		return time.Duration(left.estimate/2+1) * time.Second, nil
	}
	// The status may just have been written: the finalizer is taken off what is there now.
	if ns, err = n.read.get(ctx, ref); err != nil || ns == nil {
		return 0, err
	}
	spec, _ := ns["spec"].(map[string]any)
	spec["finalizers"] = slices.DeleteFunc(specFinalizers(ns), func(f string) bool { return f == kubernetesFinalizer })
	_, err = n.put(ctx, ref, "finalize", ns)
	return 0, err
}

func (n *Namespaces) put(ctx context.Context, r Ref, subresource string, o map[string]any) (answer, error) {
	return n.write.call(ctx, http.MethodPut, r.path(subresource), nil, "application/json", o)
}

func specFinalizers(ns map[string]any) (out []string) {
	spec, _ := ns["spec"].(map[string]any)
	l, _ := spec["finalizers"].([]any)
	for _, f := range l {
		if s, ok := f.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// empty deletes what is in a namespace, and says what is left of it. While pods are left nothing else is touched.
func (n *Namespaces) empty(ctx context.Context, ns map[string]any) (*remains, error) {
	left := &remains{resources: map[string]int{}, finalizers: map[string]int{}}
	resources, err := n.resources(ctx)
	if err != nil {
		return nil, err
	}
	deleted, _ := time.Parse(time.RFC3339, metaText(ns, "deletionTimestamp"))
	for _, r := range resources {
		r.Namespace = metaText(ns, "name")
		items, err := n.list(ctx, r)
		if err != nil {
			return nil, err
		}
		if len(items) > 0 {
			estimate := grace(r, items)
			if n.now != nil && n.now().Sub(deleted) >= time.Duration(estimate)*time.Second {
				estimate = 0
			}
			if err := n.remove(ctx, r, items, left); err != nil {
				return nil, err
			}
			if items, err = n.list(ctx, r); err != nil {
				return nil, err
			}
			left.note(r, items, estimate)
		}
		if isPods(r) && left.pending() {
			left.podsOnly = true
			return left, nil
		}
	}
	return left, nil
}

func isPods(r deletable) bool { return r.Group == "" && r.Resource == "pods" }

// deletable is a resource that can be deleted; together says that a collection can be at once.
type deletable struct {
	Ref
	together bool
}

// resources are those of namespaces that can be deleted, each in the version that discovery prefers; pods first.
func (n *Namespaces) resources(ctx context.Context) (out []deletable, err error) {
	aggregated := &client{via: n.read.via, accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
	seen := map[Ref]bool{}
	for _, root := range []string{"/api", "/apis"} {
		a, err := aggregated.call(ctx, http.MethodGet, root, nil, "", nil)
		if err != nil {
			return nil, err
		}
		if !a.ok() {
			return nil, fmt.Errorf("read %s: %s", root, a.message())
		}
		for _, group := range objects(a.object, "items") {
			for _, version := range objects(group, "versions") {
				for _, r := range objects(version, "resources") {
					verbs, _ := r["verbs"].([]any)
					ref := Ref{Group: metaText(group, "name"), Resource: text(r, "resource")}
					if text(r, "scope") != "Namespaced" || !slices.Contains(verbs, any("delete")) || !slices.Contains(verbs, any("list")) || seen[ref] {
						continue
					}
					seen[ref] = true
					ref.Version = text(version, "version")
					out = append(out, deletable{ref, slices.Contains(verbs, any("deletecollection"))})
				}
			}
		}
	}
	rank := func(r deletable) int {
		if isPods(r) {
			return 0
		}
		return 1
	}
	slices.SortFunc(out, func(a, b deletable) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return out, nil
}

func text(o map[string]any, key string) string {
	s, _ := o[key].(string)
	return s
}

func objects(o map[string]any, key string) (out []map[string]any) {
	l, _ := o[key].([]any)
	for _, e := range l {
		if m, ok := e.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// list reads a collection; one that is not served any more is empty.
func (n *Namespaces) list(ctx context.Context, r deletable) ([]map[string]any, error) {
	a, err := n.read.call(ctx, http.MethodGet, r.path(""), nil, "", nil)
	switch {
	case err != nil:
		return nil, err
	case a.code == http.StatusNotFound:
		return nil, nil
	case !a.ok():
		return nil, fmt.Errorf("list %s: %s", r.path(""), a.message())
	}
	return objects(a.object, "items"), nil
}

// remove deletes a collection, or what is in it one by one.
func (n *Namespaces) remove(ctx context.Context, r deletable, items []map[string]any, left *remains) error {
	options := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
	paths := []string{r.path("")}
	if !r.together {
		paths = nil
		for _, item := range items {
			one := r.Ref
			one.Name = metaText(item, "name")
			paths = append(paths, one.path(""))
		}
	}
	for _, path := range paths {
		a, err := n.write.call(ctx, http.MethodDelete, path, nil, "application/json", options)
		if err != nil {
			return err
		}
		if !a.ok() && a.code != http.StatusNotFound && a.code != http.StatusMethodNotAllowed {
			left.errors = append(left.errors, a.message())
			return nil
		}
	}
	return nil
}

// grace is the longest grace period of pods that run, in seconds.
func grace(r deletable, items []map[string]any) (longest int64) {
	if !isPods(r) {
		return 0
	}
	for _, pod := range items {
		spec, _ := pod["spec"].(map[string]any)
		status, _ := pod["status"].(map[string]any)
		if phase := text(status, "phase"); phase == "Succeeded" || phase == "Failed" {
			continue
		}
		if n, ok := spec["terminationGracePeriodSeconds"].(interface{ Int64() (int64, error) }); ok {
			if s, err := n.Int64(); err == nil {
				longest = max(longest, s)
			}
		}
	}
	return longest
}

// remains is what is left of a namespace after a pass.
type remains struct {
	resources  map[string]int // RESOURCE.GROUP → objects
	finalizers map[string]int // → objects
	errors     []string
	estimate   int64 // seconds until it may be gone; 0 for none
	podsOnly   bool  // nothing but pods was looked at
}

func (l *remains) failed() bool  { return len(l.errors) > 0 }
func (l *remains) pending() bool { return len(l.resources) > 0 }

// finalizing is how long things with finalizers are given, in seconds.
const finalizing = 15

func (l *remains) note(r deletable, items []map[string]any, estimate int64) {
	if len(items) == 0 {
		return
	}
	l.resources[r.Resource+"."+r.Group] = len(items)
	held := false
	for _, item := range items {
		for _, f := range metaTexts(item, "finalizers") {
			l.finalizers[f]++
			held = true
		}
	}
	switch {
	case estimate > 0:
		l.estimate = max(l.estimate, estimate)
	case held:
		l.estimate = max(l.estimate, finalizing)
	default:
		l.errors = append(l.errors, fmt.Sprintf("unexpected items still remain in namespace: %s for gvr: %s/%s, Resource=%s", r.Namespace, r.Group, r.Version, r.Resource))
	}
}

// conditions says it in the namespace's conditions (status_condition_utils.go there) and reports whether they changed.
func (l *remains) conditions(ns map[string]any, now time.Time) (changed bool) {
	count := func(of map[string]int, format string) string {
		var parts []string
		for what, n := range of {
			parts = append(parts, fmt.Sprintf(format, what, n))
		}
		slices.Sort(parts)
		return strings.Join(parts, ", ")
	}
	failed := slices.Sorted(slices.Values(l.errors))
	for _, c := range []struct {
		kind                  string
		bad                   bool
		reason, message       string
		goodReason, goodWords string
	}{
		{kind: "NamespaceDeletionDiscoveryFailure", goodReason: "ResourcesDiscovered", goodWords: "All resources successfully discovered"},
		{kind: "NamespaceDeletionGroupVersionParsingFailure", goodReason: "ParsedGroupVersions", goodWords: "All legacy kube types successfully parsed"},
		{
			kind: "NamespaceDeletionContentFailure", bad: len(failed) > 0, reason: "ContentDeletionFailed",
			message:    fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(failed), strings.Join(failed, ", ")),
			goodReason: "ContentDeleted", goodWords: "All content successfully deleted, may be waiting on finalization",
		},
		{
			kind: "NamespaceContentRemaining", bad: l.pending() && !l.podsOnly, reason: "SomeResourcesRemain",
			message:    "Some resources are remaining: " + count(l.resources, "%s has %d resource instances"),
			goodReason: "ContentRemoved", goodWords: "All content successfully removed",
		},
		{
			kind: "NamespaceFinalizersRemaining", bad: len(l.finalizers) > 0 && !l.podsOnly, reason: "SomeFinalizersRemain",
			message:    "Some content in the namespace has finalizers remaining: " + count(l.finalizers, "%s in %d resource instances"),
			goodReason: "ContentHasNoFinalizers", goodWords: "All content-preserving finalizers finished",
		},
	} {
		status, reason, message := "False", c.goodReason, c.goodWords
		if c.bad {
			status, reason, message = "True", c.reason, c.message
		}
		changed = setCondition(ns, c.kind, status, reason, message, now) || changed
	}
	return changed
}

// setCondition sets one condition and reports whether it is another now.
func setCondition(ns map[string]any, kind, status, reason, message string, now time.Time) bool {
	at := now.UTC().Truncate(time.Second).Format(time.RFC3339)
	of, ok := ns["status"].(map[string]any)
	if !ok {
		of = map[string]any{}
		ns["status"] = of
	}
	for _, c := range objects(of, "conditions") {
		if text(c, "type") != kind {
			continue
		}
		if text(c, "status") == status && text(c, "reason") == reason && text(c, "message") == message {
			return false
		}
		if text(c, "status") != status {
			c["lastTransitionTime"] = at
		}
		c["status"], c["reason"], c["message"] = status, reason, message
		return true
	}
	l, _ := of["conditions"].([]any)
	of["conditions"] = append(l, map[string]any{
		"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at,
	})
	return true
}

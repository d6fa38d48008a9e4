package actor

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/opreplay/opreplay/sim/store"
)

// Options are what a Player plays with.
type Options struct {
	// Write carries the outsiders' calls, Read the Player's own look at the cluster, which is no part of the
	// run. Both must keep the request's context.
	Write, Read http.RoundTripper
	// Refs are the recorded objects by their recorded uid.
	Refs map[string]Ref
}

// Player applies steps to a cluster. It is not safe for concurrent use.
type Player struct {
	read  *client
	write http.RoundTripper
	refs  map[string]Ref
}

// NewPlayer makes a Player.
func NewPlayer(o Options) *Player {
	return &Player{read: &client{via: o.Read}, write: o.Write, refs: o.Refs}
}

// attempts bounds how often a patch is made anew since the object changed in between.
const attempts = 20

// Apply applies a step. An error means that the cluster could not be spoken to or that the step makes no sense;
// what merely does not fit the cluster is a Skipped outcome.
func (p *Player) Apply(ctx context.Context, s Step) (Outcome, error) {
	served, err := p.read.has(ctx, s.Ref, "")
	if err != nil {
		return Outcome{}, err
	}
	if !served {
		return skipped("%s is not served", s.Resource), nil
	}
	var out Outcome
	switch s.Kind {
	case Create:
		out, err = p.create(ctx, s)
	case Change:
		out, err = p.change(ctx, s)
	case Delete:
		out, err = p.delete(ctx, s)
	default:
		return Outcome{}, fmt.Errorf("step of unknown kind %q", s.Kind)
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", s, err)
	}
	return out, nil
}

// as is a client that writes as the step's author.
func (p *Player) as(s Step) *client { return &client{via: p.write, agent: s.Manager} }

func (p *Player) create(ctx context.Context, s Step) (Outcome, error) {
	o, err := decode(s.After)
	if err != nil {
		return Outcome{}, err
	}
	strip(o)
	if err := p.mapOwners(ctx, o); err != nil {
		return Outcome{}, err
	}
	hinted := store.WithHint(ctx, store.Hint{
		UID: types.UID(s.UID), ResourceVersion: uint64(max(s.ResourceVersion, 0)), Name: s.Name, Time: s.Time,
	})
	collection := s.Ref
	collection.Name = ""
	a, err := p.as(s).call(hinted, http.MethodPost, collection.path(""), manager(s.Manager), "application/json", o)
	switch {
	case err != nil:
		return Outcome{}, err
	case a.code == http.StatusConflict && a.reason() == metav1.StatusReasonAlreadyExists:
		return p.taken(ctx, s)
	case !a.ok():
		return skipped("refused: %s", a.message()), nil
	}
	if _, hasStatus := o["status"]; hasStatus {
		// The POST may have dropped it; a patch of what is there already sends nothing.
		if _, err := p.patch(ctx, s, map[string]any{}, only(o, "status"), "status"); err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{Result: Applied}, nil
}

// Exists says whether the object is there.
func (p *Player) Exists(ctx context.Context, r Ref) (bool, error) {
	current, err := p.read.get(ctx, r)
	return current != nil, err
}

// taken is the outcome of a create whose name is taken: one that is being deleted will be gone some time.
func (p *Player) taken(ctx context.Context, s Step) (Outcome, error) {
	current, err := p.read.get(ctx, s.Ref)
	if err != nil {
		return Outcome{}, err
	}
	if current == nil || metaText(current, "deletionTimestamp") != "" {
		return Outcome{Waiting, "it exists already, and is being deleted"}, nil
	}
	return skipped("it exists already"), nil
}

func (p *Player) change(ctx context.Context, s Step) (Outcome, error) {
	before, err := decode(s.Before)
	if err != nil {
		return Outcome{}, err
	}
	after, err := decode(s.After)
	if err != nil {
		return Outcome{}, err
	}
	for _, o := range []map[string]any{before, after} {
		strip(o)
		if err := p.mapOwners(ctx, o); err != nil {
			return Outcome{}, err
		}
	}
	parts := []struct {
		subresource   string
		before, after map[string]any
	}{{"", before, after}}
	split, err := p.read.has(ctx, s.Ref, "status")
	if err != nil {
		return Outcome{}, err
	}
	if split {
		parts[0].before, parts[0].after = without(before, "status"), without(after, "status")
		parts = append(parts, parts[0])
		parts[1].subresource, parts[1].before, parts[1].after = "status", only(before, "status"), only(after, "status")
	}
	total := Outcome{Result: Unchanged}
	for _, part := range parts {
		if part.subresource == "" && s.Group == "" && s.Resource == "pods" {
			bound, err := p.bind(ctx, s, part.before, part.after)
			if err != nil {
				return Outcome{}, err
			}
			if bound.Result != Unchanged {
				total = bound
			}
		}
		out, err := p.patch(ctx, s, part.before, part.after, part.subresource)
		if err != nil || out.Result == Skipped {
			return out, err
		}
		if out.Result == Applied {
			total = out
		}
	}
	return total, nil
}

// patch moves before → after onto the object as it is now.
func (p *Player) patch(ctx context.Context, s Step, before, after map[string]any, subresource string) (Outcome, error) {
	for range attempts {
		current, err := p.read.get(ctx, s.Ref)
		if err != nil {
			return Outcome{}, err
		}
		if current == nil {
			return skipped("there is no such object"), nil
		}
		version := metaText(current, "resourceVersion")
		uid := metaText(current, "uid")
		strip(current)
		target, _ := Rebase(before, after, current).(map[string]any)
		patch, differs := MergePatch(current, target)
		if !differs {
			return Outcome{Result: Unchanged}, nil
		}
		m := metadata(patch)
		m["resourceVersion"], m["uid"] = version, uid
		hinted := store.WithHint(ctx, store.Hint{ResourceVersion: uint64(max(s.ResourceVersion, 0))})
		a, err := p.as(s).call(hinted, http.MethodPatch, s.path(subresource), manager(s.Manager), "application/merge-patch+json", patch)
		switch {
		case err != nil:
			return Outcome{}, err
		case a.code == http.StatusConflict:
			continue
		case a.code == http.StatusNotFound:
			return skipped("there is no such object"), nil
		case !a.ok():
			return skipped("refused: %s", a.message()), nil
		}
		return Outcome{Result: Applied}, nil
	}
	return skipped("the object changed %d times while the change was being made", attempts), nil
}

// bind puts a pod on its node, which only the binding subresource may do. The two objects no longer differ in it.
func (p *Player) bind(ctx context.Context, s Step, before, after map[string]any) (Outcome, error) {
	was, _ := before["spec"].(map[string]any)
	is, _ := after["spec"].(map[string]any)
	node, _ := is["nodeName"].(string)
	if _, bound := was["nodeName"]; bound || node == "" {
		return Outcome{Result: Unchanged}, nil
	}
	delete(is, "nodeName")
	body := map[string]any{
		"apiVersion": "v1", "kind": "Binding",
		"metadata": map[string]any{"name": s.Name},
		"target":   map[string]any{"apiVersion": "v1", "kind": "Node", "name": node},
	}
	a, err := p.as(s).call(ctx, http.MethodPost, s.path("binding"), nil, "application/json", body)
	switch {
	case err != nil:
		return Outcome{}, err
	case a.code == http.StatusNotFound:
		return skipped("there is no such object"), nil
	case !a.ok():
		return skipped("refused: %s", a.message()), nil
	}
	return Outcome{Result: Applied}, nil
}

func (p *Player) delete(ctx context.Context, s Step) (Outcome, error) {
	if s.Collected {
		out, err := p.ownersGone(ctx, s)
		if err != nil || out.Result != Applied {
			return out, err
		}
	}
	if s.Group == "" && s.Resource == "namespaces" && s.After == "" {
		return p.finish(ctx, s)
	}
	options, err := deleteOptions(s)
	if err != nil {
		return Outcome{}, err
	}
	a, err := p.as(s).call(ctx, http.MethodDelete, s.path(""), nil, "application/json", options)
	switch {
	case err != nil:
		return Outcome{}, err
	case a.code == http.StatusNotFound:
		return skipped("there is no such object"), nil
	case !a.ok():
		return skipped("refused: %s", a.message()), nil
	}
	return Outcome{Result: Applied}, nil
}

// finish ends a namespace, as the namespace controller did in the recording: with what this run has put into it.
func (p *Player) finish(ctx context.Context, s Step) (Outcome, error) {
	current, err := p.read.get(ctx, s.Ref)
	if err != nil {
		return Outcome{}, err
	}
	if current == nil {
		return skipped("there is no such object"), nil
	}
	if metaText(current, "deletionTimestamp") == "" {
		a, err := p.as(s).call(ctx, http.MethodDelete, s.path(""), nil, "", nil)
		if err != nil || !a.ok() {
			return skipped("refused: %s", a.message()), err
		}
	}
	again, err := NewNamespaces(p.write, p.read.via, nil).Finish(ctx, s.Name)
	if err != nil {
		return Outcome{}, err
	}
	if again > 0 {
		return Outcome{Waiting, "there is something in it that has not gone yet"}, nil
	}
	return Outcome{Result: Applied}, nil
}

// deleteOptions reads from the object how it was deleted.
func deleteOptions(s Step) (map[string]any, error) {
	o := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
	if s.After == "" {
		// It went at once. A pod that was terminating went by a last delete of its kubelet.
		o["gracePeriodSeconds"] = 0
		return o, nil
	}
	after, err := decode(s.After)
	if err != nil {
		return nil, err
	}
	finalizers := metaTexts(after, "finalizers")
	switch { // metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents
	case slices.Contains(finalizers, "foregroundDeletion"):
		o["propagationPolicy"] = "Foreground"
	case slices.Contains(finalizers, "orphan"):
		o["propagationPolicy"] = "Orphan"
	}
	m, _ := after["metadata"].(map[string]any)
	if grace, ok := m["deletionGracePeriodSeconds"]; ok {
		o["gracePeriodSeconds"] = grace
	}
	return o, nil
}

// ownersGone is Applied when no owner of the step's object is left, Waiting while one is.
func (p *Player) ownersGone(ctx context.Context, s Step) (Outcome, error) {
	current, err := p.read.get(ctx, s.Ref)
	if err != nil {
		return Outcome{}, err
	}
	if current == nil {
		return skipped("there is no such object"), nil
	}
	recorded, err := decode(s.Before)
	if err != nil {
		return Outcome{}, err
	}
	var now []string
	for _, ref := range metaObjects(current, "ownerReferences") {
		uid, _ := ref["uid"].(string)
		now = append(now, uid)
	}
	for _, ref := range metaObjects(recorded, "ownerReferences") {
		uid, _ := ref["uid"].(string)
		at, known := p.refs[uid]
		if !known {
			continue
		}
		owner, err := p.read.get(ctx, at)
		if err != nil {
			return Outcome{}, err
		}
		if owner != nil && slices.Contains(now, metaText(owner, "uid")) {
			return Outcome{Waiting, fmt.Sprintf("its owner %s still exists", at)}, nil
		}
	}
	return Outcome{Result: Applied}, nil
}

// mapOwners gives o's ownerReferences the uids that the owners have in this run.
func (p *Player) mapOwners(ctx context.Context, o map[string]any) error {
	for _, ref := range metaObjects(o, "ownerReferences") {
		uid, _ := ref["uid"].(string)
		at, known := p.refs[uid]
		if !known {
			continue
		}
		owner, err := p.read.get(ctx, at)
		if err != nil {
			return fmt.Errorf("find the owner %s: %w", at, err)
		}
		if owner != nil {
			ref["uid"] = metaText(owner, "uid")
		}
	}
	return nil
}

package apiserver

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdlisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/opreplay/opreplay/sim/store"
)

// crdView is what the code behind CRDs knows of them. In a real API server an informer tells it, in
// goroutines and a little late; here it is told when somebody looks.
type crdView struct {
	world *store.Store
	index cache.Indexer
	// seen is what was stored, by name. Two histories may have other CRDs by one uid and version.
	seen map[string]*apiextensions.CustomResourceDefinition
	// changed are told of every change, gone only of deletions.
	changed, gone []cache.ResourceEventHandler
}

func newCRDView(world *store.Store) *crdView {
	return &crdView{world: world, seen: map[string]*apiextensions.CustomResourceDefinition{}, index: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
}

// Stored says in which version a custom resource is stored, and of which kind it is; both are "" where there is no such
// CRD.
func (s *Server) Stored(group, resource string) (version, kind string) {
	crds, err := s.world.Objects(crdGR)
	if err != nil {
		return "", ""
	}
	for _, o := range crds {
		crd := o.(*apiextensions.CustomResourceDefinition)
		if crd.Spec.Group != group || crd.Spec.Names.Plural != resource {
			continue
		}
		for _, v := range crd.Spec.Versions {
			if v.Storage {
				version = v.Name
			}
		}
		return version, crd.Spec.Names.Kind
	}
	return "", ""
}

// crdChange is what became of a CRD since it was looked at last; one side is nil for a new or deleted one.
type crdChange struct {
	before, after *apiextensionsv1.CustomResourceDefinition
	stored        *apiextensions.CustomResourceDefinition // that after was made of
}

func (c crdChange) crd() *apiextensionsv1.CustomResourceDefinition {
	if c.after != nil {
		return c.after
	}
	return c.before
}

// look compares what is known with the store: what has gone by name, then the rest in the order of its
// versions.
func (v *crdView) look() ([]crdChange, error) {
	objs, err := v.world.Objects(crdGR)
	if err != nil {
		return nil, err
	}
	var changes, gone []crdChange
	present := map[string]bool{}
	for _, o := range objs {
		stored := o.(*apiextensions.CustomResourceDefinition)
		present[stored.Name] = true
		if v.seen[stored.Name] == stored {
			continue
		}
		after := &apiextensionsv1.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(stored.DeepCopy(), after, nil); err != nil {
			return nil, err
		}
		changes = append(changes, crdChange{v.get(stored.Name), after, stored})
	}
	slices.SortFunc(changes, func(a, b crdChange) int { return cmp.Compare(versionNumber(a.after), versionNumber(b.after)) })
	for _, name := range v.names() {
		if !present[name] {
			gone = append(gone, crdChange{before: v.get(name)})
		}
	}
	return append(gone, changes...), nil
}

func versionNumber(crd *apiextensionsv1.CustomResourceDefinition) uint64 {
	n, _ := strconv.ParseUint(crd.ResourceVersion, 10, 64)
	return n
}

// tell makes a change known.
func (v *crdView) tell(c crdChange) error {
	if c.after != nil {
		v.seen[c.after.Name] = c.stored
	}
	switch {
	case c.after == nil:
		delete(v.seen, c.before.Name)
		if err := v.index.Delete(c.before); err != nil {
			return err
		}
		for _, h := range slices.Concat(v.changed, v.gone) {
			h.OnDelete(c.before)
		}
		return nil
	case c.before == nil:
		if err := v.index.Add(c.after); err != nil {
			return err
		}
		for _, h := range v.changed {
			h.OnAdd(c.after, false)
		}
		return nil
	}
	if err := v.index.Update(c.after); err != nil {
		return err
	}
	for _, h := range v.changed {
		h.OnUpdate(c.before, c.after)
	}
	return nil
}

func (v *crdView) get(name string) *apiextensionsv1.CustomResourceDefinition {
	o, ok, err := v.index.GetByKey(name)
	if !ok || err != nil {
		return nil
	}
	return o.(*apiextensionsv1.CustomResourceDefinition)
}

func (v *crdView) names() []string { return slices.Sorted(slices.Values(v.index.ListKeys())) }

// all lists the CRDs by name.
func (v *crdView) all() (out []*apiextensionsv1.CustomResourceDefinition) {
	for _, name := range v.names() {
		out = append(out, v.get(name))
	}
	return out
}

// forController is the informer of one of the controllers, which is called and need not be told; what it
// remembers of a deleted CRD goes with it.
func (v *crdView) forController() crdInformer {
	return crdInformer{view: v, handlers: &v.gone, see: func(c *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition { return c }}
}

// forHandler is the informer of the handler of custom resources. It sees CRDs as established long ago: it
// holds back the creation of custom resources for two seconds of wall time after that.
func (v *crdView) forHandler() crdInformer {
	return crdInformer{view: v, handlers: &v.changed, see: func(c *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
		// Its status alone is copied: the handler compares specs and keeps pointers into them.
		seen := *c
		seen.Status.Conditions = slices.Clone(c.Status.Conditions)
		for i := range seen.Status.Conditions {
			seen.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Unix(0, 0))
		}
		return &seen
	}}
}

// crdInformer is informer and lister in one.
type crdInformer struct {
	alwaysSynced
	crdlisters.CustomResourceDefinitionListerExpansion
	view     *crdView
	handlers *[]cache.ResourceEventHandler
	see      func(*apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition
}

// Informer implements informers.CustomResourceDefinitionInformer.
func (i crdInformer) Informer() cache.SharedIndexInformer { return i }

// Lister implements informers.CustomResourceDefinitionInformer.
func (i crdInformer) Lister() crdlisters.CustomResourceDefinitionLister { return i }

// GetIndexer implements cache.SharedIndexInformer.
func (i crdInformer) GetIndexer() cache.Indexer { return i.view.index }

// AddEventHandler implements cache.SharedIndexInformer.
func (i crdInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	*i.handlers = append(*i.handlers, h)
	return i, nil
}

// AddEventHandlerWithOptions implements cache.SharedIndexInformer.
func (i crdInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// List implements listers.CustomResourceDefinitionLister.
func (i crdInformer) List(sel labels.Selector) (out []*apiextensionsv1.CustomResourceDefinition, err error) {
	for _, c := range i.view.all() {
		if sel.Matches(labels.Set(c.Labels)) {
			out = append(out, i.see(c))
		}
	}
	return out, nil
}

// Get implements listers.CustomResourceDefinitionLister.
func (i crdInformer) Get(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	if c := i.view.get(name); c != nil {
		return i.see(c), nil
	}
	return nil, apierrors.NewNotFound(crdGR, name)
}

// sortedKeys are the keys of a map, in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

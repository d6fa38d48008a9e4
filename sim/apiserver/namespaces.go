package apiserver

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// orderly has the finalizers of namespaces in the same order in each run. When a namespace's deletion adds or takes away
// one (orphan, foregroundDeletion), its registry writes them all as they come from a map
// (k8s.io/kubernetes/pkg/registry/core/namespace/storage, REST.Delete).
type orderly struct{ generic.RESTOptionsGetter }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o orderly) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := o.RESTOptionsGetter.GetRESTOptions(gr, example)
	if err != nil || gr != api.Resource("namespaces") {
		return opts, err
	}
	open := opts.Decorator
	opts.Decorator = func(cfg *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), one, many func() runtime.Object,
		attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := open(cfg, prefix, key, one, many, attrs, triggers, indexers)
		return orderlyFinalizers{s}, destroy, err
	}
	return opts, nil
}

type orderlyFinalizers struct{ storage.Interface }

// GuaranteedUpdate implements storage.Interface.
func (o orderlyFinalizers) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	pre *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	return o.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, pre, func(in runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		ns, ok := in.(*api.Namespace)
		if !ok || ns.DeletionTimestamp != nil {
			return update(in, meta)
		}
		had := slices.Clone(ns.Finalizers)
		after, ttl, err := update(in, meta)
		if ns, ok := after.(*api.Namespace); ok && err == nil && ns.DeletionTimestamp != nil {
			ns.Finalizers = inOrder(ns.Finalizers, had)
		}
		return after, ttl, err
	}, cached)
}

// inOrder gives what there is in the order that it had, and what is new behind it.
func inOrder(now, had []string) (out []string) {
	for _, f := range had {
		if slices.Contains(now, f) {
			out = append(out, f)
		}
	}
	slices.Sort(now)
	for _, f := range now {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

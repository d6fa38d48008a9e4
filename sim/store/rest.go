package store

import (
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// RESTConfig says how the API server's registries use a Store.
type RESTConfig struct {
	// Config makes a resource's codec and key prefix, which then are the store's; a storage factory's NewConfig fits.
	Config func(gr schema.GroupResource, example runtime.Object) (*storagebackend.ConfigForResource, error)
	// ResourcePrefix is the part of the key between Prefix and namespace; nil: group/resource.
	ResourcePrefix func(gr schema.GroupResource) string
	// GarbageCollection has deletions honour propagation policies.
	GarbageCollection bool
}

// RESTOptions puts the store under the API server's registries.
func (s *Store) RESTOptions(c RESTConfig) generic.RESTOptionsGetter { return restOptions{s, c} }

type restOptions struct {
	s *Store
	c RESTConfig
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o restOptions) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	cfg, err := o.c.Config(gr, example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	prefix := gr.Group + "/" + gr.Resource
	if o.c.ResourcePrefix != nil {
		prefix = o.c.ResourcePrefix(gr)
	}
	cfg.Codec = dryRun{cfg.Codec, o.s}
	return generic.RESTOptions{
		StorageConfig: cfg, Decorator: o.s.decorate, ResourcePrefix: prefix,
		EnableGarbageCollection: o.c.GarbageCollection,
		// More would delete the objects of a deletecollection in an order that nobody decides.
		DeleteCollectionWorkers: 1,
	}, nil
}

// dryRun is the codec of answers to dry runs, which the registry makes by writing an object and reading it,
// without the store (k8s.io/apiserver/pkg/registry/generic/registry.DryRunnableStorage). They have the
// world's times as others have.
type dryRun struct {
	runtime.Codec
	s *Store
}

// Encode implements runtime.Encoder.
func (c dryRun) Encode(obj runtime.Object, w io.Writer) error {
	obj = obj.DeepCopyObject()
	c.s.Stamp(obj)
	return c.Codec.Encode(obj, w)
}

// decorate is a generic.StorageDecorator.
func (s *Store) decorate(cfg *storagebackend.ConfigForResource, resourcePrefix string,
	keyFunc func(runtime.Object) (string, error), newFunc, _ func() runtime.Object,
	_ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	// kube-apiserver has a watch cache for everything but events
	// (k8s.io/kubernetes/pkg/kubeapiserver.DefaultWatchCacheSizes).
	codec := cfg.Codec
	if d, ok := codec.(dryRun); ok {
		codec = d.Codec
	}
	c := resourceConfig{
		codec: codec, gr: cfg.GroupResource, prefix: cfg.Prefix, resourcePrefix: resourcePrefix,
		keyFunc: keyFunc, newFunc: newFunc, cached: cfg.GroupResource.Resource != "events",
	}
	if cfg.Transformer != nil {
		c.transformer = interpreting{cfg.Transformer}
	}
	return s.open(c), func() {}, nil
}

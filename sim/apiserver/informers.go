package apiserver

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/opreplay/opreplay/sim/store"
)

// storeInformers is an informer factory whose informers and listers read the store itself: there is nothing
// to wait for and never a stale answer. In a real API server its admission plugins and its authorizer hear of
// changes a little late, from a watch of its own.
type storeInformers struct {
	informers.SharedInformerFactory // nil: what is not here is not used
	world                           *store.Store
	hooks                           *hookView // of webhook configurations; may be nil

	mu    sync.Mutex
	known map[schema.GroupResource]*storeIndexer
}

func newStoreInformers(world *store.Store, hooks *hookView) *storeInformers {
	return &storeInformers{world: world, hooks: hooks, known: map[schema.GroupResource]*storeIndexer{}}
}

// Core implements informers.SharedInformerFactory.
func (f *storeInformers) Core() core.Interface { return core.New(f, metav1.NamespaceAll, nil) }

// Flowcontrol implements informers.SharedInformerFactory.
func (f *storeInformers) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(f, metav1.NamespaceAll, nil)
}

// Networking implements informers.SharedInformerFactory.
func (f *storeInformers) Networking() networking.Interface {
	return networking.New(f, metav1.NamespaceAll, nil)
}

// Node implements informers.SharedInformerFactory.
func (f *storeInformers) Node() node.Interface { return node.New(f, metav1.NamespaceAll, nil) }

// Rbac implements informers.SharedInformerFactory.
func (f *storeInformers) Rbac() rbac.Interface { return rbac.New(f, metav1.NamespaceAll, nil) }

// Scheduling implements informers.SharedInformerFactory.
func (f *storeInformers) Scheduling() scheduling.Interface {
	return scheduling.New(f, metav1.NamespaceAll, nil)
}

// Storage implements informers.SharedInformerFactory.
func (f *storeInformers) Storage() storage.Interface { return storage.New(f, metav1.NamespaceAll, nil) }

// Admissionregistration implements informers.SharedInformerFactory.
func (f *storeInformers) Admissionregistration() admissionregistration.Interface {
	if f.hooks != nil {
		return hookGroup{view: f.hooks}
	}
	return admissionregistration.New(f, metav1.NamespaceAll, nil)
}

// InformerName implements internalinterfaces.SharedInformerFactory.
func (f *storeInformers) InformerName() *cache.InformerName { return nil }

// Start implements informers.SharedInformerFactory.
func (f *storeInformers) Start(<-chan struct{}) {}

// InformerFor implements informers.SharedInformerFactory.
func (f *storeInformers) InformerFor(example runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kinds, _, err := scheme.Scheme.ObjectKinds(example)
	if err != nil {
		panic(fmt.Sprintf("an informer of client-go is not for one of its kinds: %v", err))
	}
	gvr, _ := meta.UnsafeGuessKindToResource(kinds[0])
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.known[gvr.GroupResource()]
	if i == nil {
		i = &storeIndexer{world: f.world, gr: gvr.GroupResource(), kind: kinds[0], converted: map[runtime.Object]runtime.Object{}}
		f.known[i.gr] = i
	}
	return storeInformer{indexer: i}
}

// alwaysSynced is what every informer here has in common.
type alwaysSynced struct{ cache.SharedIndexInformer }

// HasSynced implements cache.SharedIndexInformer.
func (alwaysSynced) HasSynced() bool { return true }

type storeInformer struct {
	alwaysSynced
	indexer *storeIndexer
}

// GetIndexer implements cache.SharedIndexInformer.
func (i storeInformer) GetIndexer() cache.Indexer { return i.indexer }

// AddEventHandler implements cache.SharedIndexInformer. Nobody is told of changes: everybody looks.
func (i storeInformer) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i, nil
}

// AddEventHandlerWithOptions implements cache.SharedIndexInformer.
func (i storeInformer) AddEventHandlerWithOptions(cache.ResourceEventHandler, cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i, nil
}

// AddEventHandlerWithResyncPeriod implements cache.SharedIndexInformer.
func (i storeInformer) AddEventHandlerWithResyncPeriod(cache.ResourceEventHandler, time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i, nil
}

// AddIndexers implements cache.SharedIndexInformer: nobody uses others than by namespace.
func (i storeInformer) AddIndexers(cache.Indexers) error { return nil }

// storeIndexer is a built-in resource, in the version of client-go's kind.
type storeIndexer struct {
	cache.Indexer // nil: it is only read, as listers read
	world         *store.Store
	gr            schema.GroupResource
	kind          schema.GroupVersionKind

	mu        sync.Mutex
	converted map[runtime.Object]runtime.Object // by the stored one
	singles   int                               // how many of them GetByKey added since the last List
}

// maxSingles bounds what is kept of objects that are asked for one by one: nobody tells when they go.
const maxSingles = 100

// List implements cache.Store.
func (s *storeIndexer) List() []any {
	objs, err := s.world.Objects(s.gr)
	if err != nil {
		return nil // one that cannot be decoded cannot be used either
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[runtime.Object]runtime.Object, len(objs))
	out := make([]any, 0, len(objs))
	for _, o := range objs {
		c := s.convert(o)
		if c == nil {
			continue
		}
		kept[o] = c
		out = append(out, c)
	}
	s.converted, s.singles = kept, 0
	return out
}

// convert makes an object of the informer's version. mu is held.
func (s *storeIndexer) convert(stored runtime.Object) runtime.Object {
	if c, ok := s.converted[stored]; ok {
		return c
	}
	out, err := scheme.Scheme.New(s.kind)
	if err != nil || legacyscheme.Scheme.Convert(stored.DeepCopyObject(), out, nil) != nil {
		return nil
	}
	return out
}

// GetByKey implements cache.Store.
func (s *storeIndexer) GetByKey(key string) (item any, exists bool, err error) {
	o, err := s.world.Object(s.gr, key)
	if err != nil || o == nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.convert(o)
	if c == nil {
		return nil, false, fmt.Errorf("%s %s cannot be converted to %s", s.gr, key, s.kind)
	}
	if s.converted[o] == nil {
		if s.singles++; s.singles > maxSingles {
			clear(s.converted)
			s.singles = 1
		}
		s.converted[o] = c
	}
	return c, true, nil
}

// ByIndex implements cache.Indexer.
func (s *storeIndexer) ByIndex(index, value string) ([]any, error) {
	if index != cache.NamespaceIndex {
		return nil, fmt.Errorf("no index %q of %s", index, s.gr)
	}
	var out []any
	for _, o := range s.List() {
		if m, err := meta.Accessor(o); err == nil && m.GetNamespace() == value {
			out = append(out, o)
		}
	}
	return out, nil
}

// Index implements cache.Indexer.
func (s *storeIndexer) Index(index string, obj any) ([]any, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	return s.ByIndex(index, m.GetNamespace())
}

// GetIndexers implements cache.Indexer.
func (s *storeIndexer) GetIndexers() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

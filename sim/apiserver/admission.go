package apiserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core"
	coreinformersv1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	api "k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/opreplay/opreplay/sim/store"
)

// newAdmission is the chain of admission plugins.
func newAdmission(o Options, world *store.Store, view *hookView, client kubernetes.Interface) (admission.Interface, error) {
	ns, err := lifecycle.NewLifecycle(sets.New(metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic))
	if err != nil {
		return nil, err
	}
	ns.SetExternalKubeClientSet(client)
	ns.SetExternalKubeInformerFactory(storeInformers{namespaces: namespaces{world: world}})
	if err := ns.ValidateInitialization(); err != nil {
		return nil, err
	}
	chain := []admission.Interface{ns}
	names := &nameGenerator{admission.NewHandler(admission.Create), world}
	if o.Webhooks.Serves == nil {
		return admission.NewChainHandler(append(chain, names)...), nil
	}
	hooks, err := newWebhooks(o, world, view, client)
	if err != nil {
		return nil, err
	}
	return admission.NewChainHandler(append(chain, mutatingHooks{hooks.mutate, hooks}, names, validatingHooks{hooks.valid, hooks})...), nil
}

// nameGenerator completes metadata.generateName from the world. It comes last of the mutating plugins,
// so that the others see what they would see in a real cluster: an object without a name.
type nameGenerator struct {
	*admission.Handler
	world *store.Store
}

// Admit implements admission.MutationInterface.
func (g *nameGenerator) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	m, err := meta.Accessor(a.GetObject())
	if err != nil || m.GetName() != "" || m.GetGenerateName() == "" {
		return nil // no metadata or no wish: the registry has its own opinion
	}
	if hint := store.HintFrom(ctx); hint.Name != "" {
		m.SetName(hint.Name)
		return nil
	}
	m.SetName(g.world.GenerateName(a.GetResource().GroupResource(), a.GetNamespace(), m.GetGenerateName()))
	return nil
}

// storeInformers is the part of an informer factory that the plugins ask for. It reads the store itself, so there is nothing to wait for and never a stale answer.
type storeInformers struct {
	informers.SharedInformerFactory
	namespaces namespaces
	hooks      *hookView
}

// Core implements informers.SharedInformerFactory.
func (f storeInformers) Core() coreinformers.Interface { return coreGroup{namespaces: f.namespaces} }

type coreGroup struct {
	coreinformers.Interface
	namespaces namespaces
}

// V1 implements coreinformers.Interface.
func (g coreGroup) V1() coreinformersv1.Interface { return coreVersion{namespaces: g.namespaces} }

type coreVersion struct {
	coreinformersv1.Interface
	namespaces namespaces
}

// Namespaces implements coreinformersv1.Interface.
func (v coreVersion) Namespaces() coreinformersv1.TypedNamespaceInformer { return v.namespaces }

// namespaces is informer and lister in one.
type namespaces struct {
	coreinformersv1.TypedNamespaceInformer
	corelisters.NamespaceListerExpansion
	world *store.Store
}

// Informer implements coreinformersv1.TypedNamespaceInformer.
func (n namespaces) Informer() cache.SharedIndexInformer { return alwaysSynced{} }

type alwaysSynced struct{ cache.SharedIndexInformer }

// HasSynced implements cache.SharedIndexInformer.
func (alwaysSynced) HasSynced() bool { return true }

// Lister implements coreinformersv1.TypedNamespaceInformer.
func (n namespaces) Lister() corelisters.NamespaceLister { return n }

var namespaceGR = schema.GroupResource{Resource: "namespaces"}

// Get implements corelisters.NamespaceLister.
func (n namespaces) Get(name string) (*corev1.Namespace, error) {
	obj, err := n.world.Object(namespaceGR, name)
	if err != nil {
		return nil, err
	}
	if obj == nil {
		return nil, apierrors.NewNotFound(namespaceGR, name)
	}
	out := &corev1.Namespace{}
	return out, corev1conversion.Convert_core_Namespace_To_v1_Namespace(obj.DeepCopyObject().(*api.Namespace), out, nil)
}

// List implements corelisters.NamespaceLister.
func (n namespaces) List(sel labels.Selector) ([]*corev1.Namespace, error) {
	all, err := n.world.Objects(namespaceGR)
	if err != nil {
		return nil, err
	}
	var out []*corev1.Namespace
	for _, o := range all {
		if !sel.Matches(labels.Set(o.(*api.Namespace).Labels)) {
			continue
		}
		ns := &corev1.Namespace{}
		if err := corev1conversion.Convert_core_Namespace_To_v1_Namespace(o.DeepCopyObject().(*api.Namespace), ns, nil); err != nil {
			return nil, err
		}
		out = append(out, ns)
	}
	return out, nil
}

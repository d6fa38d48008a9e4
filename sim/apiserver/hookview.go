package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers/admissionregistration"
	hookinformers "k8s.io/client-go/informers/admissionregistration/v1"
	hooklisters "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"
	hooks "k8s.io/kubernetes/pkg/apis/admissionregistration"
	conversion "k8s.io/kubernetes/pkg/apis/admissionregistration/v1"

	"github.com/opreplay/opreplay/sim/store"
)

// tlsTime is a clock.
type tlsTime = func() time.Time

// hookView is what the webhook plugins see of the world's webhook configurations. In a real API server an
// informer tells them, a little late; here each request asks the store, so that there is nothing to wait
// for, and each sees only those of its webhooks that can be called.
//
// Only one request runs at a time; the lock is for those that come from outside of a world.
type hookView struct {
	world *store.Store

	mu      sync.Mutex
	mutants []*v1.MutatingWebhookConfiguration
	valids  []*v1.ValidatingWebhookConfiguration
	// shown is what the plugins have compiled, by kind and name.
	shown    map[string]string
	handlers map[string][]cache.ResourceEventHandler // by kind
}

func newHookView(world *store.Store) *hookView {
	return &hookView{world: world, shown: map[string]string{}, handlers: map[string][]cache.ResourceEventHandler{}}
}

// forget makes the plugins compile everything anew: another history may have other webhooks by the same names
// and versions.
func (v *hookView) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.shown)
}

const (
	kindMutating   = "mutatingwebhookconfigurations"
	kindValidating = "validatingwebhookconfigurations"
)

func hookResource(kind string) schema.GroupResource {
	return schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: kind}
}

// mutating lists the mutating configurations with those webhooks that can be called.
func (v *hookView) mutating(reachable func(v1.WebhookClientConfig) bool) ([]*v1.MutatingWebhookConfiguration, error) {
	objs, err := v.world.Objects(hookResource(kindMutating))
	if err != nil {
		return nil, err
	}
	var out []*v1.MutatingWebhookConfiguration
	for _, o := range objs {
		c := &v1.MutatingWebhookConfiguration{}
		in := o.DeepCopyObject().(*hooks.MutatingWebhookConfiguration)
		if err := conversion.Convert_admissionregistration_MutatingWebhookConfiguration_To_v1_MutatingWebhookConfiguration(in, c, nil); err != nil {
			return nil, err
		}
		c.Webhooks = filterHooks(c.Webhooks, reachable, func(h v1.MutatingWebhook) v1.WebhookClientConfig { return h.ClientConfig })
		if len(c.Webhooks) > 0 {
			out = append(out, c)
		}
	}
	return out, nil
}

// validating lists the validating webhooks that can be called, each as a configuration of its own, in the
// order of names.
func (v *hookView) validating(reachable func(v1.WebhookClientConfig) bool) ([]*v1.ValidatingWebhookConfiguration, error) {
	objs, err := v.world.Objects(hookResource(kindValidating))
	if err != nil {
		return nil, err
	}
	var out []*v1.ValidatingWebhookConfiguration
	for _, o := range objs {
		c := &v1.ValidatingWebhookConfiguration{}
		in := o.DeepCopyObject().(*hooks.ValidatingWebhookConfiguration)
		if err := conversion.Convert_admissionregistration_ValidatingWebhookConfiguration_To_v1_ValidatingWebhookConfiguration(in, c, nil); err != nil {
			return nil, err
		}
		for i, h := range c.Webhooks {
			if reachable(h.ClientConfig) {
				single := *c
				// The plugin keeps what it compiled by the configuration's name.
				single.Name = fmt.Sprintf("%s#%d", c.Name, i)
				single.Webhooks = []v1.ValidatingWebhook{h}
				out = append(out, &single)
			}
		}
	}
	return out, nil
}

// show makes the given configurations the ones that the plugins see next; nil leaves a kind as it is.
func (v *hookView) show(mutants []*v1.MutatingWebhookConfiguration, valids []*v1.ValidatingWebhookConfiguration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if mutants != nil {
		v.mutants = mutants
		for _, c := range mutants {
			names := make([]string, 0, len(c.Webhooks))
			for _, h := range c.Webhooks {
				names = append(names, h.Name)
			}
			v.changed(kindMutating, c.Name, c.ResourceVersion+" "+strings.Join(names, " "), c)
		}
		v.notify(kindMutating)
	}
	if valids != nil {
		v.valids = valids
		for _, c := range valids {
			v.changed(kindValidating, c.Name, string(c.UID)+" "+c.ResourceVersion, c)
		}
		v.notify(kindValidating)
	}
}

// changed has the plugin forget what it compiled of a configuration that is not the one it saw before.
func (v *hookView) changed(kind, name, is string, obj any) {
	if key := kind + " " + name; v.shown[key] != is {
		v.shown[key] = is
		for _, h := range v.handlers[kind] {
			h.OnUpdate(obj, obj)
		}
	}
}

// notify has the plugin list again. An addition makes it forget nothing.
func (v *hookView) notify(kind string) {
	for _, h := range v.handlers[kind] {
		h.OnAdd(nil, false)
	}
}

type hookGroup struct {
	admissionregistration.Interface
	view *hookView
}

// V1 implements admissionregistration.Interface.
func (g hookGroup) V1() hookinformers.Interface { return hookVersion{view: g.view} }

type hookVersion struct {
	hookinformers.Interface
	view *hookView
}

// MutatingWebhookConfigurations implements hookinformers.Interface.
func (g hookVersion) MutatingWebhookConfigurations() hookinformers.TypedMutatingWebhookConfigurationInformer {
	return mutatingView{view: g.view}
}

// ValidatingWebhookConfigurations implements hookinformers.Interface.
func (g hookVersion) ValidatingWebhookConfigurations() hookinformers.TypedValidatingWebhookConfigurationInformer {
	return validatingView{view: g.view}
}

// viewInformer is an informer that is always up to date.
type viewInformer struct {
	alwaysSynced
	view *hookView
	kind string
}

// AddEventHandler implements cache.SharedIndexInformer.
func (i viewInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.view.handlers[i.kind] = append(i.view.handlers[i.kind], h)
	return i, nil
}

type mutatingView struct {
	hookinformers.TypedMutatingWebhookConfigurationInformer
	hooklisters.MutatingWebhookConfigurationListerExpansion
	view *hookView
}

// Informer implements hookinformers.MutatingWebhookConfigurationInformer.
func (m mutatingView) Informer() cache.SharedIndexInformer {
	return viewInformer{view: m.view, kind: kindMutating}
}

// Lister implements hookinformers.MutatingWebhookConfigurationInformer.
func (m mutatingView) Lister() hooklisters.MutatingWebhookConfigurationLister { return m }

// List implements hooklisters.MutatingWebhookConfigurationLister.
func (m mutatingView) List(labels.Selector) ([]*v1.MutatingWebhookConfiguration, error) {
	return slices.Clone(m.view.mutants), nil
}

// Get implements hooklisters.MutatingWebhookConfigurationLister.
func (m mutatingView) Get(name string) (*v1.MutatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(hookResource(kindMutating), name) // the plugin only lists
}

type validatingView struct {
	hookinformers.TypedValidatingWebhookConfigurationInformer
	hooklisters.ValidatingWebhookConfigurationListerExpansion
	view *hookView
}

// Informer implements hookinformers.ValidatingWebhookConfigurationInformer.
func (m validatingView) Informer() cache.SharedIndexInformer {
	return viewInformer{view: m.view, kind: kindValidating}
}

// Lister implements hookinformers.ValidatingWebhookConfigurationInformer.
func (m validatingView) Lister() hooklisters.ValidatingWebhookConfigurationLister { return m }

// List implements hooklisters.ValidatingWebhookConfigurationLister.
func (m validatingView) List(labels.Selector) ([]*v1.ValidatingWebhookConfiguration, error) {
	return slices.Clone(m.view.valids), nil
}

// Get implements hooklisters.ValidatingWebhookConfigurationLister.
func (m validatingView) Get(name string) (*v1.ValidatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(hookResource(kindValidating), name) // the plugin only lists
}

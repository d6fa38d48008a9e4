package apiserver

import (
	"context"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	certapproval "k8s.io/kubernetes/plugin/pkg/admission/certificates/approval"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/ctbattest"
	certsigning "k8s.io/kubernetes/plugin/pkg/admission/certificates/signing"
	certsubjectrestriction "k8s.io/kubernetes/plugin/pkg/admission/certificates/subjectrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass"
	"k8s.io/kubernetes/plugin/pkg/admission/nodetaint"
	"k8s.io/kubernetes/plugin/pkg/admission/podtopologylabels"
	podpriority "k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/kubernetes/plugin/pkg/admission/security/podsecurity"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageclass/setdefault"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection"

	"github.com/opreplay/opreplay/sim/store"
)

// Plugins of admission, by their names in kube-apiserver's --enable-admission-plugins, in their order there
// (k8s.io/kubernetes/pkg/kubeapiserver/options.AllOrderedPlugins).
const (
	pluginMutatingPolicy   = "MutatingAdmissionPolicy"
	pluginMutatingHooks    = "MutatingAdmissionWebhook"
	pluginTimes            = "opsim-times" // ours
	pluginNames            = "opsim-names" // ours
	pluginValidatingPolicy = "ValidatingAdmissionPolicy"
	pluginValidatingHooks  = "ValidatingAdmissionWebhook"

	// PluginStorageProtection adds the finalizers that keep volumes and claims which are in use. A
	// controller takes them away; without it no claim would ever go.
	PluginStorageProtection = storageobjectinuseprotection.PluginName
)

var defaultPlugins = []string{
	pluginTimes,
	lifecycle.PluginName, limitranger.PluginName, nodetaint.PluginName, podsecurity.PluginName, podpriority.PluginName,
	defaulttolerationseconds.PluginName, setdefault.PluginName, resize.PluginName, runtimeclass.PluginName,
	certapproval.PluginName, certsigning.PluginName, ctbattest.PluginName, certsubjectrestriction.PluginName,
	defaultingressclass.PluginName, podtopologylabels.PluginName,
	pluginMutatingPolicy, pluginMutatingHooks, pluginNames, pluginValidatingPolicy, pluginValidatingHooks, resourcequota.PluginName,
}

// plugins are the names of the plugins in their order, with those that o adds.
func (o *Options) plugins() ([]string, error) {
	out := slices.Clone(defaultPlugins)
	for _, name := range o.EnableAdmission {
		if name != PluginStorageProtection {
			return nil, fmt.Errorf("admission plugin %q: only %s can be enabled", name, PluginStorageProtection)
		}
		out = slices.Insert(out, slices.Index(out, setdefault.PluginName)+1, name)
	}
	return out, nil
}

// newAdmission is the chain of admission plugins.
func (s *Server) newAdmission(client kubernetes.Interface, stop <-chan struct{}) (admission.Interface, error) {
	names, err := s.opts.plugins()
	if err != nil {
		return nil, err
	}
	all := admission.NewPlugins()
	for _, register := range []func(*admission.Plugins){
		lifecycle.Register, limitranger.Register, nodetaint.Register, podsecurity.Register, podpriority.Register,
		defaulttolerationseconds.Register, setdefault.Register, resize.Register, runtimeclass.Register, certapproval.Register,
		certsigning.Register, ctbattest.Register, certsubjectrestriction.Register, defaultingressclass.Register,
		podtopologylabels.Register, storageobjectinuseprotection.Register,
	} {
		register(all)
	}
	hooks, err := newWebhooks(s.opts, s.world, s.hooks, client, s.auth)
	if err != nil {
		return nil, err
	}
	quotas, err := s.newQuotaPlugin()
	if err != nil {
		return nil, err
	}
	ours := map[string]admission.Interface{
		pluginMutatingPolicy: newMutatingPolicies(s), pluginMutatingHooks: mutatingHooks{hooks.mutate, hooks},
		pluginTimes:            &worldTimes{admission.NewHandler(admission.Create, admission.Update), s.world},
		pluginNames:            &nameGenerator{admission.NewHandler(admission.Create), s.world},
		pluginValidatingPolicy: newValidatingPolicies(), pluginValidatingHooks: validatingHooks{hooks.valid, hooks},
		resourcequota.PluginName: quotas,
	}
	for name, p := range ours {
		all.Register(name, func(io.Reader) (admission.Interface, error) { return p, nil })
	}
	dyn, err := dynamic.NewForConfig(s.loop)
	if err != nil {
		return nil, err
	}
	return all.NewFromPlugins(names, noConfig{}, admission.PluginInitializers{initializer.New(client, dyn, newStoreInformers(s.world, nil),
		s.auth, utilfeature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion(), stop, &mapper{server: s, discovery: client.Discovery()})}, nil)
}

// noConfig configures no plugin.
type noConfig struct{}

// ConfigFor implements admission.ConfigProvider.
func (noConfig) ConfigFor(string) (io.Reader, error) { return nil, nil }

// worldTimes has what the API server took from the wall clock be the world's before anybody sees it: webhooks, and the
// client whose update takes the last finalizer of an object that is being deleted, which is answered with what it sent.
type worldTimes struct {
	*admission.Handler
	world *store.Store
}

// Admit implements admission.MutationInterface.
func (t *worldTimes) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if o := a.GetObject(); o != nil {
		t.world.Stamp(o)
	}
	return nil
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
		return nil //nolint:nilerr // no metadata or no wish: the registry has its own opinion
	}
	if hint := store.HintFrom(ctx); hint.Name != "" {
		m.SetName(hint.Name)
		return nil
	}
	m.SetName(g.world.GenerateName(a.GetResource().GroupResource(), a.GetNamespace(), m.GetGenerateName()))
	return nil
}

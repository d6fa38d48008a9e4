package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	_ "unsafe" // for go:linkname

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/opreplay/opreplay/sim/store"
)

// The two plugins of admission policies are the real ones but for where they have policies and schemas
// from: theirs look once a second, or every five, in goroutines of their own.

//go:linkname compileValidating k8s.io/apiserver/pkg/admission/plugin/policy/validating.compilePolicy
func compileValidating(*validating.Policy) validating.Validator

//go:linkname compileMutating k8s.io/apiserver/pkg/admission/plugin/policy/mutating.compilePolicy
func compileMutating(*mutating.Policy) mutating.PolicyEvaluator

// compileMarking is compileMutating, whose mutations the store is told of.
func compileMarking(p *mutating.Policy) mutating.PolicyEvaluator {
	e := compileMutating(p)
	for i, m := range e.Mutators {
		e.Mutators[i] = markingPatcher{m}
	}
	return e
}

type markingPatcher struct{ patch.Patcher }

// Patch implements patch.Patcher.
func (p markingPatcher) Patch(ctx context.Context, r patch.Request, budget int64) (runtime.Object, error) {
	store.Mutated(ctx)
	return p.Patcher.Patch(ctx, r, budget)
}

// validatingPolicies is the plugin ValidatingAdmissionPolicy.
type validatingPolicies struct {
	*generic.Plugin[validating.PolicyHook]
}

func newValidatingPolicies() *validatingPolicies {
	p := &validatingPolicies{generic.NewPlugin(
		admission.NewHandler(admission.Connect, admission.Create, admission.Delete, admission.Update),
		func(f informers.SharedInformerFactory, _ kubernetes.Interface, client dynamic.Interface, mapper meta.RESTMapper) generic.Source[validating.PolicyHook] {
			v1 := f.Admissionregistration().V1()
			return &policies[*validating.Policy, *validating.PolicyBinding, validating.Validator]{
				params: params{client, mapper}, compile: compileValidating, compiled: map[*validating.Policy]validating.Validator{},
				list: func() ([]*validating.Policy, error) {
					return v1.ValidatingAdmissionPolicies().Lister().List(labels.Everything())
				},
				bindings: func() ([]*validating.PolicyBinding, error) {
					return v1.ValidatingAdmissionPolicyBindings().Lister().List(labels.Everything())
				},
				name: func(b *validating.PolicyBinding) string { return b.Spec.PolicyName },
				kind: func(p *validating.Policy) *admissionv1.ParamKind { return p.Spec.ParamKind },
			}
		},
		func(a authorizer.UnconditionalAuthorizer, m *matching.Matcher, _ kubernetes.Interface) generic.Dispatcher[validating.PolicyHook] {
			return validating.NewDispatcher(a, generic.NewPolicyMatcher(m))
		},
	)}
	p.SetEnabled(true)
	return p
}

// Validate implements admission.ValidationInterface.
func (p *validatingPolicies) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.Dispatch(ctx, a, o)
}

// mutatingPolicies is the plugin MutatingAdmissionPolicy.
type mutatingPolicies struct {
	*generic.Plugin[mutating.PolicyHook]
}

func newMutatingPolicies(s *Server) *mutatingPolicies {
	p := &mutatingPolicies{generic.NewPlugin(
		admission.NewHandler(admission.Create, admission.Update, admission.Connect),
		func(f informers.SharedInformerFactory, _ kubernetes.Interface, client dynamic.Interface, mapper meta.RESTMapper) generic.Source[mutating.PolicyHook] {
			v1 := f.Admissionregistration().V1()
			return &policies[*mutating.Policy, *mutating.PolicyBinding, mutating.PolicyEvaluator]{
				params: params{client, mapper}, compile: compileMarking, compiled: map[*mutating.Policy]mutating.PolicyEvaluator{},
				list: func() ([]*mutating.Policy, error) {
					return v1.MutatingAdmissionPolicies().Lister().List(labels.Everything())
				},
				bindings: func() ([]*mutating.PolicyBinding, error) {
					return v1.MutatingAdmissionPolicyBindings().Lister().List(labels.Everything())
				},
				name: func(b *mutating.PolicyBinding) string { return b.Spec.PolicyName },
				kind: func(p *mutating.Policy) *admissionv1.ParamKind { return p.Spec.ParamKind },
			}
		},
		func(a authorizer.UnconditionalAuthorizer, m *matching.Matcher, _ kubernetes.Interface) generic.Dispatcher[mutating.PolicyHook] {
			return mutating.NewDispatcher(a, m, &schemas{server: s, known: map[string]schemaOf{}})
		},
	)}
	p.SetEnabled(true)
	return p
}

// Admit implements admission.MutationInterface.
func (p *mutatingPolicies) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.Dispatch(ctx, a, o)
}

// policies is the source of one kind of policies: at each request those that the store has, by name, each
// with its bindings by name.
type policies[P, B interface {
	comparable
	runtime.Object
	metav1.Object
}, E generic.Evaluator] struct {
	params
	list     func() ([]P, error)
	bindings func() ([]B, error)
	name     func(B) string
	kind     func(P) *admissionv1.ParamKind
	compile  func(P) E

	mu       sync.Mutex
	compiled map[P]E
}

// Run implements generic.Source.
func (*policies[P, B, E]) Run(context.Context) error { return nil }

// HasSynced implements generic.Source.
func (*policies[P, B, E]) HasSynced() bool { return true }

// Hooks implements generic.Source.
func (s *policies[P, B, E]) Hooks() (out []generic.PolicyHook[P, B, E]) {
	all, err := s.list()
	if err != nil || len(all) == 0 {
		return nil
	}
	bound, err := s.bindings()
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[P]E, len(all))
	for _, p := range all {
		hook := generic.PolicyHook[P, B, E]{Policy: p, DynamicClient: s.client, RESTMapper: s.mapper}
		for _, b := range bound {
			if s.name(b) == p.GetName() {
				hook.Bindings = append(hook.Bindings, b)
			}
		}
		if len(hook.Bindings) == 0 {
			continue
		}
		e, ok := s.compiled[p]
		if !ok {
			e = s.compile(p)
		}
		kept[p], hook.Evaluator = e, e
		hook.ParamInformer, hook.ParamScope, hook.ConfigurationError = s.of(s.kind(p))
		out = append(out, hook)
	}
	s.compiled = kept
	return out
}

// params finds the objects that parametrise policies.
type params struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

func (p params) of(kind *admissionv1.ParamKind) (informers.GenericInformer, meta.RESTScope, error) {
	if kind == nil {
		return nil, nil, nil
	}
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to parse paramKind APIVersion: %w", err)
	}
	gvk := gv.WithKind(kind.Kind)
	mapping, err := p.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
	}
	return paramInformer{client: p.client.Resource(mapping.Resource)}, mapping.Scope, nil
}

// paramInformer asks the API server itself.
type paramInformer struct {
	client    dynamic.NamespaceableResourceInterface
	namespace string
}

// Informer implements informers.GenericInformer.
func (paramInformer) Informer() cache.SharedIndexInformer { return alwaysSynced{} }

// Lister implements informers.GenericInformer.
func (p paramInformer) Lister() cache.GenericLister { return p }

// ByNamespace implements cache.GenericLister.
func (p paramInformer) ByNamespace(ns string) cache.GenericNamespaceLister {
	p.namespace = ns
	return p
}

func (p paramInformer) scoped() dynamic.ResourceInterface {
	if p.namespace != "" {
		return p.client.Namespace(p.namespace)
	}
	return p.client
}

// List implements cache.GenericLister.
func (p paramInformer) List(sel labels.Selector) (out []runtime.Object, err error) {
	list, err := p.scoped().List(context.Background(), metav1.ListOptions{LabelSelector: sel.String()})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// Get implements cache.GenericLister.
func (p paramInformer) Get(name string) (runtime.Object, error) {
	return p.scoped().Get(context.Background(), name, metav1.GetOptions{})
}

// schemas has the schemas that mutating policies merge by, from the OpenAPI documents as they are.
type schemas struct {
	server *Server

	mu    sync.Mutex
	known map[string]schemaOf // by the document's path
}

// schemaOf is what a document gave.
type schemaOf struct {
	managedfields.TypeConverter
	docs *crdDocs // as they were; the documents of built-in kinds do not change
}

var _ patch.TypeConverterManager = &schemas{}

// Run implements patch.TypeConverterManager.
func (*schemas) Run(context.Context) {}

// GetTypeConverter implements patch.TypeConverterManager.
func (s *schemas) GetTypeConverter(gvk schema.GroupVersionKind) managedfields.TypeConverter {
	path := "/openapi/v3/apis/" + gvk.Group + "/" + gvk.Version
	if gvk.Group == "" {
		path = "/openapi/v3/api/" + gvk.Version
	}
	docs := s.server.customs.docs.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.known[path]; ok && (c.docs == docs || s.server.builtinVersions[metav1.GroupVersion{Group: gvk.Group, Version: gvk.Version}]) {
		return c.TypeConverter
	}
	delete(s.known, path)
	resp, err := s.server.get(detached{context.Background()}, path, "application/json")
	if err != nil || resp.code != http.StatusOK {
		return nil
	}
	var doc spec3.OpenAPI
	if err := json.Unmarshal(resp.body, &doc); err != nil || doc.Components == nil {
		return nil
	}
	c, err := managedfields.NewTypeConverter(doc.Components.Schemas, false)
	if err != nil {
		return nil
	}
	s.known[path] = schemaOf{c, docs}
	return c
}

// mapper is a REST mapper that reads discovery when it is asked, once for the CRDs as they are.
type mapper struct {
	meta.RESTMapper
	server    *Server
	discovery discovery.DiscoveryInterface

	mu   sync.Mutex
	docs *crdDocs // that have was made of
	have meta.RESTMapper
}

// RESTMapping implements meta.RESTMapper.
func (m *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	docs := m.server.customs.docs.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.docs != docs {
		groups, err := restmapper.GetAPIGroupResources(m.discovery)
		if err != nil {
			return nil, err
		}
		m.have, m.docs = restmapper.NewDiscoveryRESTMapper(groups), docs
	}
	return m.have.RESTMapping(gk, versions...)
}

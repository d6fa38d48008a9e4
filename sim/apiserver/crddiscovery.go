package apiserver

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	autoscaling "k8s.io/api/autoscaling/v1"
	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery"
)

// crdDocs is what discovery says of custom resources, and what their OpenAPI documents are made of. It does
// not change once published.
type crdDocs struct {
	groups map[string]*crdGroup
	// crds are those that are served, by name.
	crds  []*apiextensionsv1.CustomResourceDefinition
	epoch int
	key   string // tells two states apart
}

func newCRDDocs(epoch int) *crdDocs {
	return &crdDocs{epoch: epoch, groups: map[string]*crdGroup{}, key: fmt.Sprintln(epoch)}
}

// crdGroup is an API group with its versions, the preferred one first.
type crdGroup struct {
	handler  http.Handler
	versions []*crdVersion
}

type crdVersion struct {
	gv        schema.GroupVersion
	handler   http.Handler
	plain     []metav1.APIResource
	resources []apidiscoveryv2.APIResourceDiscovery
	crds      []*apiextensionsv1.CustomResourceDefinition
}

func (d *crdDocs) group(name string) http.Handler {
	if g := d.groups[name]; g != nil {
		return g.handler
	}
	return nil
}

func (d *crdDocs) version(group, name string) http.Handler {
	if g := d.groups[group]; g != nil {
		for _, v := range g.versions {
			if v.gv.Version == name {
				return v.handler
			}
		}
	}
	return nil
}

// publish puts what is served into discovery and OpenAPI, the way of
// k8s.io/apiextensions-apiserver/pkg/apiserver.DiscoveryController, but in an order that is always the same.
func (c *customs) publish() {
	docs := describeCRDs(c.epoch, c.view.all())
	before := c.docs.Load()
	if docs.key == before.key {
		return
	}
	for _, name := range sortedKeys(before.groups) {
		if docs.groups[name] == nil {
			c.groups.RemoveGroup(name)
		}
	}
	for _, name := range sortedKeys(docs.groups) {
		c.announce(name, before.groups[name], docs.groups[name])
	}
	c.docs.Store(docs)
}

// announce tells the aggregated document of a group.
func (c *customs) announce(name string, before, after *crdGroup) {
	if before != nil {
		for _, v := range before.versions {
			if !slices.ContainsFunc(after.versions, func(o *crdVersion) bool { return o.gv == v.gv }) {
				c.groups.RemoveGroupVersion(metav1.GroupVersion(v.gv))
			}
		}
	}
	for _, v := range after.versions {
		c.groups.AddGroupVersion(name, apidiscoveryv2.APIVersionDiscovery{
			Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: v.gv.Version, Resources: v.resources,
		})
		// As the CRDs of a real cluster (kube-aggregator's crdregistration).
		c.groups.SetGroupVersionPriority(metav1.GroupVersion(v.gv), 1000, 100)
	}
}

// describeCRDs makes the documents of CRDs that come by name. Two histories, epochs, may have different ones by
// one uid and generation.
func describeCRDs(epoch int, crds []*apiextensionsv1.CustomResourceDefinition) *crdDocs {
	docs := newCRDDocs(epoch)
	versions := map[schema.GroupVersion]*crdVersion{}
	for _, crd := range crds {
		if !apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			continue
		}
		docs.crds = append(docs.crds, crd)
		docs.key += fmt.Sprintf("%s %s %d %v %v\n", crd.Name, crd.UID, crd.Generation, crd.Status.AcceptedNames, terminating(crd))
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			gv := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}
			if versions[gv] == nil {
				versions[gv] = &crdVersion{gv: gv}
			}
			versions[gv].add(crd)
		}
	}
	for gv, v := range versions {
		v.handler = discovery.NewAPIVersionHandler(crdserver.Codecs, gv, discovery.APIResourceListerFunc(func() []metav1.APIResource { return v.plain }))
		if docs.groups[gv.Group] == nil {
			docs.groups[gv.Group] = &crdGroup{}
		}
		g := docs.groups[gv.Group]
		g.versions = append(g.versions, v)
	}
	for _, name := range slices.Sorted(maps.Keys(docs.groups)) {
		docs.groups[name].finish(name)
	}
	return docs
}

func (g *crdGroup) finish(name string) {
	slices.SortFunc(g.versions, func(a, b *crdVersion) int {
		return version.CompareKubeAwareVersionStrings(b.gv.Version, a.gv.Version)
	})
	group := metav1.APIGroup{Name: name}
	for _, v := range g.versions {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v.gv.String(), Version: v.gv.Version})
	}
	group.PreferredVersion = group.Versions[0]
	g.handler = discovery.NewAPIGroupHandler(crdserver.Codecs, group)
}

func terminating(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating)
}

// add describes one CRD in this version.
func (v *crdVersion) add(crd *apiextensionsv1.CustomResourceDefinition) {
	v.crds = append(v.crds, crd)
	names := crd.Status.AcceptedNames
	verbs := metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	if terminating(crd) {
		verbs = metav1.Verbs{"delete", "deletecollection", "get", "list", "watch"}
	}
	namespaced, scope := crd.Spec.Scope == apiextensionsv1.NamespaceScoped, apidiscoveryv2.ScopeCluster
	if namespaced {
		scope = apidiscoveryv2.ScopeNamespace
	}
	v.plain = append(v.plain, metav1.APIResource{
		Name: names.Plural, SingularName: names.Singular, Namespaced: namespaced, Kind: names.Kind, Verbs: verbs,
		ShortNames: names.ShortNames, Categories: names.Categories, StorageVersionHash: storageVersionHash(crd),
	})
	kind := metav1.GroupVersionKind{Group: v.gv.Group, Version: v.gv.Version, Kind: names.Kind}
	resource := apidiscoveryv2.APIResourceDiscovery{
		Resource: names.Plural, SingularResource: names.Singular, Scope: scope, ResponseKind: &kind, Verbs: verbs,
		ShortNames: names.ShortNames, Categories: names.Categories,
	}
	sub := metav1.Verbs{"get", "patch", "update"}
	// A version that is not there has none; this one is.
	have, _ := apiextensionshelpers.GetSubresourcesForVersion(crd, v.gv.Version)
	if have != nil && have.Status != nil {
		v.plain = append(v.plain, metav1.APIResource{Name: names.Plural + "/status", Namespaced: namespaced, Kind: names.Kind, Verbs: sub})
		resource.Subresources = append(resource.Subresources, apidiscoveryv2.APISubresourceDiscovery{Subresource: "status", ResponseKind: &kind, Verbs: sub})
	}
	if have != nil && have.Scale != nil {
		v.plain = append(v.plain, metav1.APIResource{
			Group: autoscaling.GroupName, Version: "v1", Kind: "Scale", Name: names.Plural + "/scale", Namespaced: namespaced, Verbs: sub,
		})
		resource.Subresources = append(resource.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: "scale", ResponseKind: &metav1.GroupVersionKind{Group: autoscaling.GroupName, Version: "v1", Kind: "Scale"}, Verbs: sub,
		})
	}
	v.resources = append(v.resources, resource)
}

func storageVersionHash(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range crd.Spec.Versions {
		if v.Served && v.Storage {
			return discovery.StorageVersionHash(crd.Spec.Group, v.Name, crd.Spec.Names.Kind)
		}
	}
	return ""
}

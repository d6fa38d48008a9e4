package apiserver

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
)

// stable and unstable are the group versions that kube-apiserver 1.37 can serve: the stable ones it does, the
// others on request.
//
// k8s.io/kubernetes/pkg/controlplane says the same (DefaultAPIResourceConfigSource; a test compares them), and
// links two hundred packages that nothing here uses: controllers, kube-aggregator, pod security, authenticators.
const (
	stable = `v1 admissionregistration.k8s.io/v1 apps/v1 authentication.k8s.io/v1 authorization.k8s.io/v1 autoscaling/v1
		autoscaling/v2 batch/v1 certificates.k8s.io/v1 coordination.k8s.io/v1 discovery.k8s.io/v1 events.k8s.io/v1
		flowcontrol.apiserver.k8s.io/v1 networking.k8s.io/v1 node.k8s.io/v1 policy/v1 rbac.authorization.k8s.io/v1
		resource.k8s.io/v1 scheduling.k8s.io/v1 storage.k8s.io/v1 storagemigration.k8s.io/v1`
	unstable = `admissionregistration.k8s.io/v1alpha1 admissionregistration.k8s.io/v1beta1 authentication.k8s.io/v1alpha1
		authentication.k8s.io/v1beta1 certificates.k8s.io/v1alpha1 certificates.k8s.io/v1beta1
		coordination.k8s.io/v1alpha2 coordination.k8s.io/v1beta1 flowcontrol.apiserver.k8s.io/v1beta1
		flowcontrol.apiserver.k8s.io/v1beta2 flowcontrol.apiserver.k8s.io/v1beta3 internal.apiserver.k8s.io/v1alpha1
		lifecycle.k8s.io/v1alpha1 networking.k8s.io/v1beta1 resource.k8s.io/v1alpha3 resource.k8s.io/v1beta1
		resource.k8s.io/v1beta2 scheduling.k8s.io/v1alpha3 scheduling.k8s.io/v1beta1 storage.k8s.io/v1alpha1
		storage.k8s.io/v1beta1 storagemigration.k8s.io/v1beta1`
)

// defaultVersions is what a kube-apiserver without flags serves.
func defaultVersions() *serverstorage.ResourceConfig {
	c := serverstorage.NewResourceConfig()
	c.EnableVersions(groupVersions(stable)...)
	c.DisableVersions(groupVersions(unstable)...)
	return c
}

func groupVersions(list string) (out []schema.GroupVersion) {
	for _, name := range strings.Fields(list) {
		group, version, ok := strings.Cut(name, "/")
		if !ok {
			group, version = "", name
		}
		out = append(out, schema.GroupVersion{Group: group, Version: version})
	}
	return out
}

// provider makes the registries of one group. All of k8s.io/kubernetes/pkg/registry/*/rest are such.
type provider interface {
	GroupName() string
	NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error)
}

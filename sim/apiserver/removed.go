package apiserver

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// removedVersion is an API version that Kubernetes no longer serves but has the types of. Old operators ask
// for them; a world that pretends to be an old enough cluster has them, over the same objects.
type removedVersion struct {
	group, version string
	until          uint   // minor version of Kubernetes 1 that no longer served it
	resources      string // those it had, each with its subresources
	from           string // groups that have them now; "" for the same one
}

// https://kubernetes.io/docs/reference/using-api/deprecation-guide/
var removedVersions = []removedVersion{
	{"extensions", "v1beta1", 16, "daemonsets deployments replicasets networkpolicies", "apps networking.k8s.io"},
	{"extensions", "v1beta1", 22, "ingresses", "networking.k8s.io"},
	{"apps", "v1beta1", 16, "controllerrevisions deployments statefulsets", ""},
	{"apps", "v1beta2", 16, "controllerrevisions daemonsets deployments replicasets statefulsets", ""},
	{"admissionregistration.k8s.io", "v1beta1", 22, "mutatingwebhookconfigurations validatingwebhookconfigurations", ""},
	{"authentication.k8s.io", "v1beta1", 22, "tokenreviews", ""},
	{"authorization.k8s.io", "v1beta1", 22, "localsubjectaccessreviews selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews", ""},
	{"certificates.k8s.io", "v1beta1", 22, "certificatesigningrequests", ""},
	{"coordination.k8s.io", "v1beta1", 22, "leases", ""},
	{"networking.k8s.io", "v1beta1", 22, "ingresses ingressclasses", ""},
	{"rbac.authorization.k8s.io", "v1beta1", 22, "clusterrolebindings clusterroles rolebindings roles", ""},
	{"scheduling.k8s.io", "v1beta1", 22, "priorityclasses", ""},
	{"storage.k8s.io", "v1beta1", 22, "csidrivers csinodes storageclasses volumeattachments", ""},
	{"batch", "v1beta1", 25, "cronjobs", ""},
	{"discovery.k8s.io", "v1beta1", 25, "endpointslices", ""},
	{"events.k8s.io", "v1beta1", 25, "events", ""},
	{"node.k8s.io", "v1beta1", 25, "runtimeclasses", ""},
	{"policy", "v1beta1", 25, "poddisruptionbudgets", ""},
	{"storage.k8s.io", "v1beta1", 27, "csistoragecapacities", ""},
	{"flowcontrol.apiserver.k8s.io", "v1beta1", 26, "flowschemas prioritylevelconfigurations", ""},
	{"flowcontrol.apiserver.k8s.io", "v1beta2", 29, "flowschemas prioritylevelconfigurations", ""},
	{"flowcontrol.apiserver.k8s.io", "v1beta3", 32, "flowschemas prioritylevelconfigurations", ""},
}

// crdBetaUntil is when apiextensions.k8s.io/v1beta1 went.
const crdBetaUntil = 22

// before tells whether a version of Kubernetes is older than 1.MINOR.
func before(version string, minor uint) bool {
	v, err := utilversion.ParseGeneric(version)
	return err == nil && v.Major() == 1 && v.Minor() < minor
}

// addRemoved adds the versions that a cluster of VERSION still has to the groups of today.
func addRemoved(version string, groups []*genericapiserver.APIGroupInfo) ([]*genericapiserver.APIGroupInfo, error) {
	find := func(name string) *genericapiserver.APIGroupInfo {
		i := slices.IndexFunc(groups, func(g *genericapiserver.APIGroupInfo) bool { return g.PrioritizedVersions[0].Group == name })
		if i < 0 {
			return nil
		}
		return groups[i]
	}
	for _, r := range removedVersions {
		if !before(version, r.until) {
			continue
		}
		to := find(r.group)
		if to == nil {
			g := genericapiserver.NewDefaultAPIGroupInfo(r.group, legacyscheme.Scheme, legacyscheme.ParameterCodec, legacyscheme.Codecs)
			to = &g
			groups = append(groups, to)
		}
		from := r.from
		if from == "" {
			from = r.group
		}
		gv := schema.GroupVersion{Group: r.group, Version: r.version}
		if !slices.Contains(to.PrioritizedVersions, gv) {
			return nil, fmt.Errorf("the types of %s are gone", gv)
		}
		for _, name := range strings.Fields(from) {
			r.add(to, find(name))
		}
	}
	return groups, nil
}

// add has the storages of a group's resources serve this version too.
func (r removedVersion) add(to, from *genericapiserver.APIGroupInfo) {
	into := to.VersionedResourcesStorageMap[r.version]
	if into == nil {
		into = map[string]rest.Storage{}
		to.VersionedResourcesStorageMap[r.version] = into
	}
	for _, path := range sortedKeys(from.VersionedResourcesStorageMap["v1"]) {
		name, _, _ := strings.Cut(path, "/")
		if slices.Contains(strings.Fields(r.resources), name) {
			into[path] = from.VersionedResourcesStorageMap["v1"][path]
		}
	}
}

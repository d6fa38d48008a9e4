package apiserver

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	apiservicestore "k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
	apiservicerest "k8s.io/kube-aggregator/pkg/registry/apiservice/rest"
)

var apiServiceGR = apiregistration.Resource("apiservices")

func init() {
	// As k8s.io/kube-aggregator/pkg/apiserver does, which nothing here links.
	v1 := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(aggregatorscheme.Scheme, v1)
	aggregatorscheme.Scheme.AddUnversionedTypes(v1, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
}

// installAPIServices adds APIServices as objects: they can be read, written and watched, and nothing follows
// from them. A real API server keeps one for each of its own groups and versions, those of CRDs included;
// here are only those that were recorded or written.
func (s *Server) installAPIServices() error {
	enabled := serverstorage.NewResourceConfig()
	enabled.EnableVersions(apiregistrationv1.SchemeGroupVersion)
	group := apiservicerest.NewRESTStorage(enabled, s.restOptions(aggregatorscheme.Codecs.LegacyCodec(apiregistrationv1.SchemeGroupVersion), apiregistrationv1.SchemeGroupVersion, false), false)
	if !s.opts.Live {
		v1 := group.VersionedResourcesStorageMap[apiregistrationv1.SchemeGroupVersion.Version]
		services := v1["apiservices"].(*apiservicestore.REST)
		v1["apiservices"] = apiServices{services, agedTables{services, s.opts.Clock}}
	}
	return s.builtin.InstallAPIGroup(&group)
}

// apiServices is their registry with tables of the world's.
type apiServices struct {
	*apiservicestore.REST
	tables agedTables
}

// ConvertToTable implements rest.TableConvertor.
func (r apiServices) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.tables.ConvertToTable(ctx, obj, options)
}

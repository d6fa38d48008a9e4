package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
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
	return s.builtin.InstallAPIGroup(&group)
}

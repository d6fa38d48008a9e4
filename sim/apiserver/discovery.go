package apiserver

import (
	"encoding/json"
	"net/http"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// groupList answers an unaggregated GET /apis with all groups. In a real cluster kube-aggregator does;
// the embedded server by itself leaves out those of CRDs.
func (s *Server) groupList(h http.Handler) http.Handler {
	list := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := s.get(r.Context(), "/apis", aggregatedType)
		if err != nil || resp.code != http.StatusOK {
			h.ServeHTTP(w, r)
			return
		}
		var doc apidiscoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal(resp.body, &doc); err != nil {
			h.ServeHTTP(w, r)
			return
		}
		all := groups(doc)
		w.Header().Set("Cache-Control", "no-cache, private")
		responsewriters.WriteObjectNegotiated(legacyscheme.Codecs, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{},
			w, r, http.StatusOK, &all, false)
	})
	either := aggregated.WrapAggregatedDiscoveryToHandler(list, h, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := http.Handler(either)
		switch r.URL.Path {
		case "/apis":
		case "/apis/":
			answer = list // whatever is asked for
		default:
			h.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodGet {
			r = r.Clone(r.Context())
			r.Method = http.MethodGet // kube-aggregator does not look at it
		}
		answer.ServeHTTP(w, r)
	})
}

// groupByAnyMethod has the document of one group answered whatever a request's method is: kube-aggregator, which gives it
// in a real cluster, does not look at it (k8s.io/kube-aggregator/pkg/apiserver.apiGroupHandler). Its own group is
// served by go-restful there too, which does.
func groupByAnyMethod(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		group, ok := strings.CutPrefix(r.URL.Path, "/apis/")
		group = strings.TrimSuffix(group, "/")
		if ok && group != "" && !strings.Contains(group, "/") && group != apiregistration.GroupName && r.Method != http.MethodGet {
			r = r.Clone(r.Context())
			r.Method = http.MethodGet
		}
		h.ServeHTTP(w, r)
	})
}

func groups(doc apidiscoveryv2.APIGroupDiscoveryList) metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, g := range doc.Items {
		group := metav1.APIGroup{Name: g.Name}
		for _, v := range g.Versions {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{
				GroupVersion: g.Name + "/" + v.Version, Version: v.Version,
			})
		}
		if len(group.Versions) > 0 {
			group.PreferredVersion = group.Versions[0]
		}
		list.Groups = append(list.Groups, group)
	}
	return list
}

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// asOne has the two servers, of built-in and of custom resources, answered for as one: their version, groups and
// documents. In a real cluster kube-aggregator does; it too comes behind authorization.
func (s *Server) asOne(h http.Handler) http.Handler { return s.version(s.groupDocuments(s.openAPI(h))) }

// groupDocuments answers GET /apis and /apis/GROUP, unless the aggregated form is asked for. As in kube-aggregator
// (k8s.io/kube-aggregator/pkg/apiserver, apisHandler and apiGroupHandler) a request's method does not matter, and any
// form that a client accepts will do. The aggregator's own group it answers otherwise, by go-restful.
func (s *Server) groupDocuments(h http.Handler) http.Handler {
	negotiated := codecs(legacyscheme.Scheme, s.opts)
	document := func(of func(metav1.APIGroupList) runtime.Object) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			all, err := s.groupList(r.Context())
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			if doc := of(all); doc != nil {
				responsewriters.WriteObjectNegotiated(negotiated, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{},
					w, r, http.StatusOK, doc, false)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	list := document(func(all metav1.APIGroupList) runtime.Object { return &all })
	either := aggregated.WrapAggregatedDiscoveryToHandler(list, h, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, "/apis/")
		name = strings.TrimSuffix(name, "/")
		switch {
		case r.URL.Path == "/apis":
			either.ServeHTTP(w, asGet(r))
		case r.URL.Path == "/apis/":
			list.ServeHTTP(w, r) // whatever is asked for
		case !ok || name == "" || strings.Contains(name, "/") || name == apiregistration.GroupName:
			h.ServeHTTP(w, r)
		default:
			document(func(all metav1.APIGroupList) runtime.Object {
				for _, g := range all.Groups {
					if g.Name == name {
						g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
						return &g
					}
				}
				return nil
			}).ServeHTTP(w, r)
		}
	})
}

// asGet is the request as one that go-restful answers with what there is to read.
func asGet(r *http.Request) *http.Request {
	if r.Method == http.MethodGet {
		return r
	}
	r = r.Clone(r.Context())
	r.Method = http.MethodGet
	return r
}

// groupList is what groups there are, those of CRDs included.
func (s *Server) groupList(ctx context.Context) (list metav1.APIGroupList, err error) {
	resp, err := s.get(ctx, "/apis", aggregatedType)
	if err != nil {
		return list, err
	}
	if resp.code != http.StatusOK {
		return list, fmt.Errorf("GET /apis: %d: %s", resp.code, resp.body)
	}
	var doc apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(resp.body, &doc); err != nil {
		return list, fmt.Errorf("GET /apis: %d: %w", resp.code, err)
	}
	return groups(doc), nil
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

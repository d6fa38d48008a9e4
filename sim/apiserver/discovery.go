package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// servedResource is what discovery says of a custom resource in one version.
type servedResource struct {
	group, version, resource string
	kind, short, sub         string
}

func describe(crd *apiextensions.CustomResourceDefinition, v apiextensions.CustomResourceDefinitionVersion) servedResource {
	names := crd.Status.AcceptedNames
	d := servedResource{
		group: crd.Spec.Group, version: v.Name, resource: names.Plural,
		kind: names.Kind, short: strings.Join(names.ShortNames, " "),
	}
	var sub []string
	if r := subresourcesOf(crd, v); r != nil {
		if r.Status != nil {
			sub = append(sub, "status")
		}
		if r.Scale != nil {
			sub = append(sub, "scale")
		}
	}
	d.sub = strings.Join(sub, " ")
	return d
}

// subresourcesOf are a version's own, or those of the whole CRD (its internal form hoists equal ones).
func subresourcesOf(crd *apiextensions.CustomResourceDefinition, v apiextensions.CustomResourceDefinitionVersion) *apiextensions.CustomResourceSubresources {
	if v.Subresources != nil {
		return v.Subresources
	}
	return crd.Spec.Subresources
}

// discoveryLacks compares discovery with what should be served, beyond the built-in groups.
func (s *Server) discoveryLacks(ctx context.Context, want map[servedResource]bool) (string, error) {
	resp, err := s.get(ctx, "/apis", aggregatedType)
	if err != nil {
		return "", err
	}
	if resp.code != http.StatusOK {
		return fmt.Sprintf("discovery answers %d", resp.code), nil
	}
	if etag := resp.header.Get("Etag"); s.discovered.etag != etag || etag == "" {
		listed, err := s.customResources(resp.body)
		if err != nil {
			return "", err
		}
		s.discovered = discovered{etag, listed}
	}
	for r := range want {
		if !s.discovered.custom[r] {
			return fmt.Sprintf("discovery lacks %s.%s/%s", r.resource, r.group, r.version), nil
		}
	}
	for r := range s.discovered.custom {
		if !want[r] {
			return fmt.Sprintf("discovery still has %s.%s/%s", r.resource, r.group, r.version), nil
		}
	}
	return "", nil
}

// discovered is the last discovery document that was read.
type discovered struct {
	etag   string
	custom map[servedResource]bool
}

// customResources lists what a discovery document has beyond the built-in groups and versions.
func (s *Server) customResources(doc []byte) (map[servedResource]bool, error) {
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(doc, &list); err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	out := map[servedResource]bool{}
	for _, g := range list.Items {
		for _, v := range g.Versions {
			if s.builtinVersions[metav1.GroupVersion{Group: g.Name, Version: v.Version}] {
				continue
			}
			for _, r := range v.Resources {
				var sub []string
				for _, x := range r.Subresources {
					sub = append(sub, x.Subresource)
				}
				d := servedResource{
					group: g.Name, version: v.Version, resource: r.Resource,
					short: strings.Join(r.ShortNames, " "), sub: strings.Join(sub, " "),
				}
				if r.ResponseKind != nil {
					d.kind = r.ResponseKind.Kind
				}
				out[d] = true
			}
		}
	}
	return out, nil
}

// groupList answers an unaggregated GET /apis with all groups. In a real cluster kube-aggregator does;
// the embedded server by itself leaves out those of CRDs.
func (s *Server) groupList(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.TrimSuffix(r.URL.Path, "/") != "/apis" || r.Method != http.MethodGet ||
			slices.ContainsFunc(r.Header.Values("Accept"), func(a string) bool { return strings.Contains(a, "as=APIGroupDiscoveryList") }) {
			h.ServeHTTP(w, r)
			return
		}
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
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(groups(doc)) // fails when the client left
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

package recorder

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/version"

	"github.com/opreplay/opreplay/traces"
)

// crd is the part of a CustomResourceDefinition that says what to watch.
type crd struct {
	Metadata struct {
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural string `json:"plural"`
			Kind   string `json:"kind"`
		} `json:"names"`
		Scope    string `json:"scope"`
		Versions []struct {
			Name         string `json:"name"`
			Served       bool   `json:"served"`
			Subresources struct {
				Status *struct{} `json:"status"`
				Scale  *struct{} `json:"scale"`
			} `json:"subresources"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// follow is told of every CustomResourceDefinition, and of every change of one: once it is established,
// its resource is watched.
func (c *capture) follow(raw string) {
	var d crd
	if json.Unmarshal([]byte(raw), &d) != nil {
		return // a CRD that the API server itself could not have read
	}
	r, ok := d.resource()
	if !ok || c.excludes(r) || c.watches(r) {
		return
	}
	err := c.s.w.Update(func(m *traces.Manifest) {
		if !slices.ContainsFunc(m.Resources, func(o traces.Resource) bool { return gvrOf(&o) == gvrOf(&r) }) {
			m.Resources = append(m.Resources, r)
		}
	})
	if err != nil {
		c.s.fail(err)
		return
	}
	c.start(r)
}

// resource is what an established CRD serves, in the version that discovery would prefer.
func (d *crd) resource() (traces.Resource, bool) {
	established := slices.ContainsFunc(d.Status.Conditions, func(c struct {
		Type   string `json:"type"`
		Status string `json:"status"`
	},
	) bool {
		return c.Type == "Established" && c.Status == "True"
	})
	if !established || d.Metadata.DeletionTimestamp != "" {
		return traces.Resource{}, false
	}
	r := traces.Resource{
		Group: d.Spec.Group, Resource: d.Spec.Names.Plural, Kind: d.Spec.Names.Kind, Namespaced: d.Spec.Scope == "Namespaced",
	}
	for _, v := range d.Spec.Versions {
		if !v.Served || (r.Version != "" && version.CompareKubeAwareVersionStrings(v.Name, r.Version) <= 0) {
			continue
		}
		r.Version, r.Subresources = v.Name, nil
		if v.Subresources.Status != nil {
			r.Subresources = append(r.Subresources, "status")
		}
		if v.Subresources.Scale != nil {
			r.Subresources = append(r.Subresources, "scale")
		}
	}
	return r, r.Version != ""
}

// unfollow is told of every CustomResourceDefinition that is gone, by its name, which is PLURAL.GROUP.
func (c *capture) unfollow(name string) {
	c.mu.Lock()
	delete(c.established, name)
	c.mu.Unlock()
}

// watches notes that the resource is established and says whether it is watched, in whatever version:
// all are views of the same objects.
func (c *capture) watches(r traces.Resource) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.established[gvrOf(&r).GroupResource().String()] = true
	for _, w := range c.running {
		if !w.absent && gvrOf(&w.resource).GroupResource() == gvrOf(&r).GroupResource() {
			return true
		}
	}
	return false
}

func (c *capture) excludes(r traces.Resource) bool {
	return slices.ContainsFunc(c.plan.excluded, func(o traces.Resource) bool {
		return gvrOf(&o).GroupResource() == gvrOf(&r).GroupResource()
	})
}

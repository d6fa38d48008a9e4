package recorder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// apiResource is a resource as discovery shows it, with the names that it goes by.
type apiResource struct {
	traces.Resource
	names     []string // plural, singular, short names, kind; lower case
	versions  []string // all that serve it; Resource.Version is the one to watch
	watchable bool     // list and watch
}

func (r *apiResource) gvr() schema.GroupVersionResource { return gvrOf(&r.Resource) }

func gvrOf(r *traces.Resource) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

var crds = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// plan is what a capture watches.
type plan struct {
	resources []traces.Resource
	excluded  []traces.Resource
	// follow: resources of CRDs that come later are watched too.
	follow bool
	losses []traces.Loss
	served map[schema.GroupVersionResource]bool // all that the cluster serves, watched or not
}

// serves says whether the cluster served a resource when the recording began.
func (p *plan) serves(group, version, resource string) bool {
	return p.served[schema.GroupVersionResource{Group: group, Version: version, Resource: resource}]
}

func (p *plan) manifest() []traces.Resource {
	if p == nil {
		return nil
	}
	return slices.Clone(p.resources)
}

// newPlan discovers what the cluster serves and chooses what to watch.
func newPlan(ctx context.Context, c *cluster, o *Options) (*plan, error) {
	all, losses, err := discover(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := o.lookForNamespaces(ctx, c); err != nil {
		return nil, err
	}
	p := &plan{losses: losses, follow: len(o.Resources) == 0, served: map[schema.GroupVersionResource]bool{}}
	for _, r := range all {
		p.served[r.gvr()] = true
	}
	excluded := map[*apiResource]bool{}
	for _, name := range o.Exclude {
		r, err := find(all, "--exclude", name)
		if err != nil {
			return nil, err
		}
		excluded[r] = true
		p.excluded = append(p.excluded, r.Resource)
	}
	chosen := map[*apiResource]bool{}
	for _, name := range o.Resources {
		r, err := find(all, "--resource", name)
		if err != nil {
			return nil, err
		}
		if !r.watchable {
			return nil, cli.Usagef("--resource %s: the cluster serves it, but not to list and watch", name)
		}
		chosen[r] = true
	}
	for _, r := range all {
		if r.watchable && !excluded[r] && (chosen[r] || p.follow && !isAlias(all, r)) {
			p.resources = append(p.resources, r.Resource)
		}
	}
	if len(p.resources) == 0 {
		return nil, cli.Usagef("nothing is left to watch: --exclude takes out all that --resource chooses")
	}
	return p, nil
}

// lookForNamespaces says which of the namespaces to watch are not there. They may come yet, so that it is no error
// unless none is there. Whoever may not read them gets the benefit of the doubt.
func (o *Options) lookForNamespaces(ctx context.Context, c *cluster) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return cli.Usagef("the kubeconfig for %s: %w", c.server, err)
	}
	var missing []string
	for _, ns := range o.Namespaces {
		if errs := validation.IsDNS1123Label(ns); len(errs) > 0 {
			return cli.Usagef("--namespace %q: no namespace can be called so: %s", ns, errs[0])
		}
		if _, err := client.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			missing = append(missing, ns)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, ", ")
	if len(missing) == len(o.Namespaces) {
		return cli.Usagef("--namespace %s: the cluster has no such namespace; make it first if it is to come", names)
	}
	o.note("--namespace %s: not there yet", names)
	return nil
}

// isAlias finds the resources that are a second view of objects that are watched anyway.
func isAlias(all []*apiResource, r *apiResource) bool {
	switch r.Group {
	case "events.k8s.io": // the same objects as events of the core group
	case "extensions": // until 1.22, the old home of apps, networking and policy
	default:
		return false
	}
	return slices.ContainsFunc(all, func(o *apiResource) bool { return o.Resource.Resource == r.Resource.Resource && o.Group != r.Group })
}

// discover lists the resources in the order of discovery (the core group first), each in its group's
// preferred version. Groups that don't answer, mostly aggregated API servers that are down, are losses.
func discover(ctx context.Context, c *cluster) ([]*apiResource, []traces.Loss, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, nil, err
	}
	groups, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
	var losses []traces.Loss
	if failed, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); ok {
		for gv, err := range failed.Groups {
			losses = append(losses, newLoss("capture/"+gv.String(), -1, "discovery failed, not watched: "+err.Error()))
		}
		slices.SortFunc(losses, func(a, b traces.Loss) int { return strings.Compare(a.Source, b.Source) })
	} else if err != nil {
		if apierrors.IsForbidden(err) {
			return nil, nil, cli.Usagef("the user %q may not discover the API of %s", c.user, c.server)
		}
		return nil, nil, cli.CannotRun(fmt.Errorf("discover the API of %s: %w", c.server, root(err)))
	}
	byVersion := map[string]*metav1.APIResourceList{}
	for _, l := range lists {
		byVersion[l.GroupVersion] = l
	}
	var all []*apiResource
	for _, g := range groups {
		all = append(all, groupResources(g, byVersion)...)
	}
	return all, losses, nil
}

// groupResources merges a group's versions: the preferred one first, then as the server orders them.
func groupResources(g *metav1.APIGroup, byVersion map[string]*metav1.APIResourceList) []*apiResource {
	versions := slices.Clone(g.Versions)
	slices.SortStableFunc(versions, func(a, b metav1.GroupVersionForDiscovery) int {
		switch preferred := g.PreferredVersion.GroupVersion; {
		case a.GroupVersion == preferred && b.GroupVersion != preferred:
			return -1
		case b.GroupVersion == preferred && a.GroupVersion != preferred:
			return 1
		}
		return 0
	})
	var out []*apiResource
	byName := map[string]*apiResource{}
	for _, v := range versions {
		list := byVersion[v.GroupVersion]
		if list == nil {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if strings.Contains(r.Name, "/") {
				continue
			}
			known := byName[r.Name]
			if known == nil {
				known = newResource(g.Name, v.Version, r)
				for j := range list.APIResources {
					if sub, ok := strings.CutPrefix(list.APIResources[j].Name, r.Name+"/"); ok {
						known.Subresources = append(known.Subresources, sub)
					}
				}
				byName[r.Name] = known
				out = append(out, known)
			}
			known.versions = append(known.versions, v.Version)
		}
	}
	return out
}

func newResource(group, version string, r *metav1.APIResource) *apiResource {
	out := &apiResource{
		Resource: traces.Resource{
			Group: group, Version: version, Resource: r.Name, Kind: r.Kind, Namespaced: r.Namespaced,
		},
		watchable: slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch"),
	}
	for _, n := range append([]string{r.Name, r.SingularName, r.Kind}, r.ShortNames...) {
		if n != "" {
			out.names = append(out.names, strings.ToLower(n))
		}
	}
	return out
}

// find is the resource that a name stands for: NAME, NAME.GROUP or NAME.VERSION.GROUP, where NAME is a
// plural, singular or short name or a kind. Of several groups the first in discovery's order, as with
// kubectl. With a version, that version is watched.
func find(all []*apiResource, flag, name string) (*apiResource, error) {
	want := strings.ToLower(name)
	plain, rest, qualified := strings.Cut(want, ".")
	for _, r := range all {
		if !slices.Contains(r.names, plain) {
			continue
		}
		if !qualified || rest == r.Group {
			return r, nil
		}
		version, group, _ := strings.Cut(rest, ".")
		if group == r.Group && slices.Contains(r.versions, version) {
			r.Version = version
			return r, nil
		}
	}
	message := fmt.Sprintf("%s %s: the cluster serves no such resource", flag, name)
	if near := nearest(all, plain); len(near) > 0 {
		message += "; near it are " + strings.Join(near, ", ")
	} else {
		message += "; kubectl api-resources lists them"
	}
	return nil, cli.Usagef("%s", message)
}

// nearest are up to three resources with names within an edit distance of a third of the name.
func nearest(all []*apiResource, name string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, r := range all {
		best := -1
		for _, n := range r.names {
			d := distance(name, n)
			if strings.HasPrefix(n, name) || strings.HasPrefix(name, n) && len(n) > 3 {
				d = min(d, 1)
			}
			if best < 0 || d < best {
				best = d
			}
		}
		if best >= 0 && best <= max(1, len(name)/3) {
			found = append(found, candidate{r.gvr().GroupResource().String(), best})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.distance - b.distance })
	var out []string
	for _, c := range found[:min(3, len(found))] {
		out = append(out, c.name)
	}
	return out
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

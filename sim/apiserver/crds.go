package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var crdGR = apiextensions.Resource("customresourcedefinitions")

// amendTimes names the times outside metadata that the API server itself fills from the wall clock.
// A CRD's conditions must be the world's: creates of custom resources wait for two seconds after
// Established.
func amendTimes(obj runtime.Object, fix func(*metav1.Time)) {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return
	}
	for i := range crd.Status.Conditions {
		fix(&crd.Status.Conditions[i].LastTransitionTime)
	}
}

// settleTimeout bounds the wait after one CRD write, in wall time. The internal controllers need some
// ten milliseconds.
const settleTimeout = 30 * time.Second

// mayFree reports whether a write to PATH may let go a CRD that is held by its resources' finalizers.
func (s *Server) mayFree(path string) bool {
	s.settleMu.Lock()
	defer s.settleMu.Unlock()
	for _, gr := range s.held {
		if strings.HasPrefix(path, "/apis/"+gr.Group+"/") && strings.Contains(path, "/"+gr.Resource) {
			return true
		}
	}
	return false
}

// settling answers a write of a CRD only when its consequences are in place, so that a client which got
// the answer can use the new kind at once and nothing is left to a race.
func (s *Server) settling(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || !strings.HasPrefix(r.URL.Path, "/apis/apiextensions.k8s.io/") && !s.mayFree(r.URL.Path) {
			h.ServeHTTP(w, r)
			return
		}
		held := &heldAnswer{ResponseWriter: w}
		h.ServeHTTP(held, r)
		// Not the request's context: the write stands even if its client has left.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), settleTimeout)
		defer cancel()
		if err := s.Settle(ctx); err != nil {
			w.Header().Add("Warning", fmt.Sprintf("299 - %q", err.Error()))
		}
		held.release()
	})
}

// heldAnswer keeps an answer until it is released.
type heldAnswer struct {
	http.ResponseWriter
	code int
	body []byte
}

// WriteHeader implements http.ResponseWriter.
func (w *heldAnswer) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

// Write implements http.ResponseWriter.
func (w *heldAnswer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, b...)
	return len(b), nil
}

// Flush implements http.Flusher: not before the release.
func (w *heldAnswer) Flush() {}

func (w *heldAnswer) release() {
	if w.code != 0 {
		w.ResponseWriter.WriteHeader(w.code)
	}
	_, _ = w.ResponseWriter.Write(w.body) // fails when the client left
}

// Settle waits until the API server's own controllers have drawn all consequences from the CRDs as they
// are: every accepted one is Established, its versions are served as its newest spec has them, discovery
// lists exactly what is served, and deleted ones are gone. It fails when ctx ends before that, and says
// what was missing.
//
// Two kinds of CRD settle without being served: one whose names were refused, and a deleted one whose
// custom resources all wait for their finalizers. The write that lets the last of those go is answered when
// the CRD is gone, which takes up to five seconds of wall time: so often does its controller look. (One that
// is held for more than a minute of wall time gets a condition that says so, whenever that is.)
//
// Handler calls it after every write of a CRD. OpenAPI documents may follow a little later.
func (s *Server) Settle(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 10*time.Millisecond) {
		missing, err := s.unsettled(ctx)
		if err != nil {
			return err
		}
		if missing == "" {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("CRDs have not settled: %s: %w", missing, ctx.Err())
		}
	}
}

// unsettled names the first thing that is still to come, "" for none.
func (s *Server) unsettled(ctx context.Context) (string, error) {
	s.settleMu.Lock()
	defer s.settleMu.Unlock()
	objs, err := s.world.Objects(crdGR)
	if err != nil {
		return "", err
	}
	present := map[string]bool{}
	served := map[servedResource]bool{}
	for _, o := range objs {
		crd := o.(*apiextensions.CustomResourceDefinition)
		present[crd.Name] = true
		if crd.Status.AcceptedNames.Plural != "" && established(crd) {
			for _, v := range crd.Spec.Versions {
				if v.Served {
					served[describe(crd, v)] = true
				}
			}
		}
		if s.settled[crd.Name] == crd.ResourceVersion {
			continue
		}
		if missing := s.unsettledCRD(ctx, crd); missing != "" {
			return crd.Name + ": " + missing, nil
		}
	}
	if missing, err := s.discoveryLacks(ctx, served); err != nil || missing != "" {
		return missing, err
	}
	clear(s.settled)
	s.held = nil
	for _, o := range objs {
		crd := o.(*apiextensions.CustomResourceDefinition)
		if crd.DeletionTimestamp != nil {
			s.held = append(s.held, resourceOf(crd))
			continue // until its last resource goes
		}
		s.settled[crd.Name] = crd.ResourceVersion
	}
	return "", nil
}

// unsettledCRD names what one CRD is still waiting for.
func (s *Server) unsettledCRD(ctx context.Context, crd *apiextensions.CustomResourceDefinition) string {
	seen, err := s.crds.Informers.Apiextensions().V1().CustomResourceDefinitions().Lister().Get(crd.Name)
	if err != nil || seen.ResourceVersion != crd.ResourceVersion {
		return "the controllers have not seen it"
	}
	if apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) &&
		condition(crd, apiextensions.KubernetesAPIApprovalPolicyConformant) == "" {
		return "no verdict on its API group"
	}
	gr := resourceOf(crd)
	switch names := condition(crd, apiextensions.NamesAccepted); {
	case crd.DeletionTimestamp != nil:
		if condition(crd, apiextensions.Terminating) == apiextensions.ConditionTrue && s.heldByFinalizers(gr) {
			return ""
		}
		return "it is being deleted"
	case names == apiextensions.ConditionFalse:
		return ""
	case names == "":
		return "its names are not accepted"
	case !equality.Semantic.DeepEqual(crd.Status.AcceptedNames, crd.Spec.Names):
		return "its new names are not accepted"
	case !established(crd):
		return "it is not established"
	}
	return s.unserved(ctx, crd, gr)
}

// unserved names a version of crd that is not served as its newest spec has it.
func (s *Server) unserved(ctx context.Context, crd *apiextensions.CustomResourceDefinition, gr schema.GroupResource) string {
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		path := fmt.Sprintf("/apis/%s/%s/%s?limit=1", crd.Spec.Group, v.Name, crd.Spec.Names.Plural)
		resp, err := s.get(ctx, path, "application/json")
		if err != nil {
			return err.Error()
		}
		// Other codes than these mean that it is served: a conversion that fails, for example.
		if resp.code == http.StatusNotFound || resp.code == http.StatusServiceUnavailable {
			return fmt.Sprintf("version %s is not served", v.Name)
		}
	}
	// A changed spec has the handler drop the resource's registry, and the request above opens a new
	// one in the store.
	opened, ok := s.world.Opened(gr)
	if changed := s.world.ChangedAt(crdGR, crd.Name, sameSpec); !ok || opened < changed {
		return "its old spec is still served"
	}
	return ""
}

func sameSpec(a, b runtime.Object) bool {
	return a.(*apiextensions.CustomResourceDefinition).Generation == b.(*apiextensions.CustomResourceDefinition).Generation
}

func resourceOf(crd *apiextensions.CustomResourceDefinition) schema.GroupResource {
	return schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
}

// heldByFinalizers tells whether a resource has objects, and finalizers keep all of them: the controller that
// deletes them has done what it can.
func (s *Server) heldByFinalizers(gr schema.GroupResource) bool {
	objs, err := s.world.Objects(gr)
	if err != nil {
		return false
	}
	for _, o := range objs {
		if m, ok := o.(metav1.Object); ok && (m.GetDeletionTimestamp() == nil || len(m.GetFinalizers()) == 0) {
			return false
		}
	}
	return len(objs) > 0
}

func established(crd *apiextensions.CustomResourceDefinition) bool {
	return condition(crd, apiextensions.Established) == apiextensions.ConditionTrue
}

// condition is the status of a condition, "" for one that is not there.
func condition(crd *apiextensions.CustomResourceDefinition, t apiextensions.CustomResourceDefinitionConditionType) apiextensions.ConditionStatus {
	for _, c := range crd.Status.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return ""
}

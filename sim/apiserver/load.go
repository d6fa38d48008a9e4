package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// Recorded is an object as a trace holds it.
type Recorded struct {
	schema.GroupVersionResource
	// Object is the whole object as JSON. apiVersion and kind may be missing, as in the items of a
	// list.
	Object []byte
}

// Skipped is a recorded object that is not in the world.
type Skipped struct {
	schema.GroupVersionResource
	Namespace, Name string
	Reason          error
}

// LoadError reports objects that could not be loaded. All others are in the world.
type LoadError struct {
	Total   int
	Skipped []Skipped
}

// Error implements error: one line with every reason once and the resources it concerns.
func (e *LoadError) Error() string {
	var reasons []string
	count := map[string]int{}
	for _, s := range e.Skipped {
		r := s.GroupResource().String() + ": " + s.Reason.Error()
		if count[r]++; count[r] == 1 {
			reasons = append(reasons, r)
		}
	}
	for i, r := range reasons {
		if n := count[r]; n > 1 {
			reasons[i] = fmt.Sprintf("%s (%d objects)", r, n)
		}
	}
	return fmt.Sprintf("%d of %d recorded objects could not be loaded: %s", len(e.Skipped), e.Total, strings.Join(reasons, "; "))
}

// recordedObject is a Recorded that was read.
type recordedObject struct {
	Recorded
	u   *unstructured.Unstructured
	rev uint64
}

// Load puts recorded objects into the world as they were: uid, resourceVersion, times, managedFields and
// status unchanged, nothing validated, defaulted anew or admitted. Objects of the same names are
// replaced; new versions continue after the highest. CRDs go first and are settled, so that their custom
// resources can follow in the same call.
//
// A custom resource is stored in the version that it was recorded in, as a real cluster would have it
// after a change of storage version; reading it in another version converts.
//
// A built-in object goes through the decoder of its version, as if read from etcd by this version of
// Kubernetes: fields that it does not know are lost, fields that are new get their defaults.
//
// Objects that this API server has no API for are left out and reported in a *LoadError. Any other error
// leaves the world half loaded.
//
// Load before clients come: history begins with it, and a watch from an older version gets 410 Gone.
func (s *Server) Load(ctx context.Context, objs []Recorded) error {
	failed := &LoadError{Total: len(objs)}
	read := make([]recordedObject, 0, len(objs))
	var highest uint64
	for _, o := range objs {
		r, err := readRecorded(o)
		if err != nil {
			failed.skip(o, r.u, err)
			continue
		}
		highest = max(highest, r.rev)
		read = append(read, r)
	}
	// In the order of their versions, as they were written: resources keep their history in it.
	slices.SortStableFunc(read, func(a, b recordedObject) int { return cmp.Compare(a.rev, b.rev) })
	if err := s.adoptRange(ctx, read); err != nil {
		return fmt.Errorf("the range of the recorded Services: %w", err)
	}
	// First, so that what the CRDs' controllers write comes after all that was recorded.
	s.world.AdvanceTo(highest)
	for _, crds := range []bool{true, false} {
		for _, r := range read {
			if (r.GroupResource() == crdGR) != crds {
				continue
			}
			if err := s.customs.open(r.GroupResource()); err != nil {
				failed.skip(r.Recorded, r.u, err)
				continue
			}
			if err := s.loadOne(r); err != nil {
				failed.skip(r.Recorded, r.u, err)
			}
		}
		if err := s.Settle(ctx); err != nil {
			return fmt.Errorf("after loading CRDs: %w", err)
		}
	}
	if len(failed.Skipped) > 0 {
		return failed
	}
	return nil
}

func (e *LoadError) skip(o Recorded, u *unstructured.Unstructured, reason error) {
	sk := Skipped{GroupVersionResource: o.GroupVersionResource, Reason: reason}
	if u != nil {
		sk.Namespace, sk.Name = u.GetNamespace(), u.GetName()
	}
	e.Skipped = append(e.Skipped, sk)
}

func readRecorded(o Recorded) (recordedObject, error) {
	r := recordedObject{Recorded: o, u: &unstructured.Unstructured{}}
	if err := r.u.UnmarshalJSON(withTypeMeta(o)); err != nil {
		return r, fmt.Errorf("not a JSON object: %w", err)
	}
	if r.u.GetName() == "" {
		return r, errors.New("no metadata.name")
	}
	rev, err := storage.APIObjectVersioner{}.ParseResourceVersion(r.u.GetResourceVersion())
	if err != nil {
		return r, fmt.Errorf("metadata.resourceVersion %q is not a number", r.u.GetResourceVersion())
	}
	r.rev = rev
	return r, nil
}

// unknownKind stands in where the recording has no kind; the resource tells it.
const unknownKind = "unknown"

// withTypeMeta is the recorded text with a kind in any case, without which it does not count as an object.
func withTypeMeta(o Recorded) []byte {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(o.Object, &head); err != nil || head.Kind != "" {
		return o.Object
	}
	i := bytes.IndexByte(o.Object, '{')
	rest := bytes.TrimSpace(o.Object[i+1:])
	sep := ","
	if len(rest) > 0 && rest[0] == '}' {
		sep = ""
	}
	return append([]byte(`{"kind":"`+unknownKind+`"`+sep), rest...)
}

func (s *Server) loadOne(r recordedObject) error {
	gr := r.GroupResource()
	example := s.world.NewObject(gr)
	if example == nil {
		return errors.New("this API server does not serve the resource")
	}
	if _, ok := example.(runtime.Unstructured); ok {
		return s.loadCustom(r)
	}
	u := r.u.DeepCopy()
	u.SetAPIVersion(r.GroupVersion().String())
	if u.GetKind() == "" || u.GetKind() == unknownKind {
		kinds, _, err := schemeOf(gr).ObjectKinds(example)
		if err != nil {
			return err
		}
		u.SetKind(kinds[0].Kind)
	}
	data, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	obj, err := runtime.Decode(decoderOf(gr), data)
	if err != nil {
		return err
	}
	return s.world.Load(gr, obj, nil)
}

// loadCustom stores a custom resource as it is.
func (s *Server) loadCustom(r recordedObject) error {
	u := r.u.DeepCopy()
	u.SetAPIVersion(r.GroupVersion().String())
	if u.GetKind() == unknownKind {
		kind := s.world.NewObject(r.GroupResource()).GetObjectKind().GroupVersionKind().Kind
		u.SetKind(kind)
	}
	stored := u.DeepCopy()
	stored.SetResourceVersion("")
	data, err := runtime.Encode(unstructured.UnstructuredJSONScheme, stored)
	if err != nil {
		return err
	}
	return s.world.Load(r.GroupResource(), u, data)
}

func schemeOf(gr schema.GroupResource) *runtime.Scheme {
	switch gr {
	case crdGR:
		return crdserver.Scheme
	case apiServiceGR:
		return aggregatorscheme.Scheme
	}
	return legacyscheme.Scheme
}

func decoderOf(gr schema.GroupResource) runtime.Decoder {
	switch gr {
	case crdGR:
		return crdserver.Codecs.UniversalDecoder()
	case apiServiceGR:
		return aggregatorscheme.Codecs.UniversalDecoder()
	}
	return legacyscheme.Codecs.UniversalDecoder()
}

package store

import (
	"bytes"
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A custom resource is opened once for each of its versions, and again when its definition changes. An
// object that is stored in another version than the one it is asked for in is converted when it is decoded,
// possibly by a webhook, which only a request can wait for. The functions here see to it that a request does.

type lastingKey struct{}

// WithLasting has watches that begin with the returned context go on when EndWatches ends the others.
func WithLasting(ctx context.Context) context.Context {
	return context.WithValue(ctx, lastingKey{}, true)
}

// EndWatches ends the external watches of a resource that are open now, each when its client has got what
// was committed before. A real API server ends those of a custom resource so, when its definition changes
// or goes.
func (s *Store) EndWatches(gr schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.resources[gr]
	if r == nil {
		return
	}
	end := s.state.journal(r.prefix).end()
	for _, w := range s.streams {
		if w.r.prefix != r.prefix || !w.external || w.ending || w.ctx.Value(lastingKey{}) != nil {
			continue
		}
		w.ending, w.endAt = true, end
		w.wakeUp()
	}
}

// CloseResource forgets how a resource is read and written: its definition has changed or gone. Its objects stay, and
// the next registry that is opened over them has them.
func (s *Store) CloseResource(gr schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.resources, gr)
	maps.DeleteFunc(s.versions, func(_ string, r *resource) bool { return r.gr == gr })
}

// Prepare decodes what open watches have yet to tell their clients and have to have converted for it. It is
// called from within the request that committed it.
func (s *Store) Prepare() {
	s.mu.Lock()
	var work []func()
	for _, w := range s.streams {
		if w.r.version == "" {
			continue
		}
		j := s.state.journal(w.r.prefix)
		for i := max(w.prepared, w.cursor, j.dropped); i < j.end(); i++ {
			if c := j.changes[i-j.dropped]; w.concerns(c.key) {
				work = append(work, func() { w.prepare(c.before, c.after) })
			}
		}
		w.prepared = j.end()
	}
	s.mu.Unlock()
	for _, f := range work {
		f()
	}
}

// prepareAll does the same for one watch and all that it begins with.
func (w *stream) prepareAll() {
	if w.r.version == "" {
		return
	}
	w.r.s.mu.Lock()
	initial := w.initial
	w.r.s.mu.Unlock()
	w.prepare(initial...)
	w.r.s.Prepare()
}

// prepare decodes entries that are stored in another version. One that cannot be decoded fails again when
// its turn comes.
func (w *stream) prepare(entries ...*entry) {
	for _, e := range entries {
		if e != nil && w.r.foreign(e) {
			_, _ = e.object(w.r)
		}
	}
}

// foreign reports whether an entry is stored in another version than the resource's.
func (r *resource) foreign(e *entry) bool {
	// As k8s.io/apimachinery/pkg/apis/meta/v1/unstructured.UnstructuredJSONScheme writes it, by name of field.
	return r.version != "" && !bytes.HasPrefix(e.data, []byte(`{"apiVersion":"`+r.version+`"`))
}

// versionOf is the apiVersion of a custom resource, "" for built-in kinds.
func versionOf(example runtime.Object) string {
	if _, ok := example.(runtime.Unstructured); !ok {
		return ""
	}
	return example.GetObjectKind().GroupVersionKind().GroupVersion().String()
}

// in is the resource that an object of its version is loaded by. mu is held.
func (s *Store) in(gr schema.GroupResource, obj runtime.Object) *resource {
	if r := s.versions[gr.String()+" "+versionOf(obj)]; r != nil {
		return r
	}
	return s.resources[gr]
}

// Count is the number of objects of a resource.
func (s *Store) Count(gr schema.GroupResource) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.resources[gr]; r != nil {
		ascend(s.state.objects, r.prefix, r.prefix, func(*entry) bool { n++; return true })
	}
	return n
}

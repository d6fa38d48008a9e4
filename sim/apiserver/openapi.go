package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	apiextensionsfeatures "k8s.io/apiextensions-apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	openapiaggregator "k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/cached"
	openapihandler "k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// documents joins the OpenAPI documents of built-in and custom resources, which two servers have. In a real
// cluster kube-aggregator does, and controllers follow the CRDs. These are made when somebody asks, from the
// CRDs as they are.
type documents struct {
	server *Server
	v2     *openapihandler.OpenAPIService
	serve2 http.Handler
	v3     *handler3.OpenAPIService

	mu   sync.Mutex
	have *crdDocs // that the documents were made of
}

// openAPI serves the documents.
func (s *Server) openAPI(h http.Handler) http.Handler {
	d := &documents{server: s, v2: openapihandler.NewOpenAPIService(&spec.Swagger{})}
	d.v2.RegisterOpenAPIVersionedService("/openapi/v2", d)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimSuffix(r.URL.Path, "/")
		if path != "/openapi/v2" && path != "/openapi/v3" && !strings.HasPrefix(path, "/openapi/v3/") {
			h.ServeHTTP(w, r)
			return
		}
		if err := d.update(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer := &timeless{ResponseWriter: w, now: s.opts.Clock(), index: path == "/openapi/v3"}
		w = answer
		r.Header.Del("If-Modified-Since")
		if path == "/openapi/v2" {
			d.serve2.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
		if !answer.wrote {
			// There is no such document. The handler says nothing then; kube-aggregator says that.
			w.Header().Del("Vary")
			w.WriteHeader(http.StatusNotFound)
		}
	})
}

// Handle implements common.PathHandler: it is told what to serve with.
func (d *documents) Handle(_ string, h http.Handler) { d.serve2 = h }

// update brings the documents up to date with the CRDs. They are made later, when they are asked for.
func (d *documents) update(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	docs := d.server.customs.docs.Load()
	if d.have == docs {
		return nil
	}
	if d.have == nil {
		d.server.definitions.ensure(d.server.builtin)
		d.v3 = d.server.builtin.OpenAPIV3VersionedService
		if err := d.addStatic(ctx); err != nil {
			return err
		}
	}
	for _, path := range d.have.paths() {
		if _, ok := docs.at(path); !ok {
			d.v3.DeleteGroupVersion(path)
		}
	}
	for _, path := range docs.paths() {
		now, _ := docs.at(path)
		if was, ok := d.have.at(path); ok && d.have.epoch == docs.epoch && was.key() == now.key() {
			continue
		}
		if !d.isBuiltin(path) {
			d.v3.UpdateGroupVersionLazy(path, cached.Once(cached.Func(func() (*spec3.OpenAPI, string, error) {
				doc, err := now.openAPI3()
				return doc, fmt.Sprintln(docs.epoch, now.key()), err
			})))
		}
	}
	d.v2.UpdateSpecLazy(cached.Once(cached.Func(func() (*spec.Swagger, string, error) { return d.join2(docs) })))
	d.have = docs
	return nil
}

// isBuiltin tells whether a group version has resources of both kinds; the built-in ones are shown then.
func (d *documents) isBuiltin(path string) bool {
	for gv := range d.server.builtinVersions {
		if path == "apis/"+gv.Group+"/"+gv.Version {
			return true
		}
	}
	return false
}

// addStatic adds the documents of the CRDs' own API.
func (d *documents) addStatic(ctx context.Context) error {
	custom := d.server.customs.server.UnprotectedHandler()
	for _, path := range []string{"apis/apiextensions.k8s.io", "apis/apiextensions.k8s.io/v1"} {
		resp, err := d.server.callOn(ctx, custom, http.MethodGet, "/openapi/v3/"+path, "application/json", nil)
		if err != nil {
			return err
		}
		if resp.code != http.StatusOK {
			return fmt.Errorf("GET /openapi/v3/%s: %d", path, resp.code)
		}
		doc := &spec3.OpenAPI{}
		if err := json.Unmarshal(resp.body, doc); err != nil {
			return fmt.Errorf("GET /openapi/v3/%s: %w", path, err)
		}
		d.v3.UpdateGroupVersionLazy(path, cached.Static(doc, path))
	}
	return nil
}

// paths are those of /openapi/v3 that custom resources have, in order.
func (d *crdDocs) paths() (out []string) {
	if d == nil {
		return nil
	}
	for _, name := range sortedKeys(d.groups) {
		for _, v := range d.groups[name].versions {
			out = append(out, "apis/"+v.gv.Group+"/"+v.gv.Version)
		}
	}
	return out
}

func (d *crdDocs) at(path string) (v *crdVersion, ok bool) {
	if d == nil {
		return nil, false
	}
	group, name, _ := strings.Cut(strings.TrimPrefix(path, "apis/"), "/")
	if g := d.groups[group]; g != nil {
		for _, v := range g.versions {
			if v.gv.Version == name {
				return v, true
			}
		}
	}
	return nil, false
}

// key tells two states of a version apart.
func (v *crdVersion) key() (key string) {
	for _, crd := range v.crds {
		key += fmt.Sprintf("%s %s %d %v\n", crd.Name, crd.UID, crd.Generation, crd.Status.AcceptedNames)
	}
	return key
}

func openAPIOptions(v2 bool) builder.Options {
	return builder.Options{V2: v2, IncludeSelectableFields: utilfeature.DefaultFeatureGate.Enabled(apiextensionsfeatures.CustomResourceFieldSelectors)}
}

func (v *crdVersion) openAPI3() (*spec3.OpenAPI, error) {
	var specs []*spec3.OpenAPI
	for _, crd := range v.crds {
		if s, err := builder.BuildOpenAPIV3(crd, v.gv.Version, openAPIOptions(false)); err == nil { // as upstream
			specs = append(specs, s)
		}
	}
	return builder.MergeSpecsV3(specs...)
}

// openAPI2 is the version 2 document of all custom resources and of the CRDs' own API.
func (d *crdDocs) openAPI2(static *spec.Swagger) (*spec.Swagger, error) {
	var specs []*spec.Swagger
	for _, crd := range d.crds {
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			s, err := builder.BuildOpenAPIV2(crd, v.Name, openAPIOptions(true))
			if err != nil {
				continue // as upstream
			}
			// The static document has its defaults pruned too.
			s.Definitions = openapihandler.PruneDefaults(s.Definitions)
			specs = append(specs, s)
		}
	}
	return builder.MergeSpecs(static, specs...)
}

// join2 makes the version 2 document of everything.
func (d *documents) join2(docs *crdDocs) (*spec.Swagger, string, error) {
	custom, err := docs.openAPI2(d.server.customs.server.StaticOpenAPISpec)
	if err != nil {
		return nil, "", fmt.Errorf("joining OpenAPI documents: %w", err)
	}
	all := *d.server.builtin.StaticOpenAPISpec
	paths := *all.Paths
	paths.Paths = maps.Clone(paths.Paths)
	all.Paths, all.Definitions, all.Parameters = &paths, maps.Clone(all.Definitions), maps.Clone(all.Parameters)
	if err := openapiaggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(&all, custom); err != nil {
		return nil, "", fmt.Errorf("joining OpenAPI documents: %w", err)
	}
	return &all, docs.key, nil
}

// timeless puts the world's time where the handlers of documents write the wall clock's.
type timeless struct {
	http.ResponseWriter
	now   time.Time
	index bool // the list of documents
	wrote bool
}

// WriteHeader implements http.ResponseWriter.
func (w *timeless) WriteHeader(code int) {
	w.wrote = true
	for name, t := range map[string]time.Time{"Last-Modified": w.now, "Expires": w.now.AddDate(1, 0, 0)} {
		if h := w.Header(); h.Get(name) != "" {
			h.Set(name, t.UTC().Format(http.TimeFormat))
		}
	}
	if w.index && code == http.StatusOK {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8") // kube-aggregator says nothing, and that is what is guessed
	}
	w.ResponseWriter.WriteHeader(code)
}

// Flush implements http.Flusher.
func (w *timeless) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"

	openapiaggregator "k8s.io/kube-openapi/pkg/aggregator"
	openapihandler "k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// openAPI joins the OpenAPI documents of built-in and custom resources, which two servers have. In a
// real cluster kube-aggregator does.
func (s *Server) openAPI(h http.Handler) http.Handler {
	v2 := &joinedV2{server: s}
	v2.service = openapihandler.NewOpenAPIService(&spec.Swagger{})
	v2.service.RegisterOpenAPIVersionedService("/openapi/v2", v2)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimSuffix(r.URL.Path, "/"); {
		case path == "/openapi/v2":
			v2.ServeHTTP(w, r)
		case path == "/openapi/v3":
			s.openAPIv3Root(w, r)
		case strings.HasPrefix(path, "/openapi/v3/") && s.customOpenAPI(r.Context(), strings.TrimPrefix(path, "/openapi/v3/")):
			s.customHandler().ServeHTTP(w, r)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

func (s *Server) customHandler() http.Handler { return s.crds.GenericAPIServer.UnprotectedHandler() }

// v3Root is the index of /openapi/v3.
type v3Root struct {
	Paths map[string]json.RawMessage `json:"paths"`
}

func (s *Server) openAPIv3Root(w http.ResponseWriter, r *http.Request) {
	all, err := fetchV3Root(r.Context(), s.inner)
	if err == nil {
		var custom v3Root
		custom, err = fetchV3Root(r.Context(), s.customHandler())
		for path, item := range custom.Paths {
			if _, ok := all.Paths[path]; !ok {
				all.Paths[path] = item
			}
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // fails when the client left
}

// customOpenAPI tells whether a document of /openapi/v3 is the custom resources' own.
func (s *Server) customOpenAPI(ctx context.Context, path string) bool {
	custom, err := fetchV3Root(ctx, s.customHandler())
	if err != nil || custom.Paths[path] == nil {
		return false
	}
	builtin, err := fetchV3Root(ctx, s.inner)
	return err == nil && builtin.Paths[path] == nil
}

func fetchV3Root(ctx context.Context, h http.Handler) (v3Root, error) {
	var root v3Root
	body, _, err := fetch(ctx, h, "/openapi/v3")
	if err != nil {
		return root, err
	}
	if err := json.Unmarshal(body, &root); err != nil {
		return root, fmt.Errorf("GET /openapi/v3: %w", err)
	}
	return root, nil
}

func fetch(ctx context.Context, h http.Handler, path string) (body []byte, etag string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://kube-apiserver"+path, nil)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := (&inProcess{handler: func() http.Handler { return h }, context: internal}).RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close() //nolint:errcheck // a buffer
	if resp.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("GET %s: %d", path, resp.StatusCode)
	}
	body, err = io.ReadAll(resp.Body)
	return body, resp.Header.Get("Etag"), err
}

// joinedV2 serves /openapi/v2. It joins anew when the custom resources' document has changed.
type joinedV2 struct {
	server  *Server
	service *openapihandler.OpenAPIService
	serve   http.Handler

	mu   sync.Mutex
	etag string
}

// Handle implements common.PathHandler: it is told what to serve with.
func (j *joinedV2) Handle(_ string, h http.Handler) { j.serve = h }

// ServeHTTP implements http.Handler.
func (j *joinedV2) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := j.update(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	j.serve.ServeHTTP(w, r)
}

func (j *joinedV2) update(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	body, etag, err := fetch(ctx, j.server.customHandler(), "/openapi/v2")
	if err != nil {
		return err
	}
	if etag != "" && etag == j.etag {
		return nil
	}
	var custom spec.Swagger
	if err := json.Unmarshal(body, &custom); err != nil {
		return fmt.Errorf("GET /openapi/v2: %w", err)
	}
	all := *j.server.builtin.StaticOpenAPISpec
	paths := *all.Paths
	paths.Paths = maps.Clone(paths.Paths)
	all.Paths, all.Definitions, all.Parameters = &paths, maps.Clone(all.Definitions), maps.Clone(all.Parameters)
	if err := openapiaggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(&all, &custom); err != nil {
		return fmt.Errorf("joining OpenAPI documents: %w", err)
	}
	if err := j.service.UpdateSpec(&all); err != nil {
		return err
	}
	j.etag = etag
	return nil
}

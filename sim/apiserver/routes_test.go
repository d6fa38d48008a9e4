package apiserver

import (
	"errors"
	"net/http"
	"testing"

	"github.com/emicklei/go-restful/v3"
)

// TestRememberedRoutes: what is remembered is what the router itself chooses, for each method, media type and path, and
// a request that has no route is refused each time.
func TestRememberedRoutes(t *testing.T) {
	service := new(restful.WebService).Path("/api/v1").Consumes("application/json").Produces("application/json")
	handler := func(*restful.Request, *restful.Response) {}
	service.Route(service.GET("/pods/{name}").To(handler).Operation("read"))
	service.Route(service.DELETE("/pods/{name}").To(handler).Operation("delete"))
	service.Route(service.PATCH("/pods/{name}").Consumes("application/merge-patch+json").To(handler).Operation("patch"))
	service.Route(service.GET("/pods/{name}/log").Produces("text/plain").To(handler).Operation("log"))
	services := []*restful.WebService{service}
	var r rememberingRouter
	for range 2 {
		for _, c := range []struct {
			method, path, contentType, accept string
			want                              string
			code                              int
		}{
			{"GET", "/api/v1/pods/a", "", "application/json", "read", 0},
			{"GET", "/api/v1/pods/b", "", "application/json", "read", 0},
			{"DELETE", "/api/v1/pods/a", "", "application/json", "delete", 0},
			{"PATCH", "/api/v1/pods/a", "application/merge-patch+json", "application/json", "patch", 0},
			{"PATCH", "/api/v1/pods/a", "application/yaml", "application/json", "", http.StatusUnsupportedMediaType},
			{"GET", "/api/v1/pods/a", "", "image/png", "", http.StatusNotAcceptable},
			{"GET", "/api/v1/pods/a/log", "", "text/plain", "log", 0},
			{"POST", "/api/v1/pods/a", "", "application/json", "", http.StatusMethodNotAllowed},
			{"GET", "/api/v1/nodes", "", "application/json", "", http.StatusNotFound},
		} {
			q, err := http.NewRequestWithContext(t.Context(), c.method, "http://w"+c.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Content-Type", c.contentType)
			q.Header.Set("Accept", c.accept)
			_, route, err := r.SelectRoute(services, q)
			var refused restful.ServiceError
			switch {
			case c.code != 0:
				if !errors.As(err, &refused) || refused.Code != c.code {
					t.Errorf("%s %s: %v, want %d", c.method, c.path, err, c.code)
				}
			case err != nil:
				t.Errorf("%s %s: %v", c.method, c.path, err)
			case route.Operation != c.want:
				t.Errorf("%s %s: %s, want %s", c.method, c.path, route.Operation, c.want)
			}
		}
	}
	if len(r.known) != 5 {
		t.Errorf("%d are remembered, want the 5 that have a route", len(r.known))
	}
	for range maxRoutes {
		r.known[routed{path: string(rune(len(r.known)))}] = route{}
		if len(r.known) == maxRoutes {
			break
		}
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://w/api/v1/pods/c", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.SelectRoute(services, q); err != nil || len(r.known) > maxRoutes {
		t.Errorf("%v, and %d are remembered", err, len(r.known))
	}
}

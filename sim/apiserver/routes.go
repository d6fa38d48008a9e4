package apiserver

import (
	"net/http"
	"sync"

	"github.com/emicklei/go-restful/v3"
)

// maxRoutes bounds what a rememberingRouter remembers, maxRouted the bytes of what it knows one by.
const (
	maxRoutes = 10_000
	maxRouted = 1 << 10
)

// rememberingRouter is the API server's own router, but asks it once for each request that looks the same: it compares
// a path with the several hundred routes of its group, a twentieth of the work of a short call. Runs of one recording
// ask for the same objects again and again. It may be used as long as no routes are added or taken away.
type rememberingRouter struct {
	restful.CurlyRouter

	mu    sync.Mutex
	known map[routed]route
}

// routed is what go-restful chooses a route by.
type routed struct{ method, path, contentType, accept string }

type route struct {
	service *restful.WebService
	route   *restful.Route
}

// SelectRoute implements restful.RouteSelector.
func (r *rememberingRouter) SelectRoute(services []*restful.WebService, q *http.Request) (*restful.WebService, *restful.Route, error) {
	key := routed{q.Method, q.URL.Path, q.Header.Get(restful.HEADER_ContentType), q.Header.Get(restful.HEADER_Accept)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.known[key]; ok {
		return c.service, c.route, nil
	}
	service, chosen, err := r.CurlyRouter.SelectRoute(services, q)
	if err != nil {
		return service, chosen, err
	}
	if r.known == nil || len(r.known) == maxRoutes {
		r.known = map[routed]route{}
	}
	if len(key.path)+len(key.contentType)+len(key.accept) <= maxRouted {
		one := *chosen // by itself: the router chose it from a list of copies
		r.known[key] = route{service, &one}
	}
	return service, chosen, nil
}

package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"

	"github.com/opreplay/opreplay/sim/store"
)

// leanChain is the part of the API server's filter chain that answers depend on. Left out is what
// belongs to a shared server on the network: priority and fairness, audit, CORS, TLS, and the filter
// that runs each handler in a goroutine of its own under a wall-clock deadline.
func (s *Server) leanChain(h http.Handler, c *genericapiserver.Config) http.Handler {
	if s.opts.RBAC {
		h = filters.WithAuthorization(h, c.Authorization.Authorizer, c.Serializer)
	}
	h = impersonation.WithConstrainedImpersonation(h, c.Authorization.Authorizer, c.Serializer)
	h = filters.WithAuthentication(h, c.Authentication.Authenticator, filters.Unauthorized(c.Serializer), nil, nil)
	h = filters.WithWarningRecorder(h)
	h = filters.WithCacheControl(h)
	h = filters.WithRequestInfo(h, c.RequestInfoResolver)
	h = filters.WithRequestReceivedTimestamp(h)
	h = genericfilters.WithPanicRecovery(h, c.RequestInfoResolver)
	return filters.WithAuditInit(h)
}

// identify is the authenticator: it believes what the front door says.
func identify() authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		u := userOf(req)
		groups := slices.Clip(u.Groups)
		if !slices.Contains(groups, user.AllAuthenticated) && !slices.Contains(groups, user.AllUnauthenticated) {
			groups = append(groups, user.AllAuthenticated)
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: groups, Extra: u.Extra}}, true, nil
	})
}

func userOf(req *http.Request) User {
	if u, ok := req.Context().Value(userKey{}).(User); ok {
		return u
	}
	if name := req.Header.Get("X-Remote-User"); name != "" {
		return User{Name: name, Groups: req.Header.Values("X-Remote-Group")}
	}
	return Admin
}

// external marks a request as coming from outside, so that its watches pass the gate, and gives it an
// audit id of the world's: the answer's header carries it. prepare is called after each write. readOnly, if not
// nil, is what writes fail with.
func external(h http.Handler, requests *atomic.Uint64, readOnly error, prepare func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if _, ok := store.ClientFrom(ctx); !ok {
			ctx = store.WithClient(ctx, store.Client{UserAgent: r.UserAgent(), User: userOf(r).Name})
		}
		if readOnly != nil {
			ctx = store.WithRefusal(ctx, readOnly)
		}
		r = r.Clone(store.WithMutation(ctx))
		// Within a machine, compressing a large list costs more than all else about it.
		r.Header.Del("Accept-Encoding")
		if r.Header.Get("Audit-Id") == "" {
			r.Header.Set("Audit-Id", fmt.Sprintf("00000000-0000-4000-8000-%012d", requests.Add(1)))
		}
		h.ServeHTTP(w, r)
		if r.Method != http.MethodGet {
			prepare()
		}
	})
}

// internal is the context of the server's own requests. One that is made on behalf of a client has
// nothing of that client's, neither its hint nor its name, but that it may not write.
func internal(ctx context.Context) context.Context {
	own := WithUser(detached{ctx}, User{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
	if err := store.RefusalFrom(ctx); err != nil {
		own = store.WithRefusal(own, err)
	}
	return own
}

// readOnly is what the writes of clients fail with; nil: they do not.
func (o *Options) readOnly() error {
	if o.ReadOnly == "" {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Message: o.ReadOnly, Reason: metav1.StatusReasonMethodNotAllowed, Code: http.StatusMethodNotAllowed,
	}}
}

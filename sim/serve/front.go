package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/opreplay/opreplay/sim/apiserver"
)

// Options say how a world is served.
type Options struct {
	Access *Access
	// Nodes lets the API server connect to the addresses of nodes, pods and Services, as a real one does
	// for logs, exec and proxy.
	Nodes bool
}

// Front is a world on the network.
type Front struct {
	server   *apiserver.Server
	opts     Options
	info     request.RequestInfoFactory
	url      string
	stop     context.CancelFunc
	stopped  <-chan struct{}
	watchers sync.WaitGroup
	// ending is what running requests wait for besides their clients.
	ending context.Context
}

// grace is how long running requests may take to end at Stop. Watches are ended at once.
const grace = 2 * time.Second

// Start serves SERVER on LISTENER until Stop. LISTENER is closed then, or at once if there is an error.
func Start(server *apiserver.Server, listener net.Listener, o Options) (*Front, error) {
	f := &Front{
		server: server, opts: o, url: "https://" + listener.Addr().String(),
		info: request.RequestInfoFactory{
			APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
		},
	}
	f.ending, f.stop = context.WithCancel(context.Background())
	secure := genericapiserver.SecureServingInfo{Listener: listener, Cert: o.Access.cert, ClientCA: o.Access.client}
	var err error
	if f.stopped, _, err = secure.Serve(f, grace, f.ending.Done()); err != nil {
		f.stop()
		return nil, errors.Join(err, listener.Close())
	}
	f.watchers.Go(f.keepHouse)
	return f, nil
}

// URL is where the server is.
func (f *Front) URL() string { return f.url }

// Stop ends the serving: no new requests, watches end, other requests may finish.
func (f *Front) Stop() {
	f.stop()
	<-f.stopped
	f.watchers.Wait()
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, err := f.info.NewRequestInfo(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	resp, ok, err := f.opts.Access.who.AuthenticateRequest(r)
	if err != nil || !ok {
		unauthorized(w, r)
		return
	}
	if !f.opts.Nodes && info.IsResourceRequest && reachesOut(info) {
		refuse(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
			"there is no node behind this world: no logs, no exec, no proxy")
		return
	}
	r.Header.Del("Authorization")
	u := resp.User
	ctx := apiserver.WithUser(r.Context(), apiserver.User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()})
	if info.Verb == "watch" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(f.ending, cancel)()
	}
	f.server.Handler().ServeHTTP(w, r.WithContext(ctx))
}

// reachesOut: the API server would connect to an address that an object names.
func reachesOut(info *request.RequestInfo) bool {
	switch info.Subresource {
	case "proxy":
		return true
	case "log", "exec", "attach", "portforward":
		return info.Resource == "pods"
	}
	return info.Verb == "proxy"
}

// unauthorized answers like the API server (k8s.io/apiserver/pkg/endpoints/filters.Unauthorized).
func unauthorized(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		w.Header().Set("Connection", "close") // and has HTTP/2 tear the connection down
	}
	refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
}

func refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{ // fails when the client left
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: message, Reason: reason, Code: code,
	})
}

// Loopback reports whether an address to listen on can be reached from this machine only.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

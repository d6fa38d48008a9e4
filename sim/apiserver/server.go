package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/opreplay/opreplay/sim/store"
)

// Server is the API server of a world.
type Server struct {
	opts  Options
	world *store.Store
	cidrs []netip.Prefix
	ips   *addresses
	ports *portAllocator
	loop  *restclient.Config
	hooks *hookView

	customs *customs
	builtin *genericapiserver.GenericAPIServer

	definitions *definitions

	inner  http.Handler // what the server's own requests go to
	front  http.Handler // what external ones go to
	tokens *tokens
	auth   authorize
	stop   context.CancelFunc
	closed sync.Once

	requests        atomic.Uint64
	builtinVersions map[metav1.GroupVersion]bool
}

// New starts a Server with an empty world but for what every cluster has: the namespaces default,
// kube-system, kube-public and kube-node-lease, and the Service default/kubernetes. ctx bounds the
// start, which takes about a second; Close ends the server.
//
// One Server may be open in a process at a time: see ErrSecondServer.
func New(ctx context.Context, o Options) (*Server, error) {
	cidrs, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := takeProcess(o); err != nil {
		return nil, err
	}
	s := &Server{opts: o, cidrs: cidrs, builtinVersions: map[metav1.GroupVersion]bool{}}
	s.world = store.New(store.Options{Seed: o.Seed, Clock: o.storeClock(), Gate: o.Gate, Amend: amend, Verify: o.Verify})
	s.hooks = newHookView(s.world)
	s.ports = newPortAllocator(s.services)
	// The host is a name and nothing more: requests do not leave the process.
	s.loop = s.clientConfig("http://kube-apiserver", func() http.Handler { return s.inner }, internal)
	s.loop.UserAgent = "kube-apiserver" // not this program's name: it becomes the manager of fields
	run, stop := context.WithCancel(context.Background())
	s.stop = stop
	if err := s.start(ctx, run); err != nil {
		s.Close()
		return nil, fmt.Errorf("API server: %w", err)
	}
	return s, nil
}

func (s *Server) start(ctx, run context.Context) error {
	prepared, err := s.assemble(run.Done())
	if err != nil {
		return err
	}
	s.inner = s.definitions.documented(s.builtin, prepared.Handler)
	counted, err := s.counting(s.settling(s.inner))
	if err != nil {
		return err
	}
	s.front = external(counted, &s.requests, s.opts.readOnly(), s.world.Prepare)
	s.builtin.RunPostStartHooks(run)
	if err := s.ready(ctx); err != nil {
		// A hook that is stopped half-way has failed, and the API server's code ends the process then.
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return errors.Join(err, s.ready(patience))
	}
	if err := s.learnBuiltins(ctx); err != nil {
		return err
	}
	if err := s.createDefaults(ctx); err != nil {
		return err
	}
	return s.createRoles()
}

// assemble builds the two servers, custom resources behind built-in ones, without starting them.
func (s *Server) assemble(stop <-chan struct{}) (*genericapiserver.GenericAPIServer, error) {
	client, err := kubernetes.NewForConfig(s.loop)
	if err != nil {
		return nil, err
	}
	if s.tokens, err = newTokens(s.opts, client); err != nil {
		return nil, err
	}
	if s.ips, err = s.newAddresses(s.cidrs); err != nil {
		return nil, err
	}
	if s.auth, err = newAuthorizer(s.opts, s.world); err != nil {
		return nil, err
	}
	admit, err := s.newAdmission(client, stop)
	if err != nil {
		return nil, err
	}
	s.definitions = newDefinitions(s.opts.Version)
	groups := aggregated.NewResourceManager("apis")
	if err := setPriorities(groups); err != nil {
		return nil, err
	}
	if s.customs, err = s.newCustoms(groups, admit); err != nil {
		return nil, fmt.Errorf("custom resources: %w", err)
	}
	b, err := s.newBuiltin()
	if err != nil {
		return nil, err
	}
	config := s.baseConfig(genericapiserver.NewConfig(codecs(legacyscheme.Scheme, s.opts)), groups, admit)
	config.MergedResourceConfig = b.enabled
	config.RESTOptionsGetter = b.options
	config.SkipOpenAPIInstallation = true
	config.BuildHandlerChainFunc = func(h http.Handler, c *genericapiserver.Config) http.Handler { return s.leanChain(s.asOne(h), c) }
	if s.builtin, err = config.Complete(nil).New("kube-apiserver", s.customs.server); err != nil {
		return nil, err
	}
	if err := b.install(s.builtin); err != nil {
		return nil, err
	}
	if err := s.installAPIServices(); err != nil {
		return nil, err
	}
	prepared := s.builtin.PrepareRun()
	s.builtin.Handler.GoRestfulContainer.Router(&rememberingRouter{}) // all routes are there now
	s.definitions.installed()
	return prepared.GenericAPIServer, nil
}

// baseConfig fills what both servers share.
func (s *Server) baseConfig(c *genericapiserver.Config, groups aggregated.ResourceManager, admit admission.Interface) *genericapiserver.Config {
	c.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	c.LoopbackClientConfig = restclient.CopyConfig(s.loop)
	c.ExternalAddress = s.opts.Address
	c.AggregatedDiscoveryGroupManager = groups
	c.AdmissionControl = admit
	c.Authentication.Authenticator = identify()
	c.Authorization.Authorizer = s.auth
	c.BuildHandlerChainFunc = s.leanChain
	c.LongRunningFunc = genericfilters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	c.EnableProfiling, c.EnableMetrics = false, false
	c.FlowControl, c.StorageObjectCountTracker = nil, nil
	c.OpenAPIConfig, c.OpenAPIV3Config = s.definitions.v2, s.definitions.v3
	return c
}

func (s *Server) newCustoms(groups aggregated.ResourceManager, admit admission.Interface) (*customs, error) {
	c := s.baseConfig(genericapiserver.NewConfig(codecs(crdserver.Scheme, s.opts)), groups, admit)
	c.MergedResourceConfig = crdserver.DefaultAPIResourceConfigSource()
	// A real server still stores CRDs as v1beta1 (k8s.io/kubernetes/pkg/controlplane/apiserver, createAPIExtensionsConfig).
	hashed := schema.GroupVersion{Group: apiextensionsv1.GroupName, Version: "v1beta1"}
	c.RESTOptionsGetter = s.restOptions(crdserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion), hashed, false)
	return newCustoms(s.world, c, s.restOptions(unstructured.UnstructuredJSONScheme, nil, true), s.opts)
}

// restOptions stores with one codec for all resources. Of the version, if there is one, discovery tells a hash.
func (s *Server) restOptions(codec runtime.Codec, version runtime.GroupVersioner, gc bool) generic.RESTOptionsGetter {
	return s.world.RESTOptions(store.RESTConfig{
		GarbageCollection: gc,
		Config: func(gr schema.GroupResource, _ runtime.Object) (*storagebackend.ConfigForResource, error) {
			c := storagebackend.NewDefaultConfig("/registry", codec)
			c.EncodeVersioner = version
			return c.ForResource(gr), nil
		},
	})
}

// ready waits for the start-up hooks. They have no signal but /readyz.
func (s *Server) ready(ctx context.Context) error {
	for {
		resp, err := s.get(ctx, "/readyz", "*/*")
		if err != nil {
			return err
		}
		if resp.code == http.StatusOK {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("not ready: %s: %w", strings.TrimSpace(string(resp.body)), ctx.Err())
		}
	}
}

// learnBuiltins notes which groups and versions are there before any CRD.
func (s *Server) learnBuiltins(ctx context.Context) error {
	resp, err := s.get(ctx, "/apis", aggregatedType)
	if err != nil {
		return err
	}
	var doc apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(resp.body, &doc); err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	for _, g := range doc.Items {
		for _, v := range g.Versions {
			s.builtinVersions[metav1.GroupVersion{Group: g.Name, Version: v.Version}] = true
		}
	}
	return nil
}

// Handler serves external requests. A write of a CRD is answered when the kind is served; see Settle.
func (s *Server) Handler() http.Handler { return s.front }

// Store is the world behind the server.
func (s *Server) Store() *store.Store { return s.world }

// Config is a client configuration for requests from within this process: external ones, as the given
// user, without a socket. Requests carry their context to the server, and with it hints.
func (s *Server) Config(u User) *restclient.Config {
	return s.clientConfig("http://"+s.opts.Address, s.Handler, func(ctx context.Context) context.Context {
		return WithUser(ctx, u)
	})
}

// Outsider is the transport of Config, for callers that make their own requests.
func (s *Server) Outsider(u User) http.RoundTripper { return s.Config(u).Transport }

// onBehalf is the configuration of the server's own requests that clients cause.
func (s *Server) onBehalf() *restclient.Config {
	c := restclient.CopyConfig(s.loop)
	if err := s.opts.readOnly(); err != nil {
		c.Transport = &inProcess{handler: func() http.Handler { return s.inner }, context: func(ctx context.Context) context.Context {
			return store.WithRefusal(internal(ctx), err)
		}}
	}
	return c
}

func (s *Server) clientConfig(host string, h func() http.Handler, in func(context.Context) context.Context) *restclient.Config {
	return &restclient.Config{Host: host, QPS: -1, Transport: &inProcess{handler: h, context: in}}
}

// Close stops the server and ends all watches.
func (s *Server) Close() {
	s.closed.Do(func() {
		s.stop()
		s.world.Close()
		if s.builtin != nil {
			s.builtin.Destroy()
		}
		if s.customs != nil {
			s.customs.stop()
		}
		giveProcessBack()
	})
}

// services lists the Services of the world for the allocators.
func (s *Server) services() []runtime.Object {
	objs, err := s.world.Objects(api.Resource("services"))
	if err != nil {
		return nil // one that cannot be decoded cannot be served either
	}
	return objs
}

// reply is the answer to one of the server's own requests.
type reply struct {
	code   int
	header http.Header
	body   []byte
}

func (s *Server) get(ctx context.Context, path, accept string) (reply, error) {
	return s.call(ctx, http.MethodGet, path, accept, nil)
}

func (s *Server) call(ctx context.Context, method, path, accept string, body io.Reader) (reply, error) {
	return s.callOn(ctx, s.inner, method, path, accept, body)
}

func (s *Server) callOn(ctx context.Context, h http.Handler, method, path, accept string, body io.Reader) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.loop.Host+path, body)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "kube-apiserver")
	resp, err := (&inProcess{handler: func() http.Handler { return h }, context: internal}).RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // a buffer
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, b}, err
}

// detached is a context with its parent's end and none of its values.
type detached struct{ context.Context }

// Value implements context.Context.
func (detached) Value(any) any { return nil }

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/establish"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	restclient "k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/sim/store"
)

var crdGR = apiextensions.Resource("customresourcedefinitions")

// amendTimes names the times outside metadata that the API server itself fills from the wall clock.
func amendTimes(obj runtime.Object, fix func(*metav1.Time)) {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return
	}
	for i := range crd.Status.Conditions {
		fix(&crd.Status.Conditions[i].LastTransitionTime)
	}
}

// customs serves CRDs and custom resources: k8s.io/apiextensions-apiserver, put together as its own
// CompletedConfig.New does, but for what happens behind the requests. There an informer tells controllers,
// the handler and discovery of changes, each in goroutines of its own; here settle does, after each write,
// until nothing more follows from it.
type customs struct {
	world  *store.Store
	client crdclient.CustomResourceDefinitionsGetter
	server *genericapiserver.GenericAPIServer
	groups aggregated.ResourceManager

	view         *crdView
	controllers  crdControllers
	establishing *establish.EstablishingController
	resources    http.Handler // of the custom resources themselves
	instances    finalizer.CRClientGetter
	unknown      http.Handler

	mu    sync.Mutex
	turn  *sync.Cond
	busy  bool // somebody settles
	out   int  // conversion webhooks that are being called
	again bool // somebody else wrote meanwhile

	// Of whoever settles.
	queue []string        // names of CRDs that the controllers have yet to look at
	tried map[string]bool // names of CRDs whose custom resources could not be deleted in this round

	epoch int // counts histories: see restored

	now    func() time.Time // nil: the wall clock's
	tables sync.Mutex       // see ageCustomTables

	held atomic.Bool // some deleted CRD waits for its custom resources
	docs atomic.Pointer[crdDocs]
}

// newCustoms assembles the server, without a CRD. config is its generic part.
func newCustoms(world *store.Store, config *genericapiserver.Config, instances generic.RESTOptionsGetter, o Options) (*customs, error) {
	completed := config.Complete(nil)
	completed.EnableDiscovery = false // the built-in server has it
	server, err := completed.New("apiextensions-apiserver", genericapiserver.NewEmptyDelegateWithCustomHandler(http.NotFoundHandler()))
	if err != nil {
		return nil, err
	}
	c := &customs{
		world: world, server: server, groups: config.AggregatedDiscoveryGroupManager.WithSource(aggregated.CRDSource),
		view: newCRDView(world), unknown: http.NotFoundHandler(),
	}
	c.turn = sync.NewCond(&c.mu)
	if !o.Live {
		c.now = o.Clock
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(apiextensions.GroupName, crdserver.Scheme, metav1.ParameterCodec, crdserver.Codecs)
	crds, err := customresourcedefinition.NewREST(crdserver.Scheme, config.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	group.VersionedResourcesStorageMap[apiextensionsv1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"customresourcedefinitions": crds, "customresourcedefinitions/status": customresourcedefinition.NewStatusREST(crdserver.Scheme, crds),
	}
	if before(o.Version, crdBetaUntil) {
		group.VersionedResourcesStorageMap["v1beta1"] = group.VersionedResourcesStorageMap["v1"]
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, err
	}
	client, err := clientset.NewForConfig(restclient.CopyConfig(config.LoopbackClientConfig))
	if err != nil {
		return nil, err
	}
	c.client = client.ApiextensionsV1()
	c.controllers = newCRDControllers(c.view, c.client)
	c.establishing = establish.NewEstablishingController(c.view.forController(), c.client)
	const masters = 1 // more would hold a new CRD back for five seconds
	handler, err := crdserver.NewCustomResourceDefinitionHandler(nil, nil, c.view.forHandler(), c.unknown, instances,
		config.AdmissionControl, c.establishing, webhookutil.NewDefaultServiceResolver(), c.converting(newConversion(o)), masters, server.Authorizer, config.RequestTimeout,
		time.Duration(config.MinRequestTimeout)*time.Second, group.StaticOpenAPISpec, config.MaxRequestBodyBytes)
	if err != nil {
		return nil, err
	}
	c.resources, c.instances = handler, handler
	c.docs.Store(newCRDDocs(0))
	server.Handler.NonGoRestfulMux.Handle("/apis", c)
	server.Handler.NonGoRestfulMux.HandlePrefix("/apis/", c)
	return c, nil
}

// stop ends what runs by itself.
func (c *customs) stop() {
	c.controllers.stop()
	stopped := make(chan struct{})
	close(stopped)
	c.establishing.Run(stopped)
}

// ServeHTTP implements http.Handler: the custom resources and the discovery of one of their groups or versions.
func (c *customs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	docs := c.docs.Load()
	var h http.Handler
	switch len(parts) {
	case 2:
		h = docs.group(parts[1])
	case 3:
		h = docs.version(parts[1], parts[2])
	default:
		if len(parts) > 3 {
			c.ageCustomTables(r, parts[1], parts[3:])
		}
		h = c.resources
	}
	if h == nil {
		h = c.unknown
	}
	h.ServeHTTP(w, r)
}

// settling answers a write only when what follows from it for CRDs is in place, so that a client which got
// the answer can use a new kind at once and nothing is left to a race.
func (s *Server) settling(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || !strings.HasPrefix(r.URL.Path, "/apis/apiextensions.k8s.io/") && !s.customs.held.Load() {
			h.ServeHTTP(w, r)
			return
		}
		answerAfter(w, r, h, s.Settle)
	})
}

// answerAfter gives h's answer when what follows from its write is done; an error of that is a warning.
func answerAfter(w http.ResponseWriter, r *http.Request, h http.Handler, follow func(context.Context) error) {
	held := &heldAnswer{ResponseWriter: w}
	h.ServeHTTP(held, r)
	// Not the request's context: the write stands even if its client has left.
	if err := follow(context.WithoutCancel(r.Context())); err != nil {
		w.Header().Add("Warning", fmt.Sprintf("299 - %q", err.Error()))
	}
	held.release()
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

// Settle draws all consequences from the CRDs as they are: names are accepted, accepted ones established,
// their versions served as the newest spec has them, discovery and OpenAPI documents list exactly what is
// served, and deleted ones are gone. It waits for nothing and takes no time of the world.
//
// Two kinds of CRD settle without being served: one whose names were refused, and a deleted one whose
// custom resources wait for their finalizers. The write that lets the last of those go takes the CRD with
// it.
//
// Handler calls it after every write that may concern a CRD. It fails when a controller does; what else
// there was to do has been done then.
func (s *Server) Settle(ctx context.Context) error { return s.customs.settle(ctx) }

// settle lets one caller at a time settle. One that comes while another waits for a conversion webhook
// leaves its part to that one: in a world nothing else could run if it waited.
func (c *customs) settle(ctx context.Context) error {
	c.mu.Lock()
	for c.busy && c.out == 0 {
		c.turn.Wait()
	}
	defer c.mu.Unlock()
	if c.busy {
		c.again = true
		return nil
	}
	c.busy = true
	defer func() { // also if a controller panics, which net/http survives
		c.busy = false
		c.turn.Broadcast()
	}()
	var errs []error
	for more := true; more; more = c.again {
		c.again = false
		errs = append(errs, c.unlocked(func() error { return c.round(internal(ctx)) }))
	}
	return errors.Join(errs...)
}

// unlocked runs f without the lock.
func (c *customs) unlocked(f func() error) error {
	c.mu.Unlock()
	defer c.mu.Lock()
	return f()
}

// round goes on until nothing more follows.
func (c *customs) round(ctx context.Context) error {
	const most = 100_000 // passes; a controller that has nothing to do writes nothing
	var errs []error
	c.tried = map[string]bool{}
	if err := c.observe(); err != nil {
		return err
	}
	for _, crd := range c.view.all() {
		if held(crd) {
			c.enqueue(crd.Name)
		}
	}
	for range most {
		if err := c.observe(); err != nil {
			return err
		}
		if len(c.queue) == 0 {
			c.publish()
			return errors.Join(errs...)
		}
		name := c.queue[0]
		c.queue = c.queue[1:]
		if err := c.sync(ctx, name); err != nil {
			errs = append(errs, err)
		}
	}
	c.queue = nil
	return errors.New("CRDs do not settle")
}

// observe makes known what was written and queues whom it concerns.
func (c *customs) observe() error {
	changes, err := c.view.look()
	if err != nil {
		return err
	}
	for _, ch := range changes {
		if err := c.tell(ch); err != nil {
			return err
		}
		c.enqueue(ch.crd().Name)
		if ch.after == nil || ch.before != nil && !equality.Semantic.DeepEqual(ch.before.Status.AcceptedNames, ch.after.Status.AcceptedNames) {
			// It may have freed a name that another one wants.
			for _, other := range c.view.all() {
				if other.Spec.Group == ch.crd().Spec.Group {
					c.enqueue(other.Name)
				}
			}
		}
	}
	if len(changes) > 0 {
		c.held.Store(slices.ContainsFunc(c.view.all(), held))
	}
	return nil
}

func (c *customs) enqueue(name string) {
	if !slices.Contains(c.queue, name) {
		c.queue = append(c.queue, name)
	}
}

// tell makes one change known. Watches of a custom resource end when the storage behind them is replaced.
func (c *customs) tell(ch crdChange) error {
	b, a := ch.before, ch.after
	if b != nil && (a == nil || b.UID != a.UID || !equality.Semantic.DeepEqual(b.Spec, a.Spec) ||
		!equality.Semantic.DeepEqual(b.Status.AcceptedNames, a.Status.AcceptedNames)) {
		c.world.EndWatches(resourceOf(b))
		if c.world.NewObject(resourceOf(b)) != nil {
			return c.reopen(ch)
		}
	}
	return c.view.tell(ch)
}

// reopen makes a change known, and has the store read and write the custom resource as the CRD now is.
func (c *customs) reopen(ch crdChange) error {
	if err := c.view.tell(ch); err != nil {
		return err
	}
	gr := resourceOf(ch.crd())
	c.world.CloseResource(gr)
	return c.open(gr)
}

// open has a custom resource opened in the store before its first request. Others are open already.
func (c *customs) open(gr schema.GroupResource) error {
	crd := c.view.get(gr.String())
	if crd == nil || c.world.NewObject(gr) != nil {
		return nil
	}
	_, err := c.instances.GetCustomResourceListerCollectionDeleter(crd)
	return err
}

// restored makes the world's CRDs known after another history has taken the place of the one that was
// known. It had settled.
func (c *customs) restored() error {
	c.controllers.stop()
	c.controllers = newCRDControllers(c.view, c.client)
	changes, err := c.view.look()
	if err != nil {
		return err
	}
	for _, ch := range changes {
		if err := c.reopen(ch); err != nil {
			return err
		}
	}
	c.queue = nil
	c.epoch++
	c.held.Store(slices.ContainsFunc(c.view.all(), held))
	c.publish()
	return nil
}

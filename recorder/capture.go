package recorder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// Capture records what a cluster's watches tell, until CTX or the duration ends, and what the processes of
// Options.Choice do.
func Capture(ctx context.Context, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	c, err := reach(ctx, o.Config)
	if err != nil {
		return nil, err
	}
	plan, err := newPlan(ctx, c, &o)
	if err != nil {
		return nil, err
	}
	p, r, err := o.lookAt(ctx, c)
	if err != nil {
		return nil, err
	}
	s, err := newSession(ctx, &o, c, "capture", plan.manifest())
	if err != nil {
		return nil, errors.Join(err, p.release())
	}
	var f *finder
	if p != nil {
		s.profile(p, o.Choice.name(), joinOptions{late: true, alone: true, served: plan.serves, watches: s.watches})
		f, err = s.find(p, r)
	}
	if err == nil {
		err = s.capture(plan)
	}
	s.cancel(nil)
	f.wait()
	err = errors.Join(err, p.finish(s))
	return s.finish(err)
}

func (s *session) capture(plan *plan) error {
	c, err := s.startCapture(plan)
	defer c.wait()
	defer s.cancel(nil)
	if err == nil {
		err = c.errNothing()
	}
	if err != nil {
		return err
	}
	s.begun.Store(true)
	s.o.note("recording: the first lists are in")
	scraping := s.scrape(s.o.Choice.name())
	s.report()
	<-s.ctx.Done()
	scraping.end(true)
	if s.join != nil {
		// What the operator wrote last is on its way to our watches; what it writes from now on is not recorded.
		s.join.end()
		time.Sleep(settleTime)
	}
	return nil
}

// capture is a set of reflectors, one a resource (and namespace).
type capture struct {
	s      *session
	plan   *plan
	client rest.Interface
	ctx    context.Context
	cancel context.CancelFunc // which wait does: watches outlast the recording a little
	wg     sync.WaitGroup

	mu          sync.Mutex
	running     map[string]*watcher // by stream
	established map[string]bool     // CRDs, by name
	all         []*watcher          // every one that was started
	refused     []string            // streams that the user may not watch, until they are told
	told        bool                // they have been: later ones are told one by one
}

// watcher is one reflector under way.
type watcher struct {
	resource  traces.Resource
	namespace string // "" for all
	store     *store
	cancel    context.CancelFunc
	ended     chan struct{}
	absent    bool // the API server no longer serves it; guarded by capture.mu
	given     bool // that it is not watched is in the trace; guarded by capture.mu
}

// syncTimeout is how long the first lists may take together before the recording goes on without the
// stragglers (a broken aggregated API server never answers).
const syncTimeout = time.Minute

// startCapture starts all reflectors and returns when their first lists are in the trace. Without a
// plan there is nothing to capture.
func (s *session) startCapture(plan *plan) (*capture, error) {
	if plan == nil {
		return nil, nil
	}
	client, err := rawClient(s.cluster.config)
	if err != nil {
		return nil, cli.Usagef("the kubeconfig: %w", err)
	}
	c := &capture{s: s, plan: plan, client: client, running: map[string]*watcher{}, established: map[string]bool{}}
	s.capturing.Store(c)
	// client-go logs each broken watch; the trace has them as losses.
	c.ctx, c.cancel = context.WithCancel(klog.NewContext(context.WithoutCancel(s.ctx), logr.Discard()))
	for _, l := range plan.losses {
		s.lose(l)
		s.o.note("%s: %s", l.Source, l.Reason)
	}
	for _, r := range plan.resources {
		c.start(r)
	}
	c.awaitSync()
	c.tellRefused()
	return c, nil
}

// maxTold is how many streams a note names.
const maxTold = 5

// errNothing: the user may not watch anything of what was to be recorded.
func (c *capture) errNothing() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refused) < len(c.all) {
		return nil
	}
	return cli.CannotRun(fmt.Errorf("the user %q may not list and watch any of the %s that were to be recorded", c.s.cluster.user, count(int64(len(c.all)), "resource", "resources")))
}

// tellRefused says in one note what the user may not watch.
func (c *capture) tellRefused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = true
	n := len(c.refused)
	if n == 0 {
		return
	}
	slices.Sort(c.refused)
	names := strings.Join(c.refused[:min(n, maxTold)], ", ")
	if n > maxTold {
		names += fmt.Sprintf(" and %d more (oprec inspect names them)", n-maxTold)
	}
	if n == 1 {
		c.s.o.note("%s is not recorded: the user %q may not list and watch it", names, c.s.cluster.user)
		return
	}
	c.s.o.note("%d resources are not recorded, since the user %q may not list and watch them: %s", n, c.s.cluster.user, names)
}

// rawClient is a REST client for all groups at once.
func rawClient(config *rest.Config) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // for Status answers
	return rest.UnversionedRESTClientFor(config)
}

func (c *capture) awaitSync() {
	timeout := time.NewTimer(syncTimeout)
	defer timeout.Stop()
	for _, w := range c.watchers() {
		select {
		case <-w.store.synced:
		case <-w.ended:
		case <-c.s.ctx.Done():
			return
		case <-timeout.C:
			timeout.Reset(0) // for the others too
			c.s.lose(newLoss(w.store.stream, -1, fmt.Sprintf("no first list within %s; recorded from when it comes", syncTimeout)))
			c.s.o.note("%s: no first list yet", w.store.stream)
		}
	}
}

func (c *capture) watchers() []*watcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*watcher, 0, len(c.running))
	for _, w := range c.running {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b *watcher) int { return strings.Compare(a.store.stream, b.store.stream) })
	return out
}

// start watches a resource that isn't watched yet.
func (c *capture) start(r traces.Resource) {
	namespaces := []string{""}
	if r.Namespaced && len(c.s.o.Namespaces) > 0 {
		namespaces = c.s.o.Namespaces
	}
	for _, ns := range namespaces {
		c.startIn(r, ns)
	}
}

func (c *capture) startIn(r traces.Resource, namespace string) {
	gvr := gvrOf(&r)
	w := &watcher{resource: r, namespace: namespace, store: newStore(c.s, gvr, namespace), ended: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.running[w.store.stream]; (old != nil && !old.absent) || c.ctx.Err() != nil {
		return
	}
	c.running[w.store.stream] = w
	c.all = append(c.all, w)
	if c.plan.follow && gvr.GroupResource() == crds {
		w.store.changed, w.store.removed = c.follow, c.unfollow
	}
	ctx, cancel := context.WithCancel(c.ctx)
	w.cancel = cancel
	source := newRawSource(c.client, gvr, namespace)
	source.refused = w.store.refused
	source.failed = func(err error) { c.failed(w, err) }
	reflector := cache.NewReflectorWithOptions(source, nil, w.store, cache.ReflectorOptions{Name: w.store.stream})
	c.wg.Go(func() {
		defer cancel()
		reflector.RunWithContext(ctx)
		c.mu.Lock()
		if c.running[w.store.stream] == w {
			delete(c.running, w.store.stream)
		}
		c.mu.Unlock()
		close(w.ended)
	})
}

// failed hears of a list or watch that failed. What will not change by asking again ends the watcher.
func (c *capture) failed(w *watcher, err error) {
	if c.ctx.Err() != nil {
		return
	}
	switch {
	case apierrors.IsNotFound(err):
		// A CRD that is gone, whose objects' ends the watch delivered; it may come back. Or one that is
		// so young that the server doesn't serve it yet: then asking again helps.
		if c.absent(w) {
			w.cancel()
			if !w.store.isSynced() {
				c.give(w, "the API server does not serve it")
			}
		}
	case apierrors.IsForbidden(err):
		w.cancel()
		c.forbidden(w)
	case apierrors.IsMethodNotSupported(err), apierrors.IsNotAcceptable(err):
		w.cancel()
		c.give(w, err.Error())
	}
}

func (c *capture) give(w *watcher, reason string) {
	c.lose(w, reason)
	c.s.o.note("%s is not recorded: %s", w.store.stream, reason)
}

func (c *capture) lose(w *watcher, reason string) {
	c.mu.Lock()
	w.given = true
	c.mu.Unlock()
	c.s.lose(newLoss(w.store.stream, -1, "not watched: "+reason))
}

// forbidden gives up what the user may not watch. Those of the beginning are told together.
func (c *capture) forbidden(w *watcher) {
	reason := fmt.Sprintf("the user %q may not list and watch it", c.s.cluster.user)
	c.mu.Lock()
	together := !c.told
	if together {
		c.refused = append(c.refused, w.store.stream)
	}
	c.mu.Unlock()
	if together {
		c.lose(w, reason)
		return
	}
	c.give(w, reason)
}

// wait ends all reflectors and returns when they have ended. Those that never had a first
// list are losses: nothing in the trace would tell their resource from one without objects.
func (c *capture) wait() {
	if c == nil {
		return
	}
	c.cancel()
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.all {
		if !w.given && !w.absent && !w.store.isSynced() {
			w.given = true
			c.s.lose(newLoss(w.store.stream, -1, "the recording ended before its first list"))
		}
	}
}

// watches says whether the session's own watches tell of a resource in a namespace.
func (s *session) watches(group, resource, namespace string) bool {
	c := s.capturing.Load()
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.all, func(w *watcher) bool {
		return w.resource.Group == group && w.resource.Resource == resource && (w.namespace == "" || w.namespace == namespace) && w.store.isSynced()
	})
}

func (st *store) isSynced() bool {
	select {
	case <-st.synced:
		return true
	default:
		return false
	}
}

// absent marks a watcher whose CRD is gone.
func (c *capture) absent(w *watcher) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.absent = c.plan.follow && !c.established[gvrOf(&w.resource).GroupResource().String()]
	return w.absent
}

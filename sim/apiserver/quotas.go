package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	quotas "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/quota/v1/install"
	"k8s.io/utils/clock"
)

// quotaPlugin is the admission plugin ResourceQuota. The real one (k8s.io/apiserver/pkg/admission/plugin/resourcequota)
// has goroutines that gather requests of a namespace; this one makes the same checks for one request, within it.
type quotaPlugin struct {
	*admission.Handler
	quotas   corelisters.ResourceQuotaLister
	client   corev1client.ResourceQuotasGetter
	registry quota.Registry
}

func (s *Server) newQuotaPlugin() (*quotaPlugin, error) {
	client, err := corev1client.NewForConfig(s.loop)
	if err != nil {
		return nil, err
	}
	evaluators, err := quotaEvaluators(nil, s.opts.Clock)
	if err != nil {
		return nil, err
	}
	return &quotaPlugin{
		Handler: admission.NewHandler(admission.Create, admission.Update),
		quotas:  newStoreInformers(s.world, nil).Core().V1().ResourceQuotas().Lister(),
		client:  client, registry: generic.NewRegistry(evaluators),
	}, nil
}

// quotaEvaluators know what objects use. f lists what is there; nil is enough for admission.
func quotaEvaluators(f quota.ListerForResourceFunc, now func() time.Time) ([]quota.Evaluator, error) {
	// Devices of resource claims are not counted: their evaluator wants to be told of device classes.
	special := func(gvr schema.GroupVersionResource) bool {
		return gvr.Resource == "services" || gvr.Resource == "persistentvolumeclaims"
	}
	out, err := quotas.NewEvaluators(f, nil, special)
	return append(out, quotas.NewPodEvaluator(f, worldClock{now: now})), err
}

// worldClock tells when a dying pod counts no more.
type worldClock struct {
	clock.RealClock
	now func() time.Time
}

// Now implements clock.PassiveClock.
func (c worldClock) Now() time.Time { return c.now() }

// Since implements clock.PassiveClock.
func (c worldClock) Since(t time.Time) time.Duration { return c.now().Sub(t) }

// Validate implements admission.ValidationInterface, as QuotaAdmission.Validate and quotaEvaluator.checkQuotas do.
func (p *quotaPlugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	ns, gr := a.GetNamespace(), a.GetResource().GroupResource()
	if _, ignored := install.DefaultIgnoredResources()[gr]; ns == "" || ignored || a.GetKind().GroupKind() == corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind() {
		return nil
	}
	all, err := p.list(ns)
	if err != nil || len(all) == 0 {
		return err
	}
	evaluator := p.registry.Get(gr)
	if evaluator == nil {
		evaluator = generic.NewObjectCountEvaluator(gr, nil, "")
	}
	const tries = 4
	for range tries {
		var after []corev1.ResourceQuota
		if after, err = resourcequota.CheckRequest(all, a, evaluator, nil); err != nil || a.IsDryRun() {
			return err
		}
		var refused []string
		if refused, err = p.write(ctx, all, after); err == nil {
			return nil
		}
		fresh, listErr := p.list(ns)
		if listErr != nil {
			return err
		}
		all = slices.DeleteFunc(fresh, func(q corev1.ResourceQuota) bool { return !slices.Contains(refused, q.Name) })
	}
	return err
}

// list gives copies of a namespace's quotas, by name.
func (p *quotaPlugin) list(ns string) (out []corev1.ResourceQuota, err error) {
	found, err := p.quotas.ResourceQuotas(ns).List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("error resolving quota: %w", err)
	}
	for _, q := range found {
		out = append(out, *q.DeepCopy())
	}
	return out, nil
}

// write stores what is used now, and names the quotas that could not be written.
func (p *quotaPlugin) write(ctx context.Context, before, after []corev1.ResourceQuota) (refused []string, err error) {
	for i := range after {
		if quota.Equals(before[i].Status.Used, after[i].Status.Used) {
			continue
		}
		// The request's end does not end it, as in a real API server.
		if _, e := p.client.ResourceQuotas(after[i].Namespace).UpdateStatus(context.WithoutCancel(ctx), &after[i], metav1.UpdateOptions{}); e != nil {
			refused, err = append(refused, after[i].Name), e
		}
	}
	return refused, err
}

// quotaCounter keeps the status of quotas as the controller of kube-controller-manager does
// (k8s.io/kubernetes/pkg/controller/resourcequota), but after each write and before its answer.
type quotaCounter struct {
	server   *Server
	quotas   corelisters.ResourceQuotaLister
	client   corev1client.ResourceQuotasGetter
	registry quota.Registry
}

func (s *Server) newQuotaCounter() (*quotaCounter, error) {
	config := restclient.CopyConfig(s.onBehalf())
	config.UserAgent = "kube-controller-manager" // the manager of what it writes
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &quotaCounter{server: s, client: client, quotas: newStoreInformers(s.world, nil).Core().V1().ResourceQuotas().Lister()}
	evaluators, err := quotaEvaluators(c.lister, s.opts.Clock)
	c.registry = generic.NewRegistry(evaluators)
	return c, err
}

// counting has quotas counted after each write of an external request.
func (s *Server) counting(h http.Handler) (http.Handler, error) {
	if !s.opts.Quotas {
		return h, nil
	}
	c, err := s.newQuotaCounter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, rest, _ := strings.Cut(r.URL.Path, "/namespaces/")
		ns, _, namespaced := strings.Cut(rest, "/")
		if !namespaced {
			ns = metav1.NamespaceAll
		}
		if r.Method == http.MethodGet || r.Method == http.MethodHead || s.opts.ReadOnly != "" || len(c.in(ns)) == 0 && !strings.Contains(r.URL.Path, "/resourcequotas") {
			h.ServeHTTP(w, r)
			return
		}
		answerAfter(w, r, h, func(ctx context.Context) error { return c.count(ctx, ns) })
	}), err
}

// in lists the quotas of a namespace, or all.
func (c *quotaCounter) in(ns string) []*corev1.ResourceQuota {
	// The store's lister does not fail.
	if ns == metav1.NamespaceAll {
		all, _ := c.quotas.List(labels.Everything())
		return all
	}
	all, _ := c.quotas.ResourceQuotas(ns).List(labels.Everything())
	return all
}

// count brings the status of all quotas of a namespace, or of all, up to date.
func (c *quotaCounter) count(ctx context.Context, ns string) error {
	var errs []error
	for _, q := range c.in(ns) {
		errs = append(errs, c.sync(ctx, q))
	}
	return errors.Join(errs...)
}

// sync is Controller.syncResourceQuota.
func (c *quotaCounter) sync(ctx context.Context, q *corev1.ResourceQuota) error {
	hard := quota.Add(corev1.ResourceList{}, q.Spec.Hard)
	if err := c.learn(hard); err != nil {
		return err
	}
	used := quota.Add(corev1.ResourceList{}, q.Status.Used)
	now, err := quota.CalculateUsage(q.Namespace, q.Spec.Scopes, hard, c.registry, q.Spec.ScopeSelector)
	for name, n := range now {
		used[name] = n
	}
	used = quota.Mask(used, quota.ResourceNames(hard))
	dirty := q.Status.Hard == nil || q.Status.Used == nil || !apiequality.Semantic.DeepEqual(q.Spec.Hard, q.Status.Hard) || !quota.Equals(used, q.Status.Used)
	if !dirty {
		return err
	}
	updated := q.DeepCopy()
	updated.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: used}
	_, updateErr := c.client.ResourceQuotas(q.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if apierrors.IsConflict(updateErr) {
		// Somebody else's write of it counted what it saw, which may be less.
		var fresh *corev1.ResourceQuota
		if fresh, updateErr = c.quotas.ResourceQuotas(q.Namespace).Get(q.Name); updateErr == nil {
			return c.sync(ctx, fresh)
		}
	}
	if apierrors.IsNotFound(updateErr) {
		updateErr = nil // deleted meanwhile
	}
	return errors.Join(err, updateErr)
}

// learn adds evaluators for the kinds that a quota counts, among them custom resources.
func (c *quotaCounter) learn(hard corev1.ResourceList) error {
	for _, name := range sortedKeys(hard) {
		kind, counts := strings.CutPrefix(string(name), "count/")
		gr := schema.ParseGroupResource(kind)
		if !counts || c.registry.Get(gr) != nil {
			continue
		}
		if err := c.server.customs.open(gr); err != nil {
			return err
		}
		if c.server.world.NewObject(gr) != nil {
			c.registry.Add(generic.NewObjectCountEvaluator(gr, generic.ListResourceUsingListerFunc(c.lister, gr.WithVersion("")), ""))
		}
	}
	return nil
}

// lister implements quota.ListerForResourceFunc.
func (c *quotaCounter) lister(gvr schema.GroupVersionResource) (cache.GenericLister, error) {
	return storeLister{server: c.server, gr: gvr.GroupResource()}, nil
}

// storeLister lists what is stored of a resource, as it is stored.
type storeLister struct {
	cache.GenericLister // nil: what is not here is not used
	server              *Server
	gr                  schema.GroupResource
	namespace           string
}

// ByNamespace implements cache.GenericLister.
func (l storeLister) ByNamespace(ns string) cache.GenericNamespaceLister {
	l.namespace = ns
	return l
}

// List implements cache.GenericNamespaceLister.
func (l storeLister) List(labels.Selector) (out []runtime.Object, err error) {
	all, err := l.server.world.Objects(l.gr)
	for _, o := range all {
		if m, err := meta.Accessor(o); err == nil && m.GetNamespace() == l.namespace {
			out = append(out, o)
		}
	}
	return out, err
}

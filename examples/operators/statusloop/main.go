// Command statusloop is an operator that publishes sites: a Site becomes a ConfigMap with its page, and
// the operator keeps an eye on whether the page is served.
//
// Its fault: it writes the status on every pass, with a fresh transition time even when nothing changed,
// and never notes which generation it has seen. Each write is an event that queues the next pass, so it
// wakes itself for ever. With --fixed it stamps a condition only when the condition changes, writes the
// status only when it differs, sets observedGeneration, and ignores events that leave the spec alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// probeTime is how long it takes to see whether a page is served.
const probeTime = 50 * time.Millisecond

// SiteReconciler publishes sites.
type SiteReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile brings one site's page up to date and reports on it.
func (r *SiteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	site := &Site{}
	if err := r.Get(ctx, req.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name + "-page"}}
	op, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		page.Data = map[string]string{"index.html": "<h1>" + site.Spec.Title + "</h1>\n"}
		return controllerutil.SetControllerReference(site, page, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("publish page: %w", err)
	}
	if op != controllerutil.OperationResultNone {
		ctrl.LoggerFrom(ctx).Info("Published page", "operation", op)
	}

	before := site.DeepCopyObject().(*Site)
	site.Status.URL = "https://" + site.Spec.Host
	served := Condition{Type: "Served", Status: metav1.ConditionFalse, LastTransitionTime: metav1.NowMicro()}
	if r.probe(ctx, site) {
		served.Status = metav1.ConditionTrue
	}
	if r.Fixed {
		served.LastTransitionTime = transition(before.Status.Conditions, served)
		site.Status.ObservedGeneration = site.Generation
	}
	site.Status.Conditions = []Condition{served}
	if r.Fixed && equality.Semantic.DeepEqual(before.Status, site.Status) {
		return ctrl.Result{}, nil
	}
	if err := r.Status().Patch(ctx, site, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

// transition is when c became what it is: the time it has in old if it was the same there.
func transition(old []Condition, c Condition) metav1.MicroTime {
	for _, o := range old {
		if o.Type == c.Type && o.Status == c.Status {
			return o.LastTransitionTime
		}
	}
	return c.LastTransitionTime
}

// probe stands for an HTTP request to the site: it takes its time and succeeds.
func (r *SiteReconciler) probe(ctx context.Context, site *Site) bool {
	select {
	case <-time.After(probeTime):
		return site.Spec.Host != ""
	case <-ctx.Done():
		return false
	}
}

// SetupWithManager registers the reconciler.
func (r *SiteReconciler) SetupWithManager(mgr ctrl.Manager) error {
	var only []builder.ForOption
	if r.Fixed {
		only = append(only, builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	return ctrl.NewControllerManagedBy(mgr).For(&Site{}, only...).Owns(&corev1.ConfigMap{}).Complete(r)
}

func main() {
	fixed := flag.Bool("fixed", false, "run the mended twin")
	metrics := flag.String("metrics-bind-address", "0", "address of the metrics endpoint; 0 for none")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))

	if err := run(*fixed, *metrics); err != nil {
		ctrl.Log.Error(err, "Operator ended")
		os.Exit(1)
	}
}

func run(fixed bool, metrics string) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addToScheme(scheme)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: metrics},
	})
	if err != nil {
		return err
	}
	if err := (&SiteReconciler{Client: mgr.GetClient(), Fixed: fixed}).SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// Command eventflood is an operator that fetches: a Feed gets what its source, a ConfigMap, holds, and people are told by
// Events how that goes.
//
// Its fault: it tells of each try by an Event of its own, whose name has the time in it, so that a source that is missing
// makes a new object every quarter of a second. With --fixed it tells of what has changed, once, and the source's event
// wakes it.
//
// So it went in CleverCloud/clever-kubernetes-operator#175 and VictoriaMetrics/operator#2113.
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// soon is when the faulty twin tries again.
const soon = 250 * time.Millisecond

// FeedReconciler fetches feeds.
type FeedReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile fetches one feed.
func (r *FeedReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	feed := &Feed{}
	if err := r.Get(ctx, req.NamespacedName, feed); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	phase := "Fetched"
	err := r.Get(ctx, types.NamespacedName{Namespace: feed.Namespace, Name: feed.Spec.Source}, &corev1.ConfigMap{})
	if apierrors.IsNotFound(err) {
		phase = "SourceMissing"
	} else if err != nil {
		return ctrl.Result{}, err
	}
	changed := feed.Status.Phase != phase
	if changed {
		before := feed.DeepCopyObject().(*Feed)
		feed.Status.Phase = phase
		if err := r.Status().Patch(ctx, feed, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, fmt.Errorf("report status: %w", err)
		}
	}
	if r.Fixed && !changed {
		return ctrl.Result{}, nil
	}
	if err := r.tell(ctx, feed, phase); err != nil {
		return ctrl.Result{}, err
	}
	if !r.Fixed && phase == "SourceMissing" {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	return ctrl.Result{}, nil
}

// tell makes an Event about a feed.
func (r *FeedReconciler) tell(ctx context.Context, feed *Feed, reason string) error {
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: feed.Namespace, Name: fmt.Sprintf("%s.%d", feed.Name, now.UnixMilli())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: groupVersion.String(), Kind: "Feed", Namespace: feed.Namespace, Name: feed.Name, UID: feed.UID,
		},
		Reason: reason, Message: "The source is " + feed.Spec.Source, Type: corev1.EventTypeNormal,
		Source: corev1.EventSource{Component: "eventflood"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if err := r.Create(ctx, event); err != nil {
		return fmt.Errorf("tell: %w", err)
	}
	return nil
}

// feedsOf are the feeds of a source.
func (r *FeedReconciler) feedsOf(ctx context.Context, source client.Object) []reconcile.Request {
	feeds := &FeedList{}
	if err := r.List(ctx, feeds, client.InNamespace(source.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List feeds")
	}
	var keys []reconcile.Request
	for i := range feeds.Items {
		if feeds.Items[i].Spec.Source == source.GetName() {
			keys = append(keys, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&feeds.Items[i])})
		}
	}
	return keys
}

func setup(mgr ctrl.Manager, fixed bool) error {
	r := &FeedReconciler{Client: mgr.GetClient(), Fixed: fixed}
	return ctrl.NewControllerManagedBy(mgr).
		For(&Feed{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.feedsOf)).
		Complete(r)
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
	if err := setup(mgr, fixed); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

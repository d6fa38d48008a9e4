// Command retrystorm is an operator that copies: a Mirror's ConfigMap becomes another one, under the Mirror's name.
//
// Its fault: when the source is not there it logs an error and asks to be called again after a fixed, short time. That
// is no error to the queue, so no backoff begins, and it goes on for as long as the source does not come. With --fixed
// it says in the status that it waits, and returns: the source's event wakes it.
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
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// soon is when the faulty twin tries again.
const soon = 250 * time.Millisecond

// MirrorReconciler copies ConfigMaps.
type MirrorReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile brings one copy up to date.
func (r *MirrorReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mirror := &Mirror{}
	if err := r.Get(ctx, req.NamespacedName, mirror); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	source := &corev1.ConfigMap{}
	err := r.Get(ctx, types.NamespacedName{Namespace: mirror.Namespace, Name: mirror.Spec.Source}, source)
	if apierrors.IsNotFound(err) {
		if r.Fixed {
			return ctrl.Result{}, r.report(ctx, mirror, "Waiting")
		}
		ctrl.LoggerFrom(ctx).Error(err, "Can't read the source, trying again")
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	replica := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: mirror.Namespace, Name: mirror.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, replica, func() error {
		replica.Data = source.Data
		return controllerutil.SetControllerReference(mirror, replica, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("copy: %w", err)
	}
	return ctrl.Result{}, r.report(ctx, mirror, "Copied")
}

// report says how far the copy is.
func (r *MirrorReconciler) report(ctx context.Context, mirror *Mirror, phase string) error {
	before := mirror.DeepCopyObject().(*Mirror)
	mirror.Status = MirrorStatus{ObservedGeneration: mirror.Generation, Phase: phase}
	if mirror.Status == before.Status {
		return nil
	}
	if err := r.Status().Patch(ctx, mirror, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
}

// copiesOf are the mirrors of a ConfigMap.
func (r *MirrorReconciler) copiesOf(ctx context.Context, source client.Object) []reconcile.Request {
	mirrors := &MirrorList{}
	if err := r.List(ctx, mirrors, client.InNamespace(source.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List mirrors")
	}
	var keys []reconcile.Request
	for i := range mirrors.Items {
		if mirrors.Items[i].Spec.Source == source.GetName() {
			keys = append(keys, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&mirrors.Items[i])})
		}
	}
	return keys
}

// SetupWithManager registers the reconciler.
func (r *MirrorReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&Mirror{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.copiesOf)).
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
	if err := (&MirrorReconciler{Client: mgr.GetClient(), Fixed: fixed}).SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

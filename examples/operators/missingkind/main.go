// Command missingkind is an operator of caches: a Store becomes a ConfigMap with its settings and a PodDisruptionBudget
// for its members.
//
// Its fault: it makes a scheme of its own and forgets the group of PodDisruptionBudgets. Every pass fails after the
// ConfigMap, and no retry can help. With --fixed the scheme has the group.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// StoreReconciler sets stores up.
type StoreReconciler struct {
	client.Client
}

// Reconcile sets one store up.
func (r *StoreReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	store := &Store{}
	if err := r.Get(ctx, req.NamespacedName, store); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: store.Namespace, Name: store.Name + "-settings"}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, settings, func() error {
		settings.Data = map[string]string{"members": strconv.FormatInt(store.Spec.Members, 10)}
		return controllerutil.SetControllerReference(store, settings, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("write settings: %w", err)
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: store.Namespace, Name: store.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, budget, func() error {
		most := intstr.FromInt32(1)
		budget.Spec.MaxUnavailable = &most
		budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"cache.example.com/store": store.Name}}
		return controllerutil.SetControllerReference(store, budget, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("set the budget: %w", err)
	}
	return ctrl.Result{}, r.report(ctx, store)
}

// report says that the store is there.
func (r *StoreReconciler) report(ctx context.Context, store *Store) error {
	before := store.DeepCopyObject().(*Store)
	store.Status = StoreStatus{ObservedGeneration: store.Generation, Phase: "Ready"}
	if store.Status == before.Status {
		return nil
	}
	if err := r.Status().Patch(ctx, store, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
}

// SetupWithManager registers the reconciler.
func (r *StoreReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&Store{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
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
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	if fixed {
		if err := policyv1.AddToScheme(scheme); err != nil {
			return err
		}
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
	if err := (&StoreReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// Command earlyrelease is an operator that rents machines: a Fleet has a number of them at a provider (here a
// ConfigMap stands for each). A finalizer makes sure that all of them are given back before the Fleet is gone.
//
// Its fault: when its cache shows no machines of a Fleet that is being deleted, it takes all of them for given
// back and removes the finalizer. A cache that lags shows none of the machines that were rented a moment
// ago either, and then nobody ever gives them back. With --fixed it asks the API server for each
// of the machines that the Fleet may have.
//
// So it went in pingcap/tidb-operator#6532.
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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	finalizer  = "fleet.example.com/machines"
	fleetLabel = "fleet.example.com/fleet"
)

// lookAgain is when to look whether the provider has taken the machines back.
const lookAgain = 200 * time.Millisecond

// FleetReconciler rents machines and gives them back.
type FleetReconciler struct {
	client.Client
	Reader client.Reader // the cache, or with --fixed the API server
	Fixed  bool
}

// Reconcile brings one fleet to its size, or gives all of it back.
func (r *FleetReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	fleet := &Fleet{}
	if err := r.Reader.Get(ctx, req.NamespacedName, fleet); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !fleet.DeletionTimestamp.IsZero() {
		return r.release(ctx, fleet)
	}
	return ctrl.Result{}, r.rent(ctx, fleet)
}

// rent rents the machines that the fleet lacks and reports how many there are.
func (r *FleetReconciler) rent(ctx context.Context, fleet *Fleet) error {
	before := fleet.DeepCopyObject().(*Fleet)
	if controllerutil.AddFinalizer(fleet, finalizer) {
		if err := r.Patch(ctx, fleet, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("add finalizer: %w", err)
		}
	}
	for i := range fleet.Spec.Size {
		m := machine(fleet, i)
		err := r.Reader.Get(ctx, client.ObjectKeyFromObject(m), m)
		if apierrors.IsNotFound(err) {
			err = r.Create(ctx, m)
		}
		if err != nil {
			return fmt.Errorf("rent machine: %w", err)
		}
	}
	if fleet.Status.Rented == fleet.Spec.Size {
		return nil
	}
	before = fleet.DeepCopyObject().(*Fleet)
	fleet.Status.Rented = fleet.Spec.Size
	if err := r.Status().Patch(ctx, fleet, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
}

// release gives the machines back and lets the fleet go when none is left.
func (r *FleetReconciler) release(ctx context.Context, fleet *Fleet) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(fleet, finalizer) {
		return ctrl.Result{}, nil
	}
	machines, err := r.machines(ctx, fleet)
	if err != nil {
		return ctrl.Result{}, err
	}
	for i := range machines {
		if err := r.Delete(ctx, &machines[i]); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("give machine back: %w", err)
		}
	}
	if len(machines) > 0 {
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	before := fleet.DeepCopyObject().(*Fleet)
	controllerutil.RemoveFinalizer(fleet, finalizer)
	if err := r.Patch(ctx, fleet, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove finalizer: %w", err)
	}
	return ctrl.Result{}, nil
}

// machines are those that the fleet has.
func (r *FleetReconciler) machines(ctx context.Context, fleet *Fleet) ([]corev1.ConfigMap, error) {
	if !r.Fixed {
		list := &corev1.ConfigMapList{}
		err := r.List(ctx, list, client.InNamespace(fleet.Namespace), client.MatchingLabels{fleetLabel: fleet.Name})
		return list.Items, err
	}
	var all []corev1.ConfigMap
	for i := range max(fleet.Spec.Size, fleet.Status.Rented) {
		m := machine(fleet, i)
		err := r.Reader.Get(ctx, client.ObjectKeyFromObject(m), m)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, *m)
	}
	return all, nil
}

// machine is one of the fleet's machines.
func machine(fleet *Fleet, i int64) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: fleet.Namespace, Name: fmt.Sprintf("machine-%s-%d", fleet.Name, i), Labels: map[string]string{fleetLabel: fleet.Name},
	}}
}

// givenBack are the events after which there is something to do for a fleet.
var givenBack = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(event.UpdateEvent) bool { return false },
}

// fleetOf is the fleet to look at when a machine is gone.
func fleetOf(_ context.Context, machine client.Object) []ctrl.Request {
	name, ok := machine.GetLabels()[fleetLabel]
	if !ok {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: machine.GetNamespace(), Name: name}}}
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
	fleets := &FleetReconciler{Client: mgr.GetClient(), Reader: mgr.GetClient(), Fixed: fixed}
	if fixed {
		fleets.Reader = mgr.GetAPIReader()
	}
	if err := ctrl.NewControllerManagedBy(mgr).
		For(&Fleet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(fleetOf), builder.WithPredicates(givenBack)).
		Complete(fleets); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

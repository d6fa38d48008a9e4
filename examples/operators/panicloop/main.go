// Command panicloop is an operator of connection poolers: a Pooler becomes a ConfigMap with its settings, which depend
// on the Cluster that it stands before.
//
// Its fault: it takes it that the Cluster is there. When a Cluster is deleted and a Pooler stays, it panics on that
// Pooler, is recovered, and panics again on each retry. With --fixed a missing Cluster is a state of the Pooler, whose
// settings let nobody through then, whether the Cluster has gone or never was there.
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// connections is how many each member of a cluster takes.
const connections = 100

// PoolerReconciler sets poolers up.
type PoolerReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile brings one pooler's settings up to date.
func (r *PoolerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pooler := &Pooler{}
	if err := r.Get(ctx, req.NamespacedName, pooler); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cluster, err := r.clusterOf(ctx, pooler)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cluster == nil && r.Fixed {
		return r.setUp(ctx, pooler, "0", "WaitingForCluster")
	}
	return r.setUp(ctx, pooler, limit(cluster), "Ready")
}

// setUp writes the pooler's settings, and says how far it is.
func (r *PoolerReconciler) setUp(ctx context.Context, pooler *Pooler, connections, phase string) (ctrl.Result, error) {
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pooler.Namespace, Name: pooler.Name + "-settings"}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, settings, func() error {
		settings.Data = map[string]string{"connections": connections, "mode": pooler.Spec.Mode}
		return controllerutil.SetControllerReference(pooler, settings, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("write settings: %w", err)
	}
	return ctrl.Result{}, r.report(ctx, pooler, phase)
}

// limit is how many connections the cluster takes.
func limit(cluster *Cluster) string { return strconv.FormatInt(cluster.Spec.Size*connections, 10) }

// clusterOf is the cluster that the pooler stands before, nil if there is none.
func (r *PoolerReconciler) clusterOf(ctx context.Context, pooler *Pooler) (*Cluster, error) {
	cluster := &Cluster{}
	err := r.Get(ctx, types.NamespacedName{Namespace: pooler.Namespace, Name: pooler.Spec.Cluster}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return cluster, err
}

// report says how far the pooler is.
func (r *PoolerReconciler) report(ctx context.Context, pooler *Pooler, phase string) error {
	before := pooler.DeepCopyObject().(*Pooler)
	pooler.Status = PoolerStatus{ObservedGeneration: pooler.Generation, Phase: phase}
	if pooler.Status == before.Status {
		return nil
	}
	if err := r.Status().Patch(ctx, pooler, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
}

// poolersOf are the poolers before a cluster.
func (r *PoolerReconciler) poolersOf(ctx context.Context, cluster client.Object) []reconcile.Request {
	poolers := &PoolerList{}
	if err := r.List(ctx, poolers, client.InNamespace(cluster.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List poolers")
	}
	var keys []reconcile.Request
	for i := range poolers.Items {
		if poolers.Items[i].Spec.Cluster == cluster.GetName() {
			keys = append(keys, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&poolers.Items[i])})
		}
	}
	return keys
}

// SetupWithManager registers the reconciler.
func (r *PoolerReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&Pooler{}). // its status too: one that was written on an older view is looked at again
		Watches(&Cluster{}, handler.EnqueueRequestsFromMapFunc(r.poolersOf)).
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
	if err := (&PoolerReconciler{Client: mgr.GetClient(), Fixed: fixed}).SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

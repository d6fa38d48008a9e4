// Command stalechild is an operator whose databases are ConfigMaps labelled app=database, each with a Secret
// NAME-data that stands for its volume. Its fault is one that real operators have had (rabbitmq/cluster-operator
// #648, zookeeper-operator #312): it deletes what belongs to a database by name, because its informer shows the
// database in deletion. If what it shows is the past, the volume is that of a database made since. With --fixed it
// looks whose the Secret is.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const finalizer = "example.com/volume"

type reconciler struct {
	client.Client
	fixed bool
}

// Reconcile makes a database's volume, or deletes it with the database.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	db := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, db); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	volume := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: db.Name + "-data"}}
	if db.DeletionTimestamp.IsZero() {
		_, err := controllerutil.CreateOrUpdate(ctx, r.Client, volume, func() error {
			return controllerutil.SetControllerReference(db, volume, r.Scheme())
		})
		return ctrl.Result{}, err
	}
	ours := true
	if r.fixed {
		err := r.Get(ctx, client.ObjectKeyFromObject(volume), volume)
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		ours = err == nil && metav1.IsControlledBy(volume, db)
	}
	if ours {
		if err := r.Delete(ctx, volume); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	if !controllerutil.RemoveFinalizer(db, finalizer) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, db))
}

func main() {
	fixed := flag.Bool("fixed", false, "run the mended twin")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme: clientgoscheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		panic(err)
	}
	databases := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()["app"] == "database" })
	r := &reconciler{Client: mgr.GetClient(), fixed: *fixed}
	if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}, builder.WithPredicates(databases)).Complete(r); err != nil {
		panic(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		panic(err)
	}
}

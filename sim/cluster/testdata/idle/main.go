// Command idle is an operator with nothing to do: an informer, a leader's lease, a resync.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	elect := flag.Bool("leader-elect", false, "elect a leader")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection: *elect, LeaderElectionID: "idle", LeaderElectionNamespace: "default",
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		panic(err)
	}
	c := mgr.GetClient()
	if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
		return ctrl.Result{RequeueAfter: 5 * time.Minute}, c.Get(ctx, r.NamespacedName, &corev1.ConfigMap{})
	})); err != nil {
		panic(err)
	}
	if mgr.Start(ctrl.SetupSignalHandler()) != nil {
		os.Exit(1)
	}
}

type reconcile func(context.Context, ctrl.Request) (ctrl.Result, error)

func (f reconcile) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	return f(ctx, r)
}

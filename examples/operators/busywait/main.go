// Command busywait is an operator with an alarm clock: a Timer rings when its seconds are over.
//
// Its fault: it waits by asking over and over whether its clock has struck, which takes a whole processor and the worker. With
// --fixed it asks to be called again when the time has come.
//
// Like it is the loop of argo-rollouts that its commit 57a90cbbb ends: a controller that has nothing to do, and does so as fast as it can.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// TimerReconciler rings.
type TimerReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile waits for one timer's time, and rings.
func (r *TimerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	timer := &Timer{}
	if err := r.Get(ctx, req.NamespacedName, timer); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	due := timer.CreationTimestamp.Add(time.Duration(timer.Spec.Seconds) * time.Second)
	if timer.Status.Rung {
		return ctrl.Result{}, nil
	}
	if wait := time.Until(due); wait > 0 {
		if r.Fixed {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
		waitFor(due)
	}
	before := timer.DeepCopyObject().(*Timer)
	timer.Status.Rung = true
	if err := r.Status().Patch(ctx, timer, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

// waitFor returns when the time has come.
func waitFor(due time.Time) {
	var struck atomic.Bool
	time.AfterFunc(time.Until(due), func() { struck.Store(true) })
	for !struck.Load() {
	}
}

func setup(mgr ctrl.Manager, fixed bool) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Timer{}).
		Complete(&TimerReconciler{Client: mgr.GetClient(), Fixed: fixed})
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

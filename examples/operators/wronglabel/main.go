// Command wronglabel is an operator that sets up panels: a Grid gets a plan, a ConfigMap with the number of panels, and
// its status says which generation of the Grid that is for. Making a plan takes a while.
//
// Its fault: it reads the Grid anew before it writes the status, so that the write does not conflict, and takes the
// generation from there, while the plan was made from the Grid as it was before. Who changes the Grid meanwhile is told
// that this is done, and since the operator passes over a generation that is done, it never is. With --fixed the
// generation is that of the Grid which the plan was made from.
//
// So it went in kedacore/keda#6982 and knative/pkg#1394.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// planning is how long it takes to write a plan and to see it laid out.
const planning = time.Second

// GridReconciler makes plans.
type GridReconciler struct {
	client.Client
	Live  client.Reader // reads from the API server
	Fixed bool
}

// Reconcile makes the plan of one grid.
func (r *GridReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	grid := &Grid{}
	if err := r.Live.Get(ctx, req.NamespacedName, grid); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if grid.Status.ObservedGeneration == grid.Generation {
		return ctrl.Result{}, nil
	}
	plan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: grid.Namespace, Name: grid.Name + "-plan"}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, plan, func() error {
		plan.Data = map[string]string{"panels": strconv.FormatInt(grid.Spec.Panels, 10)}
		return controllerutil.SetControllerReference(grid, plan, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("write plan: %w", err)
	}
	time.Sleep(planning)
	return ctrl.Result{}, r.report(ctx, grid)
}

// report says that the grid's plan is made.
func (r *GridReconciler) report(ctx context.Context, grid *Grid) error {
	latest := &Grid{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(grid), latest); err != nil {
		return client.IgnoreNotFound(err)
	}
	latest.Status = GridStatus{ObservedGeneration: latest.Generation, Panels: grid.Spec.Panels}
	if r.Fixed {
		latest.Status.ObservedGeneration = grid.Generation
	}
	if err := r.Status().Update(ctx, latest); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
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

func setup(mgr ctrl.Manager, fixed bool) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Grid{}).
		Complete(&GridReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fixed: fixed})
}

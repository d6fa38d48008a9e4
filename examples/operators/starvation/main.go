// Command starvation is an operator of exports: an Export becomes a ConfigMap that a worker takes its task from, and in
// which it says that it is done.
//
// Its fault: it waits in line. The reconcile of an Export asks every half second whether the worker is done with it, and
// there is one reconcile at a time: one slow export keeps all others waiting. With --fixed it returns, and the
// ConfigMap's event wakes it; the ConfigMap says which generation of the Export it was made for, so that the task is not
// given out again when the cache shows an older one.
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
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// look is how often the faulty twin looks whether a worker is done, patience for how long.
	look     = 500 * time.Millisecond
	patience = time.Minute
)

// ExportReconciler has exports made.
type ExportReconciler struct {
	client.Client
	// Live reads from the API server.
	Live  client.Reader
	Fixed bool
}

// Reconcile has one export made and reports on it.
func (r *ExportReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	export := &Export{}
	if err := r.Get(ctx, req.NamespacedName, export); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	task := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: export.Namespace, Name: export.Name + "-task"}}
	old := false // what is shown of the export is
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, task, func() error {
		if old = r.Fixed && madeFor(task) > export.Generation; old {
			return nil
		}
		if r.Fixed {
			metav1.SetMetaDataAnnotation(&task.ObjectMeta, generation, strconv.FormatInt(export.Generation, 10))
		}
		if task.Data["table"] != export.Spec.Table {
			task.Data = map[string]string{"table": export.Spec.Table}
		}
		return controllerutil.SetControllerReference(export, task, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("give out the task: %w", err)
	}
	if old {
		return ctrl.Result{}, nil // the newer one is an event
	}
	if done(task) {
		return ctrl.Result{}, r.report(ctx, export, "Done")
	}
	if r.Fixed {
		return ctrl.Result{}, r.report(ctx, export, "Running")
	}
	if err := wait.PollUntilContextTimeout(ctx, look, patience, true, func(ctx context.Context) (bool, error) {
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(task), task)
		return done(task), err
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("wait for the worker: %w", err)
	}
	return ctrl.Result{}, r.report(ctx, export, "Done")
}

// generation is the annotation of a task that says which generation of the export it was made for.
const generation = "jobs.example.com/generation"

// madeFor is the generation of the export that a task was made for; 0 if it does not say.
func madeFor(task *corev1.ConfigMap) int64 {
	n, _ := strconv.ParseInt(task.Annotations[generation], 10, 64)
	return n
}

// done is whether the worker has said so.
func done(task *corev1.ConfigMap) bool {
	return task.Data["done"] == task.Data["table"] && task.Data["done"] != ""
}

// report says how far the export is.
func (r *ExportReconciler) report(ctx context.Context, export *Export, phase string) error {
	before := export.DeepCopyObject().(*Export)
	export.Status = ExportStatus{ObservedGeneration: export.Generation, Phase: phase}
	if export.Status == before.Status {
		return nil
	}
	if err := r.Status().Patch(ctx, export, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
}

// SetupWithManager registers the reconciler.
func (r *ExportReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&Export{}). // its status too: one that was written on an older view is looked at again
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
	if err := (&ExportReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fixed: fixed}).SetupWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// Command nodeadline is an operator that files forms: a Form becomes a ConfigMap.
//
// Its fault: neither its client nor its calls have a deadline, so that a webhook that doesn't answer holds its only worker
// for as long as the API server waits, half a minute for each Form. With --fixed a call is given up after five seconds, and
// made again later.
//
// So it went in opensearch-project/opensearch-k8s-operator#1333 and k8ssandra/cass-operator#895.
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// FormReconciler files forms.
type FormReconciler struct {
	client.Client
}

// Reconcile files one form.
func (r *FormReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	form := &Form{}
	if err := r.Get(ctx, req.NamespacedName, form); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if form.Status.Filed {
		return ctrl.Result{}, nil
	}
	file := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: form.Namespace, Name: form.Name + "-file"},
		Data:       map[string]string{"text": form.Spec.Text},
	}
	if err := controllerutil.SetControllerReference(form, file, r.Scheme()); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Create(ctx, file); client.IgnoreAlreadyExists(err) != nil {
		return ctrl.Result{}, fmt.Errorf("file: %w", err)
	}
	before := form.DeepCopyObject().(*Form)
	form.Status.Filed = true
	if err := r.Status().Patch(ctx, form, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

func setup(mgr ctrl.Manager, fixed bool) error {
	config := rest.CopyConfig(mgr.GetConfig())
	if fixed {
		config.Timeout = 5 * time.Second
	}
	c, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Cache: &client.CacheOptions{Reader: mgr.GetCache()}})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).For(&Form{}).Complete(&FormReconciler{Client: c})
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

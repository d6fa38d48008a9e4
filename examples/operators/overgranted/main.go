// Command overgranted is an operator for desks: a Desk gets a sign, a ConfigMap with its owner's name.
//
// Its fault is in its permissions (objects.yaml): its account may do anything with ConfigMaps and Secrets everywhere, as copied
// from another operator, and needs little of it. With --fixed it uses another account, which may do what the operator does.
// Outside a cluster it takes on its account by impersonation.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

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

// DeskReconciler labels desks.
type DeskReconciler struct {
	client.Client
}

// Reconcile labels one desk.
func (r *DeskReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	desk := &Desk{}
	if err := r.Get(ctx, req.NamespacedName, desk); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	sign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: desk.Namespace, Name: desk.Name + "-sign"}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, sign, func() error {
		sign.Data = map[string]string{"owner": desk.Spec.Owner}
		return controllerutil.SetControllerReference(desk, sign, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("write sign: %w", err)
	}
	if desk.Status.Owner == desk.Spec.Owner {
		return ctrl.Result{}, nil
	}
	before := desk.DeepCopyObject().(*Desk)
	desk.Status.Owner = desk.Spec.Owner
	if err := r.Status().Patch(ctx, desk, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

func setup(mgr ctrl.Manager, _ bool) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Desk{}).Complete(&DeskReconciler{Client: mgr.GetClient()})
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
	config.Impersonate.UserName = "system:serviceaccount:desk:overgranted"
	if fixed {
		config.Impersonate.UserName += "-fixed"
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

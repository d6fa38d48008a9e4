// Command farowner is an operator for tenants: a Tenant gets a configuration, a ConfigMap, in the namespace of the
// platform.
//
// Its fault: it makes the Tenant, which is in another namespace, the owner of the ConfigMap. The garbage collector looks
// for an owner in the dependent's own namespace, does not find it there, and deletes the ConfigMap: at its next restart,
// perhaps, and then that of all tenants. With --fixed the ConfigMap says by labels whose it is, and a finalizer has the
// operator delete it.
//
// So it went in banzaicloud/koperator#186 (all topics and users of Kafka clusters) and crossplane/crossplane#895.
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

const (
	finalizer   = "tenancy.example.com/configuration"
	tenantLabel = "tenancy.example.com/tenant"
	platform    = "default" // the namespace
)

// TenantReconciler configures tenants.
type TenantReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile configures one tenant.
func (r *TenantReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	tenant := &Tenant{}
	if err := r.Get(ctx, req.NamespacedName, tenant); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: platform, Name: tenant.Namespace + "-" + tenant.Name}}
	if r.Fixed {
		if done, err := r.hold(ctx, tenant, config); done || err != nil {
			return ctrl.Result{}, err
		}
	}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, config, func() error {
		config.Labels = map[string]string{tenantLabel: tenant.Name}
		config.Data = map[string]string{"plan": tenant.Spec.Plan}
		if !r.Fixed { // controllerutil.SetControllerReference would have refused
			config.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(tenant, groupVersion.WithKind("Tenant"))}
		}
		return nil
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("write configuration: %w", err)
	}
	if tenant.Status.Configured {
		return ctrl.Result{}, nil
	}
	before := tenant.DeepCopyObject().(*Tenant)
	tenant.Status.Configured = true
	if err := r.Status().Patch(ctx, tenant, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

// hold has the tenant wait for its configuration to be deleted. It is done with one that goes.
func (r *TenantReconciler) hold(ctx context.Context, tenant *Tenant, config *corev1.ConfigMap) (done bool, err error) {
	before := tenant.DeepCopyObject().(*Tenant)
	if tenant.DeletionTimestamp.IsZero() {
		if controllerutil.AddFinalizer(tenant, finalizer) {
			err = r.Patch(ctx, tenant, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		}
		return false, err
	}
	if !controllerutil.RemoveFinalizer(tenant, finalizer) {
		return true, nil
	}
	if err := r.Delete(ctx, config); client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("delete configuration: %w", err)
	}
	return true, client.IgnoreNotFound(r.Patch(ctx, tenant, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
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
	return ctrl.NewControllerManagedBy(mgr).For(&Tenant{}).
		Complete(&TenantReconciler{Client: mgr.GetClient(), Fixed: fixed})
}

// Command tugofwar is an operator for pools of workers: a Pool gets a Deployment. A second controller in the same
// program scales the Deployments of pools that say so, by the load.
//
// Its fault: the first controller writes the number of workers that the Pool says, whether the load is to decide or
// not. Each sets the number back as soon as it sees the other's. Neither fails, so that nothing slows them down. With
// --fixed the first one leaves the number alone once the Deployment is there, where the load is to decide.
//
// So it went in crossplane/crossplane#6751, cert-manager/cert-manager#2899 (a generation of 1.8 million) and wherever an
// operator writes the replicas that an autoscaler sets.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const poolLabel = "load.example.com/pool"

// busy is how many workers the load calls for.
const busy = 5

// think is how long either controller takes for a decision.
const think = 50 * time.Millisecond

// PoolReconciler gives pools their Deployments.
type PoolReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile writes one pool's Deployment.
func (r *PoolReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pool := &Pool{}
	if err := r.Get(ctx, req.NamespacedName, pool); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	time.Sleep(think)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: pool.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{poolLabel: pool.Name}
		if !r.Fixed || !pool.Spec.Autoscale || deployment.Spec.Replicas == nil {
			deployment.Spec.Replicas = &pool.Spec.Workers
		}
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		if len(deployment.Spec.Template.Spec.Containers) == 0 {
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "worker", Image: "worker"}}
		}
		return controllerutil.SetControllerReference(pool, deployment, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, client.IgnoreAlreadyExists(fmt.Errorf("write deployment: %w", err))
	}
	return ctrl.Result{}, nil
}

// ScaleReconciler scales Deployments by the load.
type ScaleReconciler struct {
	client.Client
}

// Reconcile scales one Deployment.
func (r *ScaleReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pool, deployment := &Pool{}, &appsv1.Deployment{}
	if err := r.Get(ctx, req.NamespacedName, deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.Get(ctx, req.NamespacedName, pool); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	time.Sleep(think)
	if !pool.Spec.Autoscale || deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == busy {
		return ctrl.Result{}, nil
	}
	before := deployment.DeepCopy()
	replicas := int32(busy)
	deployment.Spec.Replicas = &replicas
	if err := r.Patch(ctx, deployment, client.MergeFrom(before), client.FieldOwner("load-scaler")); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, nil
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
	err := ctrl.NewControllerManagedBy(mgr).For(&Pool{}).Owns(&appsv1.Deployment{}).
		Complete(&PoolReconciler{Client: mgr.GetClient(), Fixed: fixed})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("scale").For(&appsv1.Deployment{}).
		Complete(&ScaleReconciler{Client: mgr.GetClient()})
}

// Command fatalconflict is an operator that rolls out: a Rollout becomes a Deployment, which follows the
// Rollout's replicas.
//
// Its fault: a write of the Deployment that fails is the end. The Rollout's phase becomes Failed, and a Rollout
// that has failed is left alone until somebody looks into it. But the API server refuses an update with a conflict
// (409) whenever another writer was faster, or the operator's own cache a moment behind; nothing has failed
// then, and the next attempt would do. With --fixed such an error is returned, and the Rollout is tried again.
//
// So it went in argoproj/argo-rollouts#1775 and #4044: one conflict aborted a rollout for good.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// What a Rollout's phase may be.
const (
	done   = "Done"
	failed = "Failed"
)

// RolloutReconciler rolls out.
type RolloutReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile brings one rollout's Deployment up to date.
func (r *RolloutReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	rollout := &Rollout{}
	if err := r.Get(ctx, req.NamespacedName, rollout); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if rollout.Status.Phase == failed {
		return ctrl.Result{}, nil // somebody has to look into it
	}
	err := r.rollOut(ctx, rollout)
	if err != nil && (!r.Fixed || apierrors.IsInvalid(err)) {
		return ctrl.Result{}, r.report(ctx, rollout, failed, err.Error())
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, rollout, done, "")
}

// rollOut creates or scales the rollout's Deployment.
func (r *RolloutReconciler) rollOut(ctx context.Context, rollout *Rollout) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: rollout.Namespace, Name: rollout.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"deploy.example.com/rollout": rollout.Name}
		deployment.Spec.Replicas = &rollout.Spec.Replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		if len(deployment.Spec.Template.Spec.Containers) == 0 {
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app"}}
		}
		return controllerutil.SetControllerReference(rollout, deployment, r.Scheme())
	})
	return err
}

// report says how far the rollout is.
func (r *RolloutReconciler) report(ctx context.Context, rollout *Rollout, phase, message string) error {
	before := rollout.DeepCopyObject().(*Rollout)
	rollout.Status = RolloutStatus{ObservedGeneration: rollout.Generation, Phase: phase, Message: message}
	if rollout.Status == before.Status {
		return nil
	}
	if err := r.Status().Patch(ctx, rollout, client.MergeFrom(before)); err != nil {
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
	if err := ctrl.NewControllerManagedBy(mgr).
		For(&Rollout{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&RolloutReconciler{Client: mgr.GetClient(), Fixed: fixed}); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

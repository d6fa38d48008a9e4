// Command alwaysready is an operator for the stands of a market: a Stand gets a Deployment for its staff, and says by its
// condition Ready whether anybody is there.
//
// Its fault: it sets Ready when the first of the staff has come, and never looks again, so that a Stand whose Deployment
// has nobody left goes on to be Ready. With --fixed the condition is what the Deployment says, on each of its events.
//
// Like it are kedacore/keda#6982 and strimzi/strimzi-kafka-operator#12575, where a condition outlived what it was about.
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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// StandReconciler looks after stands.
type StandReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile looks after one stand.
func (r *StandReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	stand := &Stand{}
	if err := r.Get(ctx, req.NamespacedName, stand); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	staff := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: stand.Namespace, Name: stand.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, staff, func() error {
		labels := map[string]string{"market.example.com/stand": stand.Name}
		n := int32(stand.Spec.Staff)
		staff.Spec.Replicas = &n
		staff.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		staff.Spec.Template.Labels = labels
		if len(staff.Spec.Template.Spec.Containers) == 0 {
			staff.Spec.Template.Spec.Containers = []corev1.Container{{Name: "staff", Image: "registry.example.com/staff:1"}}
		}
		return controllerutil.SetControllerReference(stand, staff, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("hire: %w", err)
	}
	return ctrl.Result{}, r.report(ctx, stand, staff.Status.ReadyReplicas > 0)
}

// report says whether anybody is at the stand.
func (r *StandReconciler) report(ctx context.Context, stand *Stand, ready bool) error {
	before := stand.DeepCopyObject().(*Stand)
	condition := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Nobody", ObservedGeneration: stand.Generation}
	if ready || !r.Fixed && meta.IsStatusConditionTrue(stand.Status.Conditions, "Ready") {
		condition.Status, condition.Reason = metav1.ConditionTrue, "Staffed"
	}
	if !meta.SetStatusCondition(&stand.Status.Conditions, condition) {
		return nil
	}
	if err := r.Status().Patch(ctx, stand, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
}

func setup(mgr ctrl.Manager, fixed bool) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Stand{}).Owns(&appsv1.Deployment{}).
		Complete(&StandReconciler{Client: mgr.GetClient(), Fixed: fixed})
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

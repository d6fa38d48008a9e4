// Command nopredicate is an operator for sensors: a Sensor gets a ConfigMap with its unit, and an agent writes what it reads
// into the Sensor's status.
//
// Its fault: each of these writes queues a pass, which finds nothing to do. With --fixed only changes of the spec queue one.
//
// So it went in konflux-ci/konflux-ci#5874 and pravega/zookeeper-operator#389.
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
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// SensorReconciler sets sensors up.
type SensorReconciler struct {
	client.Client
}

// Reconcile sets one sensor up.
func (r *SensorReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	sensor := &Sensor{}
	if err := r.Get(ctx, req.NamespacedName, sensor); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: sensor.Namespace, Name: sensor.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, config, func() error {
		config.Data = map[string]string{"unit": sensor.Spec.Unit}
		return controllerutil.SetControllerReference(sensor, config, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("set up: %w", err)
	}
	return ctrl.Result{}, nil
}

func setup(mgr ctrl.Manager, fixed bool) error {
	var predicates []predicate.Predicate
	if fixed {
		predicates = append(predicates, predicate.GenerationChangedPredicate{})
	}
	return ctrl.NewControllerManagedBy(mgr).For(&Sensor{}, builder.WithPredicates(predicates...)).
		Complete(&SensorReconciler{Client: mgr.GetClient()})
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

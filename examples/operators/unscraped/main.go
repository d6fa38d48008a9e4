// Command unscraped is an operator for weather stations: a Station gets a Service for its metrics, and a ServiceMonitor,
// which has Prometheus' operator scrape it.
//
// Its fault: the ServiceMonitor selects by a label that the Service had in an earlier version, so that nobody scrapes it, and
// nobody is told. With --fixed both have their labels from one place.
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// StationReconciler has stations watched.
type StationReconciler struct {
	client.Client
	Fixed bool
}

func labelsOf(station *Station) map[string]string {
	return map[string]string{"app.kubernetes.io/name": station.Name}
}

// Reconcile has one station watched.
func (r *StationReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	station := &Station{}
	if err := r.Get(ctx, req.NamespacedName, station); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: station.Namespace, Name: station.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.Labels = labelsOf(station)
		service.Spec.Selector = labelsOf(station)
		service.Spec.ClusterIP = corev1.ClusterIPNone
		service.Spec.Ports = []corev1.ServicePort{{
			Name: "metrics", Port: int32(station.Spec.Port), Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(int32(station.Spec.Port)),
		}}
		return controllerutil.SetControllerReference(station, service, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("write service: %w", err)
	}
	if err := r.monitor(ctx, station); err != nil {
		return ctrl.Result{}, err
	}
	if station.Status.Monitored {
		return ctrl.Result{}, nil
	}
	before := station.DeepCopyObject().(*Station)
	station.Status.Monitored = true
	if err := r.Status().Patch(ctx, station, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

// monitor makes the station's ServiceMonitor.
func (r *StationReconciler) monitor(ctx context.Context, station *Station) error {
	labels := map[string]any{"app": station.Name}
	if r.Fixed {
		labels = map[string]any{}
		for k, v := range labelsOf(station) {
			labels[k] = v
		}
	}
	monitor := &unstructured.Unstructured{}
	monitor.SetGroupVersionKind(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"})
	monitor.SetNamespace(station.Namespace)
	monitor.SetName(station.Name)
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, monitor, func() error {
		monitor.Object["spec"] = map[string]any{
			"selector":  map[string]any{"matchLabels": labels},
			"endpoints": []any{map[string]any{"port": "metrics"}},
		}
		return controllerutil.SetControllerReference(station, monitor, r.Scheme())
	})
	if err != nil {
		return fmt.Errorf("write monitor: %w", err)
	}
	return nil
}

func setup(mgr ctrl.Manager, fixed bool) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Station{}).
		Complete(&StationReconciler{Client: mgr.GetClient(), Fixed: fixed})
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

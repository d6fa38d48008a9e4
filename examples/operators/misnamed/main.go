// Command misnamed is an operator for shelves: a Shelf gets a ConfigMap with a list of its books, and metrics tell how often
// and how fast.
//
// Its fault: the metrics are named as they came to mind, so that a dashboard takes a counter for a gauge, a gauge for a
// histogram's count, and milliseconds for seconds. With --fixed they have the names that Prometheus' conventions give them.
//
// So it went in operator-framework/operator-lifecycle-manager#1627 and kubevirt/kubevirt#9836.
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
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// measures are the operator's own metrics.
type measures struct {
	shelves  prometheus.Gauge
	restocks prometheus.Counter
	took     prometheus.Histogram
	unit     time.Duration // of took
}

func newMeasures(fixed bool) measures {
	shelves, restocks, took, unit := "shelf_count", "shelf_restocks", "shelf_restock_ms", time.Millisecond
	if fixed {
		shelves, restocks, took, unit = "shelves", "shelf_restocks_total", "shelf_restock_seconds", time.Second
	}
	m := measures{
		shelves:  prometheus.NewGauge(prometheus.GaugeOpts{Name: shelves, Help: "Shelves that there are."}),
		restocks: prometheus.NewCounter(prometheus.CounterOpts{Name: restocks, Help: "How often a shelf was filled."}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: took, Help: "How long it took to fill a shelf.",
			Buckets: prometheus.ExponentialBuckets(0.001*float64(time.Second)/float64(unit), 4, 6),
		}),
		unit: unit,
	}
	metrics.Registry.MustRegister(m.shelves, m.restocks, m.took)
	return m
}

// ShelfReconciler fills shelves.
type ShelfReconciler struct {
	client.Client
	Measures measures
}

// Reconcile fills one shelf.
func (r *ShelfReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := time.Now()
	var all ShelfList
	if err := r.List(ctx, &all); err != nil {
		return ctrl.Result{}, fmt.Errorf("count shelves: %w", err)
	}
	r.Measures.shelves.Set(float64(len(all.Items)))
	shelf := &Shelf{}
	if err := r.Get(ctx, req.NamespacedName, shelf); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shelf.Namespace, Name: shelf.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, list, func() error {
		list.Data = map[string]string{"books": strconv.FormatInt(shelf.Spec.Books, 10)}
		return controllerutil.SetControllerReference(shelf, list, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("fill shelf: %w", err)
	}
	r.Measures.restocks.Inc()
	r.Measures.took.Observe(float64(time.Since(began)) / float64(r.Measures.unit))
	return ctrl.Result{}, nil
}

func setup(mgr ctrl.Manager, fixed bool) error {
	return ctrl.NewControllerManagedBy(mgr).For(&Shelf{}).
		Complete(&ShelfReconciler{Client: mgr.GetClient(), Measures: newMeasures(fixed)})
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

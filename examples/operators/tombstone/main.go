// Command tombstone is an operator for routing tables: each Route belongs to a table, and each table is a ConfigMap
// with the ways of all its Routes.
//
// Its fault: it listens to its informer itself, and takes what it is given for a Route. When a watch has been
// interrupted and the informer lists anew, an object that was deleted meanwhile is reported by a tombstone
// (DeletedFinalStateUnknown): the informer knows that it is gone and not what it was in the end. The
// conversion panics, and the operator with it. With --fixed the Route is taken out of the tombstone.
//
// So it went in rook/rook#3281, longhorn/longhorn#1900, projectcalico/calico#12741 and
// open-policy-agent/kube-mgmt#35.
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
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const tableLabel = "net.example.com/table"

// TableReconciler writes routing tables.
type TableReconciler struct {
	client.Client
}

// Reconcile writes one table.
func (r *TableReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	routes := &RouteList{}
	if err := r.List(ctx, routes, client.InNamespace(req.Namespace)); err != nil {
		return ctrl.Result{}, err
	}
	ways := map[string]string{}
	for i := range routes.Items {
		if route := &routes.Items[i]; route.Spec.Table == req.Name {
			ways[route.Name] = route.Spec.Via
		}
	}
	table := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, table, func() error {
		table.Labels = map[string]string{tableLabel: "true"}
		table.Data = ways
		return nil
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("write table: %w", err)
	}
	return ctrl.Result{}, nil
}

// listener passes the tables on whose routes have changed.
type listener struct {
	tables chan event.GenericEvent
	fixed  bool
}

func (l *listener) changed(route *Route) {
	l.tables <- event.GenericEvent{Object: &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: route.Namespace, Name: route.Spec.Table},
	}}
}

func (l *listener) deleted(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok && l.fixed {
		obj = tombstone.Obj
	}
	l.changed(obj.(*Route))
}

// listen has the listener told of all routes.
func (l *listener) listen(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &Route{})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { l.changed(obj.(*Route)) },
		UpdateFunc: func(old, obj any) {
			l.changed(old.(*Route)) // which may have been in another table
			l.changed(obj.(*Route))
		},
		DeleteFunc: l.deleted,
	})
	return err
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
	ctx := ctrl.SetupSignalHandler()
	routes := &listener{tables: make(chan event.GenericEvent), fixed: fixed}
	if err := routes.listen(ctx, mgr); err != nil {
		return err
	}
	// The tables that there are when the operator starts, too: the last route of one may have gone meanwhile.
	tables, err := predicate.LabelSelectorPredicate(metav1.LabelSelector{MatchLabels: map[string]string{tableLabel: "true"}})
	if err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(mgr).Named("tables").
		For(&corev1.ConfigMap{}, builder.WithPredicates(tables, predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})).
		WatchesRawSource(source.Channel(routes.tables, &handler.EnqueueRequestForObject{})).
		Complete(&TableReconciler{Client: mgr.GetClient()}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

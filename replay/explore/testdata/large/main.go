// Command large is an operator for benchmarks, of the usual make: for each ConfigMap that is labelled kind=app three
// controllers keep a Service, a ServiceAccount and a ConfigMap of settings, and a fourth counts them in an annotation.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

func main() {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "ERROR", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	for name, child := range map[string]func() client.Object{
		"services": func() client.Object {
			return &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		},
		"accounts": func() client.Object { return &corev1.ServiceAccount{} },
		"settings": func() client.Object { return &corev1.ConfigMap{Data: map[string]string{"size": "3"}} },
	} {
		if err := apps(mgr, name).Owns(child()).Complete(&keeper{mgr.GetClient(), child}); err != nil {
			return err
		}
	}
	counted := apps(mgr, "counts").Owns(&corev1.Service{}).Owns(&corev1.ServiceAccount{}).Owns(&corev1.ConfigMap{})
	if err := counted.Complete(&counter{mgr.GetClient()}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// apps is a controller of the ConfigMaps that are apps.
func apps(mgr ctrl.Manager, name string) *builder.Builder {
	isApp := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()["kind"] == "app" })
	return ctrl.NewControllerManagedBy(mgr).Named(name).For(&corev1.ConfigMap{}, builder.WithPredicates(isApp))
}

// keeper creates what an app lacks.
type keeper struct {
	client.Client
	child func() client.Object
}

// Reconcile implements reconcile.Reconciler.
func (k *keeper) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	app := &corev1.ConfigMap{}
	if err := k.Get(ctx, q.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	child := k.child()
	key := client.ObjectKey{Namespace: q.Namespace, Name: q.Name + "-child"}
	if err := k.Get(ctx, key, child); !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	child = k.child()
	child.SetNamespace(key.Namespace)
	child.SetName(key.Name)
	if err := controllerutil.SetControllerReference(app, child, k.Scheme()); err != nil {
		return ctrl.Result{}, err
	}
	if err := k.Create(ctx, child); !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

// counter says in an annotation how many of an app's children there are.
type counter struct{ client.Client }

// Reconcile implements reconcile.Reconciler.
func (c *counter) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	app := &corev1.ConfigMap{}
	if err := c.Get(ctx, q.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	n := 0
	for _, child := range []client.Object{&corev1.Service{}, &corev1.ServiceAccount{}, &corev1.ConfigMap{}} {
		switch err := c.Get(ctx, client.ObjectKey{Namespace: q.Namespace, Name: q.Name + "-child"}, child); {
		case err == nil && metav1.IsControlledBy(child, app):
			n++
		case client.IgnoreNotFound(err) != nil:
			return ctrl.Result{}, err
		}
	}
	if app.Annotations["children"] == strconv.Itoa(n) {
		return ctrl.Result{}, nil
	}
	before := app.DeepCopy()
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, "children", strconv.Itoa(n))
	return ctrl.Result{}, c.Patch(ctx, app, client.MergeFrom(before))
}

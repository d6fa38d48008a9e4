// Command oldpods is an operator for programs: an App gets its settings, a ConfigMap, and a Pod that takes them from there as
// its environment.
//
// Its fault: when the settings change it writes the ConfigMap and leaves the Pod as it is, and a container reads its
// environment once, when it starts. With --fixed the Pod carries a hash of its settings, and one with another hash is made
// anew, if the API server, and not the cache alone, says that the App wants it.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const hashAnnotation = "app.example.com/settings-hash"

// AppReconciler runs programs.
type AppReconciler struct {
	client.Client
	Live  client.Reader // reads from the API server, and not from the cache
	Fixed bool
}

// Reconcile runs one program.
func (r *AppReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name + "-settings"}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, settings, func() error {
		settings.Data = map[string]string{"LEVEL": app.Spec.Level}
		return controllerutil.SetControllerReference(app, settings, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("write settings: %w", err)
	}
	if err := r.start(ctx, app, settings); err != nil {
		return ctrl.Result{}, err
	}
	if app.Status.Level == app.Spec.Level {
		return ctrl.Result{}, nil
	}
	before := app.DeepCopyObject().(*App)
	app.Status.Level = app.Spec.Level
	if err := r.Status().Patch(ctx, app, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

// start makes the program's pod, or deletes one with other settings, whose event queues the next pass. What it takes for the
// present settings is looked up before, since a pod does not come back.
func (r *AppReconciler) start(ctx context.Context, app *App, settings *corev1.ConfigMap) error {
	pod := &corev1.Pod{}
	err := r.Get(ctx, types.NamespacedName{Namespace: app.Namespace, Name: app.Name + "-0"}, pod)
	if err == nil {
		if !r.Fixed || pod.Annotations[hashAnnotation] == hash(settings) || !pod.DeletionTimestamp.IsZero() {
			return nil
		}
		if ok, err := r.current(ctx, app); err != nil || !ok {
			return err
		}
		return client.IgnoreNotFound(r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})) // not the next of that name
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name + "-0"}}
	if r.Fixed {
		pod.Annotations = map[string]string{hashAnnotation: hash(settings)}
	}
	pod.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "registry.example.com/program:1",
		EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: settings.Name},
		}}},
	}}
	if err := controllerutil.SetControllerReference(app, pod, r.Scheme()); err != nil {
		return err
	}
	if err := r.Create(ctx, pod); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

// current says whether the program is still as the cache shows it: a pod that is stopped for settings of long ago is stopped
// again for the present ones, once they are seen.
func (r *AppReconciler) current(ctx context.Context, app *App) (bool, error) {
	now := &App{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(app), now); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return now.UID == app.UID && now.Generation == app.Generation, nil
}

func hash(settings *corev1.ConfigMap) string {
	h := fnv.New32a()
	fmt.Fprint(h, settings.Data) // fmt sorts the keys of a map
	return fmt.Sprintf("%08x", h.Sum32())
}

func setup(mgr ctrl.Manager, fixed bool) error {
	return ctrl.NewControllerManagedBy(mgr).For(&App{}).Owns(&corev1.ConfigMap{}).Owns(&corev1.Pod{}).
		Complete(&AppReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fixed: fixed})
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

// Command throttled is an operator for albums: an Album gets a ConfigMap for each of its pages, all of them at once.
//
// Its fault: it writes them with a client of its own, whose limits are client-go's, five calls a second after the first ten,
// so that an album of thirty pages waits for its own client for four seconds. With --fixed the limits are what it needs; the
// API server has a fairness of its own.
//
// Like it is k8ssandra/cass-operator#964, where an operator's own queue and not the cluster was what made others wait.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// AlbumReconciler makes albums.
type AlbumReconciler struct {
	client.Client
	Pages kubernetes.Interface
}

// Reconcile makes one album.
func (r *AlbumReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	album := &Album{}
	if err := r.Get(ctx, req.NamespacedName, album); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if album.Status.Pages == album.Spec.Pages {
		return ctrl.Result{}, nil
	}
	failures := make([]error, album.Spec.Pages)
	var all sync.WaitGroup
	for i := range failures {
		all.Go(func() { failures[i] = r.write(ctx, album, i) })
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return ctrl.Result{}, fmt.Errorf("write pages: %w", err)
	}
	before := album.DeepCopyObject().(*Album)
	album.Status.Pages = album.Spec.Pages
	if err := r.Status().Patch(ctx, album, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

// write makes one page.
func (r *AlbumReconciler) write(ctx context.Context, album *Album, i int) error {
	page := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: album.Namespace, Name: fmt.Sprintf("%s-%d", album.Name, i)},
		Data:       map[string]string{"page": strconv.Itoa(i)},
	}
	if err := controllerutil.SetControllerReference(album, page, r.Scheme()); err != nil {
		return err
	}
	_, err := r.Pages.CoreV1().ConfigMaps(album.Namespace).Create(ctx, page, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func setup(mgr ctrl.Manager, fixed bool) error {
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS, config.Burst = 0, 0 // client-go's own, 5 and 10
	if fixed {
		config.QPS, config.Burst = 100, 200
	}
	pages, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).For(&Album{}).
		Complete(&AlbumReconciler{Client: mgr.GetClient(), Pages: pages})
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

// Command prunedfield is an operator for caches: for each ConfigMap with a label it keeps a Cache of the size that the
// ConfigMap says, and looks again soon until the Cache is as it should be.
//
// Its fault: it compares the Cache as it is stored with the Cache as it should be. The cluster has an older definition
// of Caches, without the field eviction, so that the API server drops the field of each write without a word, and the
// Cache is never as it should be. With --fixed it compares what it last sent, of which it keeps a hash on the Cache,
// with what it would send.
//
// So it went in prometheus-operator/prometheus-operator#2950 and #5067, and actions/actions-runner-controller#1643.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	cacheLabel = "cache.example.com/cache"
	sentHash   = "cache.example.com/sent"
)

// lookAgain is when to look whether a Cache has become what it should be.
const lookAgain = 250 * time.Millisecond

// CacheReconciler keeps Caches as the ConfigMaps say.
type CacheReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile keeps the Cache of one ConfigMap.
func (r *CacheReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &corev1.ConfigMap{}
	if err := r.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	size, err := strconv.ParseInt(config.Data["sizeMiB"], 10, 64)
	if config.Labels[cacheLabel] == "" || err != nil {
		return ctrl.Result{}, nil //nolint:nilerr // not a configuration of a cache: nobody's work
	}
	want := CacheSpec{SizeMiB: size, Eviction: "lru"}
	hash := hashOf(want)
	cache := &Cache{}
	err = r.Get(ctx, req.NamespacedName, cache)
	switch {
	case apierrors.IsNotFound(err):
		cache = &Cache{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name, Annotations: map[string]string{sentHash: hash}}, Spec: want}
		if err := r.Create(ctx, cache); err != nil {
			return ctrl.Result{}, fmt.Errorf("create cache: %w", err)
		}
	case err != nil:
		return ctrl.Result{}, err
	case r.Fixed && cache.Annotations[sentHash] == hash, !r.Fixed && cache.Spec == want:
		return ctrl.Result{}, nil
	default:
		cache = cache.DeepCopyObject().(*Cache)
		cache.Annotations = map[string]string{sentHash: hash}
		cache.Spec = want
		if err := r.Update(ctx, cache); err != nil {
			return ctrl.Result{}, fmt.Errorf("update cache: %w", err)
		}
	}
	return ctrl.Result{RequeueAfter: lookAgain}, nil
}

// hashOf is a hash of what is sent.
func hashOf(spec CacheSpec) string {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%+v", spec)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
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
	return ctrl.NewControllerManagedBy(mgr).Named("cache").For(&corev1.ConfigMap{}).
		Complete(&CacheReconciler{Client: mgr.GetClient(), Fixed: fixed})
}

// Command openbreaker is an operator that connects: a Link leads to a peer, a ConfigMap that says whether the peer is up.
// A peer that fails three times in a row is left alone for a while by a circuit breaker.
//
// Its fault: a try that the open breaker holds back counts as one more failure, from which the pause begins anew. Since it
// is tried more often than the pause is long, the breaker never closes, though the peer has long been up. With --fixed
// only a try that was made counts.
//
// Crossplane has had breakers of that kind since crossplane/crossplane#6751.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	pause = 15 * time.Second // for which an open breaker holds tries back
	retry = 5 * time.Second
)

// breaker counts the failures of one peer.
type breaker struct {
	failures int
	until    time.Time // for which it is open
}

func (b *breaker) failed() {
	if b.failures++; b.failures >= 3 {
		b.until = time.Now().Add(pause)
	}
}

// LinkReconciler connects links. It has one worker.
type LinkReconciler struct {
	client.Client
	Fixed bool

	breakers map[string]*breaker
}

// Reconcile connects one link.
func (r *LinkReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	link := &Link{}
	if err := r.Get(ctx, req.NamespacedName, link); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	b := r.breakers[link.Spec.Peer]
	if b == nil {
		b = &breaker{}
		r.breakers[link.Spec.Peer] = b
	}
	if time.Now().Before(b.until) {
		ctrl.LoggerFrom(ctx).Info("Circuit breaker is open, not connecting", "peer", link.Spec.Peer)
		if !r.Fixed {
			b.failed()
		}
		return ctrl.Result{RequeueAfter: retry}, nil
	}
	peer := &corev1.ConfigMap{}
	if err := r.Get(ctx, types.NamespacedName{Namespace: link.Namespace, Name: link.Spec.Peer}, peer); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if peer.Data["up"] != "true" {
		b.failed()
		return ctrl.Result{RequeueAfter: retry}, r.report(ctx, link, "Failing")
	}
	if b.failures > 0 {
		ctrl.LoggerFrom(ctx).Info("Circuit breaker is closed", "peer", link.Spec.Peer)
		*b = breaker{}
	}
	return ctrl.Result{}, r.report(ctx, link, "Connected")
}

// report says how the link is.
func (r *LinkReconciler) report(ctx context.Context, link *Link, phase string) error {
	if link.Status.Phase == phase {
		return nil
	}
	before := link.DeepCopyObject().(*Link)
	link.Status.Phase = phase
	if err := r.Status().Patch(ctx, link, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
}

func setup(mgr ctrl.Manager, fixed bool) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&Link{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&LinkReconciler{Client: mgr.GetClient(), Fixed: fixed, breakers: map[string]*breaker{}})
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

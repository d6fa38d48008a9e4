// Command missedsize is an operator for rings of database members. An autoscaler sets a Ring's size, and machines
// that come up enrol as members by themselves (a ConfigMap each). When the Ring becomes smaller the operator
// removes the members beyond its size, so that the others stop asking them for data.
//
// Its fault: it takes the work from the difference between the size that it has last brought about, which it
// keeps in the status, and the present one. Every size that it does not see is work that it does not do: if
// a Ring goes from 3 to 5 and back to 3 before it looks, nothing has changed for it, and the members that
// enrolled in between stay for ever. With --fixed it compares the members that there are with the size.
//
// So it went in instaclustr/cassandra-operator#410: a change of size that was taken back before the next pass left
// a node between two states for ever.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// What a member's ConfigMap says of it.
const (
	ringLabel  = "ring.example.com/ring"
	indexLabel = "ring.example.com/index"
)

// RingReconciler removes the members that a ring has no more room for.
type RingReconciler struct {
	client.Client
	Live  client.Reader // reads from the API server
	Fixed bool
}

// Reconcile brings one ring to its size.
func (r *RingReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var reader client.Reader = r.Client
	if r.Fixed {
		reader = r.Live // a ring that has grown since must not lose members
	}
	ring := &Ring{}
	if err := reader.Get(ctx, req.NamespacedName, ring); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	surplus, err := r.surplus(ctx, ring)
	if err != nil {
		return ctrl.Result{}, err
	}
	for i := range surplus {
		if err := r.Delete(ctx, &surplus[i]); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("remove member: %w", err)
		}
	}
	if ring.Status.Size == ring.Spec.Size {
		return ctrl.Result{}, nil
	}
	before := ring.DeepCopyObject().(*Ring)
	ring.Status.Size = ring.Spec.Size
	if err := r.Status().Patch(ctx, ring, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

// surplus are the members beyond the ring's size.
func (r *RingReconciler) surplus(ctx context.Context, ring *Ring) ([]corev1.ConfigMap, error) {
	var surplus []corev1.ConfigMap
	if !r.Fixed {
		for i := ring.Spec.Size; i < ring.Status.Size; i++ {
			surplus = append(surplus, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: ring.Namespace, Name: fmt.Sprintf("%s-member-%d", ring.Name, i),
			}})
		}
		return surplus, nil
	}
	members := &corev1.ConfigMapList{}
	if err := r.List(ctx, members, client.InNamespace(ring.Namespace), client.MatchingLabels{ringLabel: ring.Name}); err != nil {
		return nil, err
	}
	for _, m := range members.Items {
		index, err := strconv.ParseInt(m.Labels[indexLabel], 10, 64)
		if err == nil && index >= ring.Spec.Size {
			surplus = append(surplus, m)
		}
	}
	return surplus, nil
}

// ringOf is the ring to look at when a member enrols.
func ringOf(_ context.Context, member client.Object) []ctrl.Request {
	name, ok := member.GetLabels()[ringLabel]
	if !ok {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: member.GetNamespace(), Name: name}}}
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
	rings := ctrl.NewControllerManagedBy(mgr).For(&Ring{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	if fixed {
		rings = rings.Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(ringOf))
	}
	if err := rings.Complete(&RingReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fixed: fixed}); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

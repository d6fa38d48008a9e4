// Command orphanfinalizer is an operator for DNS: a Record belongs to a Zone and is kept at the DNS
// provider (here a ConfigMap for each record stands for it). A finalizer on the Record makes sure that it
// leaves the provider before it leaves the cluster.
//
// Its fault: the first thing it does with a Record is to get its Zone, and when there is none it has
// nothing to do. That comes before it looks whether the Record is being deleted. Who deletes the Zone
// first has Records that hang in Terminating for ever, without an error, a log line or a retry. With
// --fixed a missing zone is a state like any other: the Record is cleaned up and let go.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const finalizer = "dns.example.com/provider"

// RecordReconciler keeps records at the provider.
type RecordReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile brings one record to the provider, or away from it.
func (r *RecordReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	record := &Record{}
	if err := r.Get(ctx, req.NamespacedName, record); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	zone := &Zone{}
	err := r.Get(ctx, client.ObjectKey{Namespace: record.Namespace, Name: record.Spec.Zone}, zone)
	if apierrors.IsNotFound(err) && r.Fixed && !record.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.remove(ctx, record)
	}
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !record.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.remove(ctx, record)
	}
	return ctrl.Result{}, r.publish(ctx, record, zone)
}

// publish brings the record to the provider and reports its full name.
func (r *RecordReconciler) publish(ctx context.Context, record *Record, zone *Zone) error {
	before := record.DeepCopyObject().(*Record)
	if controllerutil.AddFinalizer(record, finalizer) {
		if err := r.Patch(ctx, record, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("add finalizer: %w", err)
		}
	}
	entry := providerEntry(record)
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, entry, func() error {
		entry.Data = map[string]string{"address": record.Spec.Address}
		return nil
	}); err != nil {
		return fmt.Errorf("publish record: %w", err)
	}
	before = record.DeepCopyObject().(*Record)
	record.Status = RecordStatus{FQDN: record.Name + "." + zone.Spec.Domain, ObservedGeneration: record.Generation}
	if record.Status == before.Status {
		return nil
	}
	if err := r.Status().Patch(ctx, record, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
}

// remove takes the record from the provider and lets it go.
func (r *RecordReconciler) remove(ctx context.Context, record *Record) error {
	if err := r.Delete(ctx, providerEntry(record)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove record: %w", err)
	}
	before := record.DeepCopyObject().(*Record)
	if controllerutil.RemoveFinalizer(record, finalizer) {
		if err := r.Patch(ctx, record, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("remove finalizer: %w", err)
		}
		ctrl.LoggerFrom(ctx).Info("Removed record")
	}
	return nil
}

// providerEntry is the ConfigMap that stands for what the DNS provider has of the record.
func providerEntry(record *Record) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: record.Namespace, Name: "provider-" + record.Name}}
}

// recordsOf is which records to look at when a zone changes.
func (r *RecordReconciler) recordsOf(ctx context.Context, zone client.Object) []ctrl.Request {
	records := &RecordList{}
	if err := r.List(ctx, records, client.InNamespace(zone.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the records of a zone", "zone", zone.GetName())
		return nil
	}
	var out []ctrl.Request
	for i := range records.Items {
		if records.Items[i].Spec.Zone == zone.GetName() {
			out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&records.Items[i])})
		}
	}
	return out
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
	records := &RecordReconciler{Client: mgr.GetClient(), Fixed: fixed}
	if err := ctrl.NewControllerManagedBy(mgr).
		For(&Record{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&Zone{}, handler.EnqueueRequestsFromMapFunc(records.recordsOf)).
		Complete(records); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

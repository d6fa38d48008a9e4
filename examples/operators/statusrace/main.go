// Command statusrace is an operator for databases, with two controllers for one kind: provisioning makes
// the server fit the spec, backups makes a backup schedule for it. Both report in the conditions of the
// Database's status.
//
// Its fault: each writes the status from the copy that it read before its work. provisioning ends with a
// merge patch, which replaces the whole list of conditions with the one it read plus its own: what
// backups reported meanwhile is lost, and since both look only at changes of the spec, nobody reports it
// again. backups ends with an update, which the API server refuses with a conflict, because provisioning
// announced its target in between. With --fixed each applies only what is its own, under a field manager
// of its own, so neither needs a copy.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// How long the two take for what they do outside the cluster.
const (
	provisionTime = 600 * time.Millisecond
	scheduleTime  = 150 * time.Millisecond
)

// Provisioner makes the database server fit the spec.
type Provisioner struct {
	client.Client
	Fixed bool
}

// Reconcile provisions one database.
func (r *Provisioner) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	db := &Database{}
	if err := r.Get(ctx, req.NamespacedName, db); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.announce(ctx, db); err != nil {
		return ctrl.Result{}, err
	}
	if err := work(ctx, provisionTime); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, db)
}

// announce says which size provisioning works towards.
func (r *Provisioner) announce(ctx context.Context, db *Database) error {
	if r.Fixed {
		return apply(ctx, r.Client, db, "provisioning-target", map[string]any{"targetGiB": db.Spec.SizeGiB})
	}
	written := db.DeepCopyObject().(*Database)
	written.Status.TargetGiB = db.Spec.SizeGiB
	return r.Status().Patch(ctx, written, client.MergeFrom(db))
}

// report says that the server fits the spec.
func (r *Provisioner) report(ctx context.Context, db *Database) error {
	ready := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "AsSpecified",
		Message: fmt.Sprintf("%d GiB", db.Spec.SizeGiB), ObservedGeneration: db.Generation,
	}
	if r.Fixed {
		return applyCondition(ctx, r.Client, db, "provisioning", ready)
	}
	written := db.DeepCopyObject().(*Database)
	meta.SetStatusCondition(&written.Status.Conditions, ready)
	return r.Status().Patch(ctx, written, client.MergeFrom(db))
}

// BackupScheduler makes backups of the database.
type BackupScheduler struct {
	client.Client
	Fixed bool
}

// Reconcile schedules the backups of one database.
func (r *BackupScheduler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	db := &Database{}
	if err := r.Get(ctx, req.NamespacedName, db); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := work(ctx, scheduleTime); err != nil {
		return ctrl.Result{}, err
	}
	scheduled := metav1.Condition{
		Type: "BackupScheduled", Status: metav1.ConditionTrue, Reason: "Scheduled",
		Message: fmt.Sprintf("daily, %d GiB", db.Spec.SizeGiB), ObservedGeneration: db.Generation,
	}
	if r.Fixed {
		return ctrl.Result{}, applyCondition(ctx, r.Client, db, "backups", scheduled)
	}
	meta.SetStatusCondition(&db.Status.Conditions, scheduled)
	return ctrl.Result{}, r.Status().Update(ctx, db)
}

// applyCondition reports one condition and leaves all others alone.
func applyCondition(ctx context.Context, c client.Client, db *Database, owner string, cond metav1.Condition) error {
	cond.LastTransitionTime = metav1.Now()
	if old := meta.FindStatusCondition(db.Status.Conditions, cond.Type); old != nil && old.Status == cond.Status {
		cond.LastTransitionTime = old.LastTransitionTime
	}
	condition, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&cond)
	if err != nil {
		return err
	}
	return apply(ctx, c, db, owner, map[string]any{"conditions": []any{condition}})
}

// apply reports one part of the status, and owns nothing else of it.
func apply(ctx context.Context, c client.Client, db *Database, owner string, status map[string]any) error {
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": groupVersion.String(),
		"kind":       "Database",
		"metadata":   map[string]any{"namespace": db.Namespace, "name": db.Name},
		"status":     status,
	}}), client.FieldOwner(owner), client.ForceOwnership)
}

// work stands for what is done outside the cluster.
func work(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
	specOnly := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	workers := controller.Options{MaxConcurrentReconciles: 4}
	if err := ctrl.NewControllerManagedBy(mgr).Named("provisioning").For(&Database{}, specOnly).WithOptions(workers).
		Complete(&Provisioner{Client: mgr.GetClient(), Fixed: fixed}); err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(mgr).Named("backups").For(&Database{}, specOnly).WithOptions(workers).
		Complete(&BackupScheduler{Client: mgr.GetClient(), Fixed: fixed}); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

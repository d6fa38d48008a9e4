// Command staleclaim is an operator for workspaces: a Workspace gets a disk at a provider (here a ConfigMap stands
// for each), once, and a finalizer makes sure that the disk goes when the Workspace does.
//
// Its fault: it takes the Workspace that its cache shows for the one that there is, and the disk that has the
// Workspace's name for that Workspace's disk. Started again at an API server that lags behind, it sees the
// Workspace of that name that was deleted yesterday, still in deletion, and deletes the disk of today's. With
// --fixed it reads the Workspace from the API server before it makes or deletes a disk, and deletes only
// the disk that carries the Workspace's own uid.
//
// So it went in pravega/zookeeper-operator#312 and k8ssandra/cass-operator#118: the volumes of a living database
// were deleted for one of the same name that was long gone.
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	finalizer = "dev.example.com/disk"
	ownerUID  = "dev.example.com/owner-uid"
)

// WorkspaceReconciler gives workspaces their disks.
type WorkspaceReconciler struct {
	client.Client
	Live  client.Reader // reads from the API server
	Fixed bool
}

// Reconcile gives one workspace its disk, or takes it away.
func (r *WorkspaceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var reader client.Reader = r.Client
	if r.Fixed {
		reader = r.Live
	}
	ws := &Workspace{}
	if err := reader.Get(ctx, req.NamespacedName, ws); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !ws.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.release(ctx, ws)
	}
	if ws.Status.Phase == "Ready" {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.provide(ctx, ws)
}

// provide has a disk made for the workspace.
func (r *WorkspaceReconciler) provide(ctx context.Context, ws *Workspace) error {
	before := ws.DeepCopyObject().(*Workspace)
	if controllerutil.AddFinalizer(ws, finalizer) {
		if err := r.Patch(ctx, ws, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("add finalizer: %w", err)
		}
	}
	disk := diskOf(ws)
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(disk), disk)
	if apierrors.IsNotFound(err) {
		disk.Annotations = map[string]string{ownerUID: string(ws.UID)}
		disk.Data = map[string]string{"sizeGiB": strconv.FormatInt(ws.Spec.SizeGiB, 10)}
		err = r.Create(ctx, disk)
	}
	if err != nil {
		return fmt.Errorf("create disk: %w", err)
	}
	before = ws.DeepCopyObject().(*Workspace)
	ws.Status.Phase = "Ready"
	if err := r.Status().Patch(ctx, ws, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
}

// release deletes the workspace's disk and lets the workspace go.
func (r *WorkspaceReconciler) release(ctx context.Context, ws *Workspace) error {
	if !controllerutil.ContainsFinalizer(ws, finalizer) {
		return nil
	}
	if err := r.deleteDisk(ctx, ws); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete disk: %w", err)
	}
	before := ws.DeepCopyObject().(*Workspace)
	controllerutil.RemoveFinalizer(ws, finalizer)
	if err := r.Patch(ctx, ws, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", err)
	}
	return nil
}

func (r *WorkspaceReconciler) deleteDisk(ctx context.Context, ws *Workspace) error {
	disk := diskOf(ws)
	if !r.Fixed {
		return r.Delete(ctx, disk)
	}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(disk), disk); err != nil {
		return err
	}
	if disk.Annotations[ownerUID] != string(ws.UID) {
		return nil // another one's
	}
	return r.Delete(ctx, disk, client.Preconditions{UID: &disk.UID})
}

// diskOf is the ConfigMap that stands for the workspace's disk at the provider.
func diskOf(ws *Workspace) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ws.Namespace, Name: "disk-" + ws.Name}}
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
	if err := ctrl.NewControllerManagedBy(mgr).
		For(&Workspace{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&WorkspaceReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fixed: fixed}); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

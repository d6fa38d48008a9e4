// Command latehook is an operator that keeps notes: a Note becomes a ConfigMap, and a webhook of the operator itself signs
// each ConfigMap of that kind when it is created.
//
// Its fault: the webhook is registered with the failure policy Ignore, and the operator keeps notes at once when it starts,
// while the webhook still waits for its key: what is kept meanwhile is never signed, and nobody is told. With --fixed the
// policy is Fail, and nothing is kept before the webhook can sign.
//
// Like it are kyverno/kyverno#2104 and kubevirt/hyperconverged-cluster-operator#4396, where an operator depends on its own webhook.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	keptLabel = "note.example.com/kept"
	hookName  = "latehook"
	warmUp    = 4 * time.Second // until the webhook has its key
)

// NoteReconciler keeps notes.
type NoteReconciler struct {
	client.Client
	Fixed bool
	Hook  *hook
}

// Reconcile keeps one note.
func (r *NoteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	note := &Note{}
	if err := r.Get(ctx, req.NamespacedName, note); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if note.Status.Kept {
		return ctrl.Result{}, nil
	}
	if r.Fixed {
		select {
		case <-r.Hook.ready:
		case <-ctx.Done():
			return ctrl.Result{}, ctx.Err()
		}
	}
	kept := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: note.Namespace, Name: note.Name, Labels: map[string]string{keptLabel: "true"}},
		Data:       map[string]string{"text": note.Spec.Text},
	}
	if err := r.Create(ctx, kept); client.IgnoreAlreadyExists(err) != nil {
		return ctrl.Result{}, fmt.Errorf("keep: %w", err)
	}
	before := note.DeepCopyObject().(*Note)
	note.Status.Kept = true
	if err := r.Status().Patch(ctx, note, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

func setup(mgr ctrl.Manager, fixed bool) error {
	h := &hook{client: mgr.GetClient(), policy: registrationv1.Ignore, ready: make(chan struct{})}
	if fixed {
		h.policy = registrationv1.Fail
	}
	if err := mgr.Add(h); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).For(&Note{}).
		Complete(&NoteReconciler{Client: mgr.GetClient(), Fixed: fixed, Hook: h})
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

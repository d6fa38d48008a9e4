// Command busy is an operator with all that operators have: informers, ten workers, backoff, two periods
// of requeueing, a leader's lease, Events, metrics, probes, and if asked for, admission webhooks. It gives
// each Deployment a Service and a status.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

type reconciler struct {
	client.Client
	events events.EventRecorder

	mu    sync.Mutex
	tries map[string]int
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	d := &appsv1.Deployment{}
	if err := r.Get(ctx, req.NamespacedName, d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	svc := &corev1.Service{}
	svc.Name, svc.Namespace = d.Name, d.Namespace
	op, err := controllerutil.CreateOrUpdate(ctx, r.Client, svc, func() error {
		svc.Spec.Selector = d.Spec.Selector.MatchLabels
		if svc.Spec.Ports == nil { // else what the API server has filled in would be taken for a change
			svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
		}
		if svc.Annotations == nil {
			svc.Annotations = map[string]string{"token": string(uuid.NewUUID())}
		}
		return controllerutil.SetControllerReference(d, svc, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if op != controllerutil.OperationResultNone {
		r.events.Eventf(d, svc, corev1.EventTypeNormal, "Published", "Publish", "Service %s %s", svc.Name, op)
	}
	if err := r.flaky(req.String()); err != nil {
		return ctrl.Result{}, err
	}
	d.Status.ObservedGeneration = d.Generation
	d.Status.Replicas++
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Message: time.Now().UTC().Format(time.RFC3339)}}
	if err := r.Status().Update(ctx, d); err != nil {
		return ctrl.Result{}, err
	}
	if d.Labels["pace"] == "slow" {
		return ctrl.Result{RequeueAfter: 5 * time.Minute}, nil
	}
	return ctrl.Result{RequeueAfter: 30 * time.Second}, nil
}

// flaky fails three of every ten passes of an object.
func (r *reconciler) flaky(key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries[key]++
	if r.tries[key]%10 < 3 {
		return errors.New("not this time")
	}
	return nil
}

func main() {
	elect := flag.Bool("leader-elect", false, "elect a leader")
	hooks := flag.Bool("webhooks", false, "serve admission webhooks and install their configurations")
	metrics := flag.String("metrics-bind-address", ":8080", "where to serve metrics; 0: nowhere")
	probes := flag.String("health-probe-bind-address", ":8081", "where to serve probes; 0: nowhere")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err := run(*elect, *hooks, *metrics, *probes); err != nil {
		fmt.Fprintln(os.Stderr, "busy ended:", err)
		os.Exit(1)
	}
}

func run(elect, hooks bool, metrics, probes string) error {
	o := ctrl.Options{
		LeaderElection: elect, LeaderElectionID: "busy", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
		Metrics: metricsserver.Options{BindAddress: metrics}, HealthProbeBindAddress: probes,
	}
	ctx := ctrl.SetupSignalHandler()
	if hooks {
		var err error
		if o.WebhookServer, err = serveWebhooks(); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), o)
	if err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if hooks {
		if err := addWebhooks(ctx, mgr); err != nil {
			return err
		}
	}
	r := &reconciler{Client: mgr.GetClient(), events: mgr.GetEventRecorder("busy"), tries: map[string]int{}}
	if err := ctrl.NewControllerManagedBy(mgr).For(&appsv1.Deployment{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).Complete(r); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

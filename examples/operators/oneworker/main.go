// Command oneworker is an operator for journeys: it books each Ticket with an agency, which takes most of a second.
//
// Its fault: it books one at a time, as a controller does that nobody has told otherwise, so that the tenth Ticket of a busy
// morning waits for the nine before it. With --fixed it books eight at a time.
//
// So it went in aiven/aiven-operator#1261 and FoundationDB/fdb-kubernetes-operator#634.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	answerTime = 700 * time.Millisecond // of the agency
	enough     = 8                      // workers
)

// TicketReconciler books journeys.
type TicketReconciler struct {
	client.Client
}

// Reconcile books one journey.
func (r *TicketReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ticket := &Ticket{}
	if err := r.Get(ctx, req.NamespacedName, ticket); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if ticket.Status.Booked == ticket.Spec.To {
		return ctrl.Result{}, nil
	}
	if err := book(ctx); err != nil {
		return ctrl.Result{}, fmt.Errorf("book a journey to %s: %w", ticket.Spec.To, err)
	}
	before := ticket.DeepCopyObject().(*Ticket)
	ticket.Status.Booked = ticket.Spec.To
	if err := r.Status().Patch(ctx, ticket, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

// book is the call of the agency.
func book(ctx context.Context) error {
	select {
	case <-time.After(answerTime):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func setup(mgr ctrl.Manager, fixed bool) error {
	var options controller.Options
	if fixed {
		options.MaxConcurrentReconciles = enough
	}
	return ctrl.NewControllerManagedBy(mgr).For(&Ticket{}).WithOptions(options).
		Complete(&TicketReconciler{Client: mgr.GetClient()})
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

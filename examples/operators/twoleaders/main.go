// Command twoleaders is an operator that writes invoices: an Order gets one, a ConfigMap, and its status says
// which. Of several replicas the one that holds the lease does it.
//
// Its fault: a replica that loses its lease goes on. The work is started with the context of the process in place
// of that of the lease, so that it does not end when another replica takes over, and from then on both write an
// invoice for each order. With --fixed the work ends with the lease. A replica that stands still for a while knows
// of it too late, therefore an invoice has the order's name then, and the API server refuses the second.
//
// So it went in kubernetes/kubernetes#23731: a leader whose renewals failed was never told to stop.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const orderLabel = "shop.example.com/order"

// printTime is how long it takes to print an invoice.
const printTime = 100 * time.Millisecond

// The lease, how long it lasts without a renewal, when a leader gives up renewing it, and how often it tries.
const (
	leaseNamespace = "shop"
	leaseName      = "invoices"
	leaseDuration  = 3 * time.Second
	renewDeadline  = 2 * time.Second
	retryPeriod    = 500 * time.Millisecond
)

// OrderReconciler writes invoices.
type OrderReconciler struct {
	client.Client
	Live  client.Reader // reads from the API server
	Fixed bool
}

// Reconcile writes the invoice of one order.
func (r *OrderReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	order := &Order{}
	if err := r.Live.Get(ctx, req.NamespacedName, order); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if order.Status.Invoice != "" {
		return ctrl.Result{}, nil
	}
	invoice, err := r.invoice(ctx, order)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := order.DeepCopyObject().(*Order)
	order.Status.Invoice = invoice
	if err := r.Status().Patch(ctx, order, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("report status: %w", err)
	}
	return ctrl.Result{}, nil
}

// invoice writes the invoice if there is none yet, and returns its name.
func (r *OrderReconciler) invoice(ctx context.Context, order *Order) (string, error) {
	invoices := &corev1.ConfigMapList{}
	if err := r.Live.List(ctx, invoices, client.InNamespace(order.Namespace), client.MatchingLabels{orderLabel: order.Name}); err != nil {
		return "", err
	}
	if len(invoices.Items) > 0 {
		return invoices.Items[0].Name, nil
	}
	select {
	case <-time.After(printTime):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	invoice := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: order.Namespace, GenerateName: "invoice-" + order.Name + "-", Labels: map[string]string{orderLabel: order.Name},
		},
		Data: map[string]string{"item": order.Spec.Item},
	}
	if r.Fixed {
		invoice.GenerateName, invoice.Name = "", "invoice-"+order.Name
	}
	if err := r.Create(ctx, invoice); err != nil {
		return "", fmt.Errorf("write invoice: %w", err)
	}
	return invoice.Name, nil
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

// run works while it leads, and tries to lead until the process is to end.
func run(fixed bool, metrics string) error {
	ctx, stop := context.WithCancel(ctrl.SetupSignalHandler())
	defer stop()
	api, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, leaseNamespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: string(uuid.NewUUID())}, api, renewDeadline)
	if err != nil {
		return err
	}
	var failed error
	var working sync.Mutex // one at a time
	start := func(leading context.Context) {
		working.Lock()
		defer working.Unlock()
		if !fixed {
			leading = ctx
		}
		if failed = work(leading, api, fixed, metrics); failed != nil {
			stop()
		}
	}
	for ctx.Err() == nil {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: start,
				OnStoppedLeading: func() { ctrl.Log.Info("The lease is not ours any more") },
			},
		})
	}
	working.Lock()
	return failed
}

// work runs the controller until the context ends.
func work(ctx context.Context, api *rest.Config, fixed bool, metrics string) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addToScheme(scheme)
	again := true // the same name in the same process, when it leads again
	mgr, err := ctrl.NewManager(api, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: metrics},
		Controller: config.Controller{SkipNameValidation: &again},
	})
	if err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(mgr).
		For(&Order{}).
		Complete(&OrderReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fixed: fixed}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

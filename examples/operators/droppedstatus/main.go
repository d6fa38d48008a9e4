// Command droppedstatus is an operator for accounts: an Account is opened at the billing provider (a ConfigMap
// stands for what the provider has of it), and its status says under which number.
//
// Its fault: when the write of the status fails it says so in its log and goes on, for the account is open after
// all. Nothing wakes it again, so that one refused write, by a conflict or by an API server that is restarting,
// leaves an account whose number nobody knows. With --fixed the error is returned, and the next attempt asks
// the provider for the number.
//
// So it went in fluxcd/helm-controller#120: a count of failures was lost with a refused status write, and the next
// pass did what it would have done without the failure.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/crc32"
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
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// AccountReconciler opens accounts.
type AccountReconciler struct {
	client.Client
	Live  client.Reader // reads from the API server
	Fixed bool
}

// Reconcile opens one account and reports its number.
func (r *AccountReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	account := &Account{}
	if err := r.Get(ctx, req.NamespacedName, account); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if account.Status.Number != "" {
		return ctrl.Result{}, nil
	}
	number, err := r.open(ctx, account)
	if err != nil {
		return ctrl.Result{}, err
	}
	account.Status.Number = number
	if err := r.Status().Update(ctx, account); err != nil {
		if r.Fixed {
			return ctrl.Result{}, fmt.Errorf("report status: %w", err)
		}
		ctrl.LoggerFrom(ctx).Error(err, "Cannot report the account's number", "number", number)
	}
	return ctrl.Result{}, nil
}

// open opens the account at the provider, or finds it open, and returns its number there.
func (r *AccountReconciler) open(ctx context.Context, account *Account) (string, error) {
	entry := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: "provider-" + account.Name},
		Data: map[string]string{
			"customer": account.Spec.Customer,
			"number":   fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(account.Spec.Customer))), // what the provider would choose
		},
	}
	err := r.Create(ctx, entry)
	if apierrors.IsAlreadyExists(err) {
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(entry), entry)
	}
	if err != nil {
		return "", fmt.Errorf("open account: %w", err)
	}
	return entry.Data["number"], nil
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
		For(&Account{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&AccountReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fixed: fixed}); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

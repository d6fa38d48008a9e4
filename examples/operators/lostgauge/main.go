// Command lostgauge is an operator that reads gauges: a Gauge has an address, and answers there, to whom connects, with a line.
//
// Its fault: it takes the address of a Gauge from where it has first seen it, and goes on dialing that one for ever, three
// times a second, when the Gauge has moved. With --fixed each reading asks for the address anew.
package main

import (
	"bufio"
	"context"
	"flag"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	period = 300 * time.Millisecond // of readings
	limit  = 2 * time.Second        // of one of them
)

// GaugeReconciler starts a reader for each gauge.
type GaugeReconciler struct {
	client.Client
	Fixed bool
	Stop  context.Context // ends with the operator

	mu      sync.Mutex
	readers map[types.NamespacedName]bool
}

// Reconcile has one gauge read.
func (r *GaugeReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	gauge := &Gauge{}
	if err := r.Get(ctx, req.NamespacedName, gauge); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.readers[req.NamespacedName] {
		r.readers[req.NamespacedName] = true
		go r.follow(req.NamespacedName, gauge.Spec.Address)
	}
	return ctrl.Result{}, nil
}

// follow reads a gauge for as long as it is there.
func (r *GaugeReconciler) follow(key types.NamespacedName, address string) {
	for first := true; ; first = false {
		gauge := r.stillThere(key)
		if gauge == nil {
			return
		}
		if r.Fixed {
			address = gauge.Spec.Address
		}
		err := read(address)
		if err != nil {
			ctrl.Log.Error(err, "Can't read the gauge", "gauge", key)
		} else if first {
			before := gauge.DeepCopyObject().(*Gauge)
			gauge.Status.Readings++
			if err := r.Status().Patch(r.Stop, gauge, client.MergeFrom(before)); err != nil {
				ctrl.Log.Error(err, "Report status", "gauge", key)
			}
		}
		select {
		case <-time.After(period):
		case <-r.Stop.Done():
			return
		}
	}
}

// stillThere is a gauge, nil if it is there no more. Its reader ends then, and a gauge that is made anew by that name gets
// another one: it is seen here, or it is reconciled after this.
func (r *GaugeReconciler) stillThere(key types.NamespacedName) *Gauge {
	r.mu.Lock()
	defer r.mu.Unlock()
	gauge := &Gauge{}
	if err := r.Get(r.Stop, key, gauge); err != nil {
		delete(r.readers, key)
		return nil
	}
	return gauge
}

// read takes one reading.
func read(address string) error {
	connection, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	_, err = bufio.NewReader(connection).ReadString('\n')
	return err
}

func setup(mgr ctrl.Manager, fixed bool) error {
	stop, end := context.WithCancel(context.Background())
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		end()
		return nil
	})); err != nil {
		end()
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).For(&Gauge{}).
		Complete(&GaugeReconciler{Client: mgr.GetClient(), Fixed: fixed, Stop: stop, readers: map[types.NamespacedName]bool{}})
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

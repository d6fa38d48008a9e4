// Command halfcreate is an operator for message brokers: a Broker becomes a ConfigMap with its settings and
// a headless Service under which it is found, and its status says where.
//
// Its fault: it takes the settings as the sign that it has been here before. Both objects are created on the
// path on which there are no settings yet, one after the other. If it ends between the two, or the second
// create fails, there are settings and no Service, and no later pass makes one, though the status says
// where the broker is to be found. With --fixed each of the two is made when that one is missing.
//
// So it went in Orange-OpenSource/casskop#370: a crash in the middle of a pass left a volume that no later pass
// took away, because the passes after it began from a state that it took for another one.
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

// BrokerReconciler sets brokers up.
type BrokerReconciler struct {
	client.Client
	Fixed bool
}

// Reconcile sets one broker up and reports where it is.
func (r *BrokerReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	broker := &Broker{}
	if err := r.Get(ctx, req.NamespacedName, broker); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.setUp(ctx, broker); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, broker)
}

// setUp makes what the broker lacks.
func (r *BrokerReconciler) setUp(ctx context.Context, broker *Broker) error {
	fresh, err := r.ensure(ctx, broker, settings(broker))
	if err != nil {
		return err
	}
	if fresh || r.Fixed {
		_, err = r.ensure(ctx, broker, service(broker))
	}
	return err
}

// ensure creates the object if it is not there, and says whether it did.
func (r *BrokerReconciler) ensure(ctx context.Context, broker *Broker, object client.Object) (bool, error) {
	err := r.Get(ctx, client.ObjectKeyFromObject(object), object)
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	if err := controllerutil.SetControllerReference(broker, object, r.Scheme()); err != nil {
		return false, err
	}
	if err := r.Create(ctx, object); err != nil {
		return false, fmt.Errorf("create %s: %w", object.GetName(), err)
	}
	return true, nil
}

// settings is the broker's ConfigMap.
func settings(broker *Broker) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: broker.Namespace, Name: broker.Name + "-settings"},
		Data:       map[string]string{"port": strconv.FormatInt(broker.Spec.Port, 10)},
	}
}

// service is under what the broker is found.
func service(broker *Broker) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: broker.Namespace, Name: broker.Name},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Selector:  map[string]string{"mq.example.com/broker": broker.Name},
			Ports:     []corev1.ServicePort{{Name: "mq", Port: int32(broker.Spec.Port)}},
		},
	}
}

// report says where the broker is.
func (r *BrokerReconciler) report(ctx context.Context, broker *Broker) error {
	before := broker.DeepCopyObject().(*Broker)
	broker.Status = BrokerStatus{
		ObservedGeneration: broker.Generation,
		Endpoint:           fmt.Sprintf("%s.%s.svc:%d", broker.Name, broker.Namespace, broker.Spec.Port),
	}
	if broker.Status == before.Status {
		return nil
	}
	if err := r.Status().Patch(ctx, broker, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	return nil
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
		For(&Broker{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&BrokerReconciler{Client: mgr.GetClient(), Fixed: fixed}); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

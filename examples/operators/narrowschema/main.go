// Command narrowschema is an operator for hotels: Rooms are of a type, the types are RoomTypes, and the operator keeps the
// definition of Rooms such that a Room can be of no other.
//
// Its fault: when a RoomType goes, it takes the type out of the definition, though there are Rooms of that type, which the
// API server then finds invalid: who wants to change their type or anything else about it that is checked anew is refused.
// With --fixed a type stays for as long as a Room has it.
//
// Like it is kubernetes-sigs/karpenter#1767, where stored objects broke a rule of a newer definition.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// definition is the name of the definition of rooms.
const definition = "rooms.hotel.example.com"

// TypeReconciler keeps the definition of rooms. Whatever wakes it, the definition is made from all there is.
type TypeReconciler struct {
	client.Client
	Live  client.Reader // reads from the API server
	Fixed bool
}

// Reconcile brings the definition up to date.
func (r *TypeReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	roomTypes := &RoomTypeList{}
	if err := r.List(ctx, roomTypes); err != nil {
		return ctrl.Result{}, err
	}
	var names []string
	for i := range roomTypes.Items {
		names = append(names, roomTypes.Items[i].Name)
	}
	if r.Fixed {
		rooms := &RoomList{}
		if err := r.List(ctx, rooms); err != nil {
			return ctrl.Result{}, err
		}
		for i := range rooms.Items {
			names = append(names, rooms.Items[i].Spec.Type)
		}
	}
	if len(names) == 0 {
		return ctrl.Result{}, nil // an empty enum would be none
	}
	slices.Sort(names)
	return ctrl.Result{}, r.admit(ctx, slices.Compact(names))
}

// admit has rooms be of these types alone.
func (r *TypeReconciler) admit(ctx context.Context, names []string) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := r.Live.Get(ctx, types.NamespacedName{Name: definition}, crd); err != nil {
		return err
	}
	var enum []apiextensionsv1.JSON
	for _, name := range names {
		enum = append(enum, apiextensionsv1.JSON{Raw: []byte(strconv.Quote(name))})
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	property := spec.Properties["type"]
	if reflect.DeepEqual(property.Enum, enum) {
		return nil
	}
	property.Enum = enum
	spec.Properties["type"] = property
	if err := r.Update(ctx, crd); err != nil {
		return fmt.Errorf("change the definition: %w", err)
	}
	return nil
}

func setup(mgr ctrl.Manager, fixed bool) error {
	if err := apiextensionsv1.AddToScheme(mgr.GetScheme()); err != nil {
		return err
	}
	build := ctrl.NewControllerManagedBy(mgr).For(&RoomType{})
	if fixed {
		build = build.Watches(&Room{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	return build.Complete(&TypeReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fixed: fixed})
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

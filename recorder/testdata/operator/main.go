// Command operator does to order: what a ConfigMap's "do" says. Tests look for its calls by their comments.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

type reconciler struct {
	client.Client
	typed kubernetes.Interface
	tried map[string]bool
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	order := &corev1.ConfigMap{}
	if err := r.Get(ctx, request.NamespacedName, order); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	first := !r.tried[order.Name]
	r.tried[order.Name] = true
	switch order.Data["do"] {
	case "burn":
		if first {
			fmt.Println("burnt", burn(6_000_000_000))
		}
	case "later":
		if first {
			return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
		}
	case "fail":
		if first {
			return ctrl.Result{}, fmt.Errorf("no luck")
		}
	case "connect", "start", "fill", "read":
		if first {
			fmt.Println("befallen:", befall(order.Data["do"], order.Data["at"]))
		}
	case "write":
		return ctrl.Result{}, r.write(ctx, order.Namespace, os.Getenv("OPERATOR_WORD"))
	}
	return ctrl.Result{}, nil
}

// befall has something befall the process in the kernel.
//
//go:noinline
func befall(what, at string) error {
	switch what {
	case "connect":
		c, err := net.Dial("tcp", at) // befall: connect
		if err != nil {
			return err
		}
		return c.Close()
	case "start":
		for range 5 {
			if err := exec.Command(at).Run(); err != nil { // befall: start
				return err
			}
		}
		return nil
	case "fill":
		return os.WriteFile(at, make([]byte, 10<<20), 0o600) // befall: fill
	}
	file, stop, _ := strings.Cut(at, " ")
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	for n := 0; ; n++ {
		if _, err := f.ReadAt(make([]byte, 1), 0); err != nil { // befall: read
			return err
		}
		if n%1000 == 0 {
			if _, err := os.Stat(stop); err == nil {
				return nil
			}
		}
	}
}

// burn uses up a processor.
//
//go:noinline
func burn(rounds int) (sum uint64) {
	for i := range rounds {
		sum = sum*31 + uint64(i)
	}
	return sum
}

// write makes each kind of write, in the forms in which they go over the wire.
func (r *reconciler) write(ctx context.Context, ns, word string) error {
	secrets := r.typed.CoreV1().Secrets(ns)
	secret, err := secrets.Create(ctx, &corev1.Secret{ // call: create
		ObjectMeta: metav1.ObjectMeta{Name: "made"}, Data: map[string][]byte{"word": []byte(word)},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	secret.StringData = map[string]string{"again": word}
	if _, err := secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil { // call: update
		return err
	}
	merge := []byte(`{"stringData":{"merged":"` + word + `"}}`)
	if _, err := secrets.Patch(ctx, "made", types.MergePatchType, merge, metav1.PatchOptions{FieldManager: "m"}); err != nil { // call: patch m
		return err
	}
	list := []byte(`[{"op":"add","path":"/stringData","value":{"listed":"` + word + `"}}]`)
	if _, err := secrets.Patch(ctx, "made", types.JSONPatchType, list, metav1.PatchOptions{FieldManager: "j"}); err != nil { // call: patch j
		return err
	}
	if _, err := secrets.Apply(ctx, corev1ac.Secret("applied", ns).WithStringData(map[string]string{"k": word}), metav1.ApplyOptions{FieldManager: "a"}); err != nil { // call: patch a
		return err
	}
	result := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "result"}, Data: map[string]string{"is": "well"}}
	if err := r.Create(ctx, result); err != nil { // call: create result
		return err
	}
	_ = r.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "Not A Name"}}) // call: create Not A Name
	return r.Delete(ctx, result)                                                                           // call: delete
}

func main() {
	if err := run(os.Getenv("OPERATOR_NAMESPACE")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(namespace string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		return err
	}
	binary := rest.CopyConfig(config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	typed, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return err
	}
	r := &reconciler{Client: mgr.GetClient(), typed: typed, tried: map[string]bool{}}
	if err := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(r); err != nil {
		return err
	}
	fmt.Println("pid", os.Getpid())
	return mgr.Start(ctrl.SetupSignalHandler())
}

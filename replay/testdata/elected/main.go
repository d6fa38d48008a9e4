// Command elected is an operator for tests: of several replicas one leads, by a Lease, and the leader keeps a ConfigMap
// that says who does and for how long. It listens on a fixed port as operators do.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	namespace = "default"
	port      = "127.0.0.1:8080"
	period    = 2 * time.Second
)

var crd = flag.Bool("crd", false, "the leader defines a resource of its own")

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ERROR", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	l, err := net.Listen("tcp", port)
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // at the end
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "elected", client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host})
	if err != nil {
		return err
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: period, Name: "elected",
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { lead(ctx, client, config, host) },
			OnStoppedLeading: func() { fmt.Println("INFO", host, "leads no more") },
		},
	})
	return nil
}

func lead(ctx context.Context, client *kubernetes.Clientset, config *rest.Config, host string) {
	fmt.Println("INFO", host, "leads")
	if *crd {
		if err := define(ctx, config); err != nil {
			fmt.Fprintln(os.Stderr, "ERROR", err)
		}
	}
	for n := 1; ctx.Err() == nil; n++ {
		if err := keep(ctx, client, host, n); err != nil {
			fmt.Fprintln(os.Stderr, "ERROR", err)
		}
		select {
		case <-time.After(period):
		case <-ctx.Done():
		}
	}
}

func keep(ctx context.Context, client *kubernetes.Clientset, host string, n int) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "leader"},
		Data:       map[string]string{"host": host, "n": fmt.Sprint(n)},
	}
	_, err := maps.Create(ctx, m, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
	}
	return err
}

// define writes a CustomResourceDefinition.
func define(ctx context.Context, config *rest.Config) error {
	c := rest.CopyConfig(config)
	client, err := rest.UnversionedRESTClientFor(unversioned(c))
	if err != nil {
		return err
	}
	err = client.Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").SetHeader("Content-Type", "application/json").
		Body([]byte(definition)).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gauges.elected.example.com"},
"spec":{"group":"elected.example.com","scope":"Namespaced","names":{"plural":"gauges","singular":"gauge","kind":"Gauge"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`

func unversioned(c *rest.Config) *rest.Config {
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return c
}

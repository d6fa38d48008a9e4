// Command incluster is a client that knows no other way to the API server than a pod's.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ns, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(string(ns))
	w, err := maps.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range 3 {
		name := fmt.Sprintf("m-%d", i)
		big := strings.Repeat("x", 40_000*i) // more than one TLS record
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": big}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		ev := <-w.ResultChan()
		m, ok := ev.Object.(*corev1.ConfigMap)
		if !ok {
			return fmt.Errorf("got %v", ev)
		}
		fmt.Println(ev.Type, m.Name, len(m.Data["k"]), m.UID, m.CreationTimestamp.UTC().Format(time.RFC3339))
		time.Sleep(10 * time.Minute)
	}
	fmt.Println(config.Host, os.Getenv("KUBECONFIG") == "", string(ns))
	return nil
}

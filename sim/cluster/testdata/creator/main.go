// Command creator creates deployments by the given names, one after the other, and says what came of each.
package main

import (
	"context"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	config, err := rest.InClusterConfig()
	if err != nil {
		panic(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	for _, name := range os.Args[1:] {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
		labels := map[string]string{"app": name}
		d.Spec.Selector, d.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "example.com/c:1"}}
		got, err := client.AppsV1().Deployments("default").Create(context.Background(), d, metav1.CreateOptions{})
		mutated := ""
		if err == nil {
			mutated = got.Labels["mutated"]
		}
		fmt.Printf("%s: %s %v\n", name, mutated, err)
	}
}

package recorder_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// guest is what the test binary does as an operator.
func guest(word string) {
	c := make(chan os.Signal, 1)
	switch word {
	case "wait":
		signal.Notify(c, syscall.SIGTERM)
	case "refuse":
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Println("standing by")
	switch word {
	case "fail":
		fmt.Fprintln(os.Stderr, `{"level":"error","msg":"no luck","n":1}`)
		os.Exit(7)
	case "list":
		config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
		if err == nil {
			_, err = kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").List(context.Background(), metav1.ListOptions{})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "wait", "refuse":
		<-c
	}
	os.Exit(0)
}

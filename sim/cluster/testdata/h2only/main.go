// Command h2only is a client that speaks nothing but HTTP/2: with TLS as a pod, or in cleartext to the
// address that it is given. It lists, watches and writes, many calls at a time on one connection.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// dialled counts connections.
var dialled int

func dial(ctx context.Context, addr string) (net.Conn, error) {
	dialled++
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

func config(args []string) (*rest.Config, error) {
	if len(args) == 1 {
		return &rest.Config{Host: "http://" + args[0], Transport: &http2.Transport{
			AllowHTTP: true,
			DialTLSContext: func(ctx context.Context, _, addr string, _ *tls.Config) (net.Conn, error) {
				return dial(ctx, addr)
			},
		}}, nil
	}
	c, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c.TLSClientConfig = rest.TLSClientConfig{}
	c.Transport = &http2.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		ReadIdleTimeout: 30 * time.Second,
		DialTLSContext: func(ctx context.Context, _, addr string, t *tls.Config) (net.Conn, error) {
			raw, err := dial(ctx, addr)
			if err != nil {
				return nil, err
			}
			conn := tls.Client(raw, t)
			return conn, conn.HandshakeContext(ctx)
		},
	}
	return c, nil
}

func run(ctx context.Context, args []string) error {
	c, err := config(args)
	if err != nil {
		return err
	}
	c.QPS = -1
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps("default")

	// An informer, and a watch that is given up before its time.
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := maps.Watch(watched, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var seen []string
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		m := obj.(*corev1.ConfigMap)
		mu.Lock()
		seen = append(seen, fmt.Sprint(m.Name, " ", len(m.Data["k"])))
		mu.Unlock()
	}})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", i)}, Data: map[string]string{
				"k": strings.Repeat("x", 50_000*i), // beyond the server's window
			}}
			_, errs[i] = maps.Create(ctx, m, metav1.CreateOptions{})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	first := <-w.ResultChan()
	cancel()
	for ev := range w.ResultChan() { // what was on its way
		_ = ev
	}
	fmt.Println("first", first.Type, first.Object.(*corev1.ConfigMap).Name)

	time.Sleep(10 * time.Minute)
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	short, stop := context.WithTimeout(ctx, 100*time.Microsecond)
	defer stop()
	_, err = maps.List(short, metav1.ListOptions{})
	mu.Lock()
	defer mu.Unlock()
	fmt.Println(len(list.Items), "items,", len(seen), "seen,", dialled, "connection, timed out:", errors.Is(err, context.DeadlineExceeded))
	fmt.Println(strings.Join(seen, ", "), time.Now().UTC().Format(time.RFC3339))
	return nil
}

// Command load is a controller of controller-runtime's under load, without a cluster: of each line PASSES CALLS
// ROUNDS URL it makes so many passes, one after the other, each of so many rounds of work and so many GETs of the URL,
// and prints how many nanoseconds all of them took, and how many of processor time.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// load is the reconciler. One worker runs it; DONE hands it back and forth.
type load struct {
	queue                 workqueue.TypedRateLimitingInterface[reconcile.Request]
	passes, calls, rounds int
	url                   string
	sum                   uint64
	done                  chan error
}

func request(n int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "load", Name: fmt.Sprint("pass-", n)}}
}

func (l *load) Reconcile(context.Context, reconcile.Request) (reconcile.Result, error) {
	for i := range l.rounds {
		l.sum = l.sum*31 + uint64(i)
	}
	for range l.calls {
		if err := get(l.url); err != nil {
			l.done <- err
			return reconcile.Result{}, nil
		}
	}
	if l.passes--; l.passes > 0 {
		l.queue.Add(request(l.passes))
	} else {
		l.done <- nil
	}
	return reconcile.Result{}, nil
}

func get(url string) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func main() {
	log.SetLogger(logr.Discard())
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	l := &load{done: make(chan error)}
	c, err := controller.NewUnmanaged("load", controller.Options{Reconciler: l})
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	if err := c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		l.queue = q
		close(ready)
		return nil
	})); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	<-ready
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if _, err := fmt.Sscan(in.Text(), &l.passes, &l.calls, &l.rounds, &l.url); err != nil {
			return err
		}
		began, cpu := time.Now(), processorTime()
		l.queue.Add(request(l.passes))
		if err := <-l.done; err != nil {
			return err
		}
		fmt.Println(time.Since(began).Nanoseconds(), processorTime()-cpu)
	}
	stop()
	return <-ended
}

// processorTime is what the process has used, in nanoseconds.
func processorTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// Command guest does what an operator does, by the same libraries, without a cluster: keys into queues of
// each kind and out again, requests with bodies of each kind. It begins when a line comes in, says which
// goroutine it works on, and ends when its input does.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	buf := make([]byte, 100)
	fmt.Println(strings.Fields(string(buf[:runtime.Stack(buf, false)]))[1])

	work(workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()), "space/of-strings")
	work(workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()), request("of-structs"))
	work(workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[any]()), any("space/of-any"))

	q := priorityqueue.New[reconcile.Request]("guest")
	q.AddWithOpts(priorityqueue.AddOpts{}, request("first"))
	q.AddWithOpts(priorityqueue.AddOpts{After: time.Hour}, request("later"))
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request("failed"))
	item, _ := q.Get()
	q.Forget(item)
	q.Done(item)

	calls()
	fmt.Println("done")
	in.Scan()
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "space", Name: name}}
}

func work[T comparable](q workqueue.TypedRateLimitingInterface[T], key T) {
	q.Add(key)
	got, _ := q.Get()
	q.AddRateLimited(got)
	q.Forget(got)
	q.AddAfter(got, time.Hour)
	q.Done(got)
}

// calls makes requests, the last of which deepens the stack first so that it must grow.
func calls() {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusTeapot)
	}))
	do := func(method, path string, body io.Reader) {
		r, err := http.NewRequest(method, s.URL+path, body)
		if err != nil {
			panic(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			panic(err)
		}
		_ = res.Body.Close()
	}
	do("GET", "/apis/x?watch=true&resourceVersion=7", nil)
	do("POST", "/bytes", bytes.NewReader([]byte(`{"a":1}`)))
	do("PUT", "/strings", strings.NewReader(`{"b":2}`))
	do("PATCH", "/big", bytes.NewReader(bytes.Repeat([]byte("0123456789"), 100_000)))
	do("POST", "/pipe", io.MultiReader(strings.NewReader("unseen")))
	s.Close()
	if _, err := http.Get(s.URL + "/gone"); err == nil {
		panic("a server that is closed answers")
	}
	deep(200, func() { do2("GET", "/deep") })
}

//go:noinline
func deep(n int, f func()) {
	var pad [512]byte
	if n == 0 {
		f()
		return
	}
	deep(n-1, f)
	runtime.KeepAlive(&pad)
}

func do2(method, path string) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	r, err := http.NewRequest(method, s.URL+path, nil)
	if err != nil {
		panic(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		panic(err)
	}
	_ = res.Body.Close()
}

package recorder_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

// BenchmarkCapture: how many events a capture takes from one watch as fast as they come, into a closed
// trace. Frames come from a backend that repeats a Deployment as a real API server sends it, so that
// the recorder and not etcd is the limit.
func BenchmarkCapture(b *testing.B) {
	const objects = 500
	for b.Loop() {
		b.StopTimer()
		events := 50_000
		config, bytes := eventMill(b, objects, events)
		dir := filepath.Join(b.TempDir(), fmt.Sprint(time.Now().UnixNano()))
		ctx, cancel := context.WithCancel(b.Context())
		var seen atomic.Int64
		o := recorder.Options{Out: dir, Config: config, Resources: []string{"deployments"}}
		o.WhenAppended(func(traces.Record) {
			if seen.Add(1) == int64(objects+events) {
				cancel()
			}
		})
		runtime.GC()
		cpu := processCPU()
		b.StartTimer()
		start := time.Now()
		r, err := recorder.Capture(ctx, o)
		elapsed := time.Since(start)
		b.StopTimer()
		cancel()
		if err != nil || r.Losses > 0 || r.Events != int64(objects+events) {
			b.Fatalf("%+v, %v", r, err)
		}
		b.ReportMetric(float64(events)/elapsed.Seconds(), "events/s")
		b.ReportMetric(float64(processCPU()-cpu)/float64(events)/1e3, "cpu-µs/event") // the mill's share included
		b.ReportMetric(float64(size(b, dir))/float64(r.Events), "B/event")
		b.ReportMetric(float64(bytes.Load())/float64(r.Events), "JSON-B/event")
		b.StartTimer()
	}
}

func size(b *testing.B, dir string) (n int64) {
	b.Helper()
	for _, e := range must[[]os.DirEntry](b)(os.ReadDir(dir)) {
		n += must[os.FileInfo](b)(e.Info()).Size()
	}
	return n
}

// BenchmarkProxy: requests through the recording proxy against requests of the same client to the same
// real API server directly.
func BenchmarkProxy(b *testing.B) {
	config := live(b).Config()
	ns := newNamespace(b, config)
	_, through := startProxy(b, config, recorder.ProxyOptions{})
	direct := rest.CopyConfig(config)
	direct.QPS = -1
	for _, workers := range []int{1, 8} {
		for _, verb := range []string{"get", "update"} {
			b.Run(fmt.Sprintf("%s/workers=%d", verb, workers), func(b *testing.B) {
				for b.Loop() {
					// Alternating, so that a busy machine is so for both.
					var rate [2]float64
					const rounds = 3
					for range rounds {
						for i, c := range []*rest.Config{direct, through} {
							rate[i] += requestRate(b, c, ns, verb, workers) / rounds
						}
					}
					b.ReportMetric(rate[0], "direct-req/s")
					b.ReportMetric(rate[1], "proxy-req/s")
					b.ReportMetric(rate[1]/rate[0], "ratio")
				}
			})
		}
	}
}

// requestRate makes calls for a while.
func requestRate(b *testing.B, config *rest.Config, ns, verb string, workers int) float64 {
	b.Helper()
	client := must[*kubernetes.Clientset](b)(kubernetes.NewForConfig(config)).CoreV1().ConfigMaps(ns)
	var done atomic.Int64
	var wg sync.WaitGroup
	const each = 100
	started := time.Now()
	for w := range workers {
		wg.Go(func() {
			name := fmt.Sprintf("%s-%d-%d", verb, w, time.Now().UnixNano())
			m, err := client.Create(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": "0"}}, metav1.CreateOptions{})
			for i := 0; i < each && err == nil; i++ {
				if verb == "get" {
					_, err = client.Get(b.Context(), name, metav1.GetOptions{})
				} else {
					m.Data["n"] = fmt.Sprint(i + 1)
					m, err = client.Update(b.Context(), m, metav1.UpdateOptions{})
				}
				done.Add(1)
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(started).Seconds()
}

// BenchmarkProxyOverhead: the proxy before a backend that answers at once: what one call costs.
func BenchmarkProxyOverhead(b *testing.B) {
	config := apiServer(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(deployment(1, 1))) })
	_, through := startProxy(b, config, recorder.ProxyOptions{})
	client := must[*kubernetes.Clientset](b)(kubernetes.NewForConfig(through))
	plain := rest.CopyConfig(config)
	plain.QPS = -1
	for name, c := range map[string]*kubernetes.Clientset{"direct": must[*kubernetes.Clientset](b)(kubernetes.NewForConfig(plain)), "proxy": client} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.CoreV1().RESTClient().Get().AbsPath("/apis/apps/v1/namespaces/d/deployments/d-1").DoRaw(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

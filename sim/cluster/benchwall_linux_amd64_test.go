package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/opreplay/opreplay/internal/apicall"
	"github.com/opreplay/opreplay/sim/apiserver"
	"github.com/opreplay/opreplay/sim/process"
	"github.com/opreplay/opreplay/traces"
)

// noPorts keep the busy operator off the machine's ports.
var noPorts = []string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}

// BenchmarkAgainstWall is the busy operator with 50 objects for half a minute, once on the wall clock over loopback TCP
// and once in a world: the same operator, API server and record. times-faster is how much sooner the world is through.
// The CPU time is that of all that takes part, a request's as a ratio too. The numbers of requests differ, as two runs on
// the wall clock do: there a request takes as long as it takes, in a world two milliseconds.
func BenchmarkAgainstWall(b *testing.B) {
	const d = 30 * time.Second
	var wall, world tally
	var took time.Duration
	for b.Loop() {
		wall.onTheWall(b, d)
		before, start := usage(), time.Now()
		w := begin(b, Options{Seed: 1})
		startBusy(b, w, "busy", noPorts...)
		createAll(b, w, 50)
		world.play(b, w, d, before)
		took += time.Since(start) // with its beginning and end
	}
	perRequest := func(y *tally) float64 { return 1000 * y.cpu.Seconds() / float64(y.requests) }
	b.ReportMetric(wall.wall.Seconds()/took.Seconds(), "times-faster")
	b.ReportMetric(perRequest(&wall), "wall-cpu-ms/request")
	b.ReportMetric(perRequest(&world), "world-cpu-ms/request")
	b.ReportMetric(perRequest(&world)/perRequest(&wall), "world/wall-cpu")
	b.ReportMetric(float64(wall.requests)/float64(wall.worlds), "wall-requests")
	b.ReportMetric(float64(world.requests)/float64(world.worlds), "world-requests")
}

// onTheWall runs the busy operator against the API server for D of real time.
func (y *tally) onTheWall(b *testing.B, d time.Duration) {
	b.Helper()
	if err := base.Server.Restore(base.kept); err != nil {
		b.Fatal(err)
	}
	before, start := usage(), time.Now()
	var requests atomic.Int64
	url, stop := serveLoopback(b, &requests)
	defer stop()
	p, err := process.Wall{}.Start(process.Spec{
		Name: "busy", Command: append([]string{guest("busy")}, noPorts...), Home: b.TempDir(), Kubeconfig: kubeconfig(b, url),
	})
	if err != nil {
		b.Fatal(err)
	}
	createOnTheWall(b, start)
	select {
	case <-time.After(d - time.Since(start)):
	case <-p.Done():
		b.Fatal(p.Exit())
	}
	y.wall += time.Since(start)
	p.Stop(time.Minute)
	y.cpu += usage() - before
	y.requests += requests.Load()
	y.worlds++
}

// createOnTheWall is createAll for a run that began at START.
func createOnTheWall(b *testing.B, start time.Time) {
	b.Helper()
	c, err := kubernetes.NewForConfig(base.Admin())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 50 {
		time.Sleep(time.Until(start.Add(time.Second + time.Duration(i)*100*time.Millisecond))) // as scripted
		if _, err := c.AppsV1().Deployments("default").Create(context.Background(), deployment(i), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// serveLoopback serves the API server on loopback as replay does on the wall clock: through the same record.
func serveLoopback(b *testing.B, requests *atomic.Int64) (url string, stop func()) {
	b.Helper()
	tap := apicall.New(&lockedRecord{record: newRecord(nil)}, apicall.Options{Process: func(*http.Request) string { return "busy" }})
	next := tap.Handler(base.Server.Handler())
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		r.Header.Set("X-Remote-User", apiserver.Admin.Name)
		r.Header["X-Remote-Group"] = apiserver.Admin.Groups
		next.ServeHTTP(w, r)
	})}
	l, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	return "http://" + l.Addr().String(), func() {
		_ = server.Close() // with its watches
		_ = <-done         // closed
	}
}

// kubeconfig is the path of one that leads to URL.
func kubeconfig(b *testing.B, url string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\n"+
		"clusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c, namespace: default}}]\n", url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// lockedRecord is a record for calls that come side by side.
type lockedRecord struct {
	mu sync.Mutex
	*record
}

func (r *lockedRecord) Append(row traces.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record.Append(row)
}

func (r *lockedRecord) Seq() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record.Seq()
}

package recorder_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

// runs is the process that runs a binary.
func runs(t testing.TB, path string) (pid int) {
	t.Helper()
	eventually(t, path+" runs", func() error {
		exes := must[[]string](t)(filepath.Glob("/proc/[0-9]*/exe"))
		for _, exe := range exes {
			if target, err := os.Readlink(exe); err == nil && target == path {
				pid = must[int](t)(strconv.Atoi(filepath.Base(filepath.Dir(exe))))
				return nil
			}
		}
		return fmt.Errorf("no process runs %s", path)
	})
	return pid
}

// underWay is a progress line that tells when there is progress: the first lists have come.
type underWay chan struct{}

func (u underWay) Set(string, ...any) {
	select {
	case u <- struct{}{}:
	default:
	}
}

func (underWay) Done() {}

// findings are what an analysis finds in a trace, but for what lies in the eye of the beholder: how certain it is.
func findings(t testing.TB, trace *traces.Trace) (all []string) {
	t.Helper()
	r := must[*analysis.Result](t)(analysis.Analyze(t.Context(), trace, analysis.Options{}))
	for _, f := range r.Findings {
		all = append(all, fmt.Sprint(f.Detector, " ", f.Process, " ", f.Objects, " ", f.Field, " ", f.Severity))
	}
	slices.Sort(all)
	return all
}

// A live operator that wakes itself, recorded by probes alone and in the same run by the proxy: the same writes made
// the same versions, and the same fault is found.
func TestCaptureOfTheZooFindsItsFault(t *testing.T) {
	needEBPF(t)
	config := live(t).Config()
	client := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(config))
	ns := newNamespace(t, config)
	installSites(t, client)
	path := stripped(t, "statusloop", zoo)
	proxied := record(t, func(ctx context.Context, o recorder.Options) (*recorder.Result, error) {
		return recorder.Run(ctx, recorder.RunOptions{Options: o, Command: []string{path}})
	}, recorder.Options{Config: config})
	under := make(underWay, 1)
	alone := record(t, recorder.Capture, recorder.Options{Config: config, Choice: recorder.Choice{PID: runs(t, path)}, Progress: under, MetricsAddr: "127.0.0.1:0"})
	metrics := strings.TrimPrefix(noteOf(alone, "metrics at "), "metrics at ")
	<-under

	must[*unstructured.Unstructured](t)(client.Resource(sites).Namespace(ns).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "web.example.com/v1", "kind": "Site", "metadata": map[string]any{"name": "shop"},
		"spec": map[string]any{"host": "shop.example.com", "title": "Soon"},
	}}, metav1.CreateOptions{}))
	const writes = 60
	for range writes {
		await(alone, "a write", func(q *traces.Request) bool { return q.Resource == "sites" && q.Verb == "patch" })
	}
	wantMetrics(t, metrics)
	bySight, byProxy := alone.end(), proxied.end()

	known := map[string]bool{}
	for _, q := range rows[traces.Request](t, byProxy) {
		if write(q.Verb) && q.Namespace == ns {
			known[fmt.Sprint(q.Verb, q.Resource, q.Name, q.UID, q.ResourceVersion, q.Generation, q.FieldManager, q.Code)] = true
		}
	}
	n := 0
	for _, q := range rows[traces.Request](t, bySight) {
		if !write(q.Verb) || q.Namespace != ns {
			continue
		}
		n++
		if q.ResourceVersion == 0 || !known[fmt.Sprint(q.Verb, q.Resource, q.Name, q.UID, q.ResourceVersion, q.Generation, q.FieldManager, q.Code)] {
			t.Errorf("the proxy saw no such write: %s %s %s, version %d by %q: %d", q.Verb, q.Resource, q.Name, q.ResourceVersion, q.FieldManager, q.Code)
		}
	}
	if n < writes {
		t.Errorf("%d writes", n)
	}
	// Each pass goes back to an event, but for those in which the operator heard of two at once.
	triggered, passes := 0, rows[traces.Reconcile](t, bySight)
	for _, p := range passes {
		if p.Trigger != 0 {
			triggered++
		}
	}
	if triggered*10 < len(passes)*8 {
		t.Errorf("%d of %d passes go back to an event", triggered, len(passes))
	}
	want, got := findings(t, byProxy), findings(t, bySight)
	if !slices.Equal(want, got) || !slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, "self-loop") }) {
		t.Errorf("found in what the proxy saw:\n%s\nand in what the probes saw:\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
	for _, l := range bySight.Manifest().Losses {
		if strings.Contains(l.Reason, "resource_version is 0") {
			t.Errorf("%+v", l)
		}
	}
}

// noteOf is what the recorder told its user that begins so.
func noteOf(r *recording, beginning string) string {
	r.t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case note := <-r.notes:
			if strings.HasPrefix(note, beginning) {
				return note
			}
		case <-deadline:
			r.t.Fatalf("the recorder never said %q", beginning)
		}
	}
}

// wantMetrics looks at what is served while an operator wakes itself.
func wantMetrics(t testing.TB, url string) {
	t.Helper()
	answer := must[*http.Response](t)(http.DefaultClient.Do(must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))))
	defer func() { _ = answer.Body.Close() }()
	text := string(must[[]byte](t)(io.ReadAll(answer.Body)))
	problems := must[[]promlint.Problem](t)(promlint.New(strings.NewReader(text)).Lint())
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, want := range []string{
		`oprec_reconciles_total{controller="site",outcome="success",process="statusloop"} `,
		`oprec_writes_total{process="statusloop",resource="sites.web.example.com",verb="patch"} `,
		`oprec_reconcile_duration_seconds_count{controller="site",process="statusloop"} `,
		`name="shop",namespace="t-`,
		`oprec_requests_total{code="200",process="statusloop",verb="patch"} `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

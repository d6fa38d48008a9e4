package recorder_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/opreplay/opreplay/recorder"
	"github.com/opreplay/opreplay/traces"
)

// served is an endpoint of this process; its URL has no path.
func served(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// scraped is a recording of an operator that waits, with endpoints that are asked often.
func scraped(t *testing.T, s recorder.Scrape) *recording {
	t.Helper()
	r, _ := runGuest(t, "wait", func(o *recorder.RunOptions) { o.NoCapture, o.Scrape = true, s })
	return r
}

// text is a row as Prometheus would write it, with its type.
func text(m *traces.Metric) string {
	var labels []string
	for _, l := range m.Labels {
		if l.Name != "instance" {
			labels = append(labels, fmt.Sprintf("%s=%q", l.Name, l.Value))
		}
	}
	return fmt.Sprintf("%s{%s} %v %s", m.Name, strings.Join(labels, ","), m.Value, m.Type)
}

func awaitMetric(r *recording, want string) *traces.Metric {
	r.t.Helper()
	return await(r, want, func(m *traces.Metric) bool { return text(m) == want })
}

// An endpoint of the library that operators have, with each type of metric.
func TestScrape(t *testing.T) {
	registry := prometheus.NewRegistry()
	syncs := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "site_syncs_total"}, []string{"result", "instance"})
	queue := prometheus.NewGauge(prometheus.GaugeOpts{Name: "site_queue"})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "site_seconds", Buckets: []float64{0.5, 1}})
	size := prometheus.NewSummary(prometheus.SummaryOpts{Name: "site_bytes", Objectives: map[float64]float64{0.5: 0.1}})
	registry.MustRegister(syncs, queue, took, size)
	syncs.WithLabelValues("ok", "mine").Add(3)
	queue.Set(7)
	took.Observe(0.75)
	size.Observe(100)
	endpoint := served(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP)

	r := scraped(t, recorder.Scrape{URLs: []string{endpoint.URL + "/metrics"}, Interval: 100 * time.Millisecond})
	awaitMetric(r, "up{} 1 gauge")
	awaitMetric(r, "up{} 1 gauge") // a second one, of which nothing else is new
	syncs.WithLabelValues("ok", "mine").Inc()
	registry.Unregister(queue)
	awaitMetric(r, "site_queue{} NaN gauge")
	trace := r.end()

	var first, later []string
	scrapes := int64(0)
	for _, m := range rows[traces.Metric](t, trace) {
		at := slices.IndexFunc(m.Labels, func(l traces.Label) bool { return l.Name == "instance" })
		if m.Process != "guest" || at < 0 || "http://"+m.Labels[at].Value != endpoint.URL {
			t.Errorf("%+v", m)
		}
		switch {
		case m.Name == "up":
			scrapes++
		case scrapes == 0:
			first = append(first, text(m))
		default:
			later = append(later, text(m))
		}
	}
	if want := []string{
		`site_bytes{quantile="0.5"} 100 summary`, `site_bytes_sum{} 100 summary`, `site_bytes_count{} 1 summary`,
		`site_queue{} 7 gauge`,
		`site_seconds_bucket{le="0.5"} 0 histogram`, `site_seconds_bucket{le="1"} 1 histogram`, `site_seconds_bucket{le="+Inf"} 1 histogram`,
		`site_seconds_sum{} 0.75 histogram`, `site_seconds_count{} 1 histogram`,
		`site_syncs_total{exported_instance="mine",result="ok"} 3 counter`,
	}; !slices.Equal(first, want) {
		t.Errorf("the first scrape:\n%s\nwant\n%s", strings.Join(first, "\n"), strings.Join(want, "\n"))
	}
	slices.Sort(later)
	if want := []string{`site_queue{} NaN gauge`, `site_syncs_total{exported_instance="mine",result="ok"} 4 counter`}; !slices.Equal(later, want) {
		t.Errorf("later:\n%s", strings.Join(later, "\n"))
	}
	if scrapes < 3 || len(trace.Manifest().Losses) != 0 {
		t.Errorf("%d scrapes, losses %v", scrapes, trace.Manifest().Losses)
	}
	if r.Metrics != int64(len(first)+len(later))+scrapes || !strings.Contains(r.Summary(), "samples of metrics") {
		t.Errorf("%+v: %s", r.Result, r.Summary())
	}
}

// At the end there is one scrape more, before the operator is stopped.
func TestScrapeAtTheEnd(t *testing.T) {
	var asked atomic.Int64
	endpoint := served(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "# TYPE asked_total counter\nasked_total %d\n", asked.Add(1))
	})
	r := scraped(t, recorder.Scrape{URLs: []string{endpoint.URL}, Interval: time.Hour})
	awaitMetric(r, "up{} 1 gauge")
	trace := r.end()
	var all []string
	for _, m := range rows[traces.Metric](t, trace) {
		all = append(all, text(m))
	}
	if want := []string{"asked_total{} 1 counter", "up{} 1 gauge", "asked_total{} 2 counter", "up{} 1 gauge"}; !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
}

// Whatever an endpoint answers, the recording goes on, and its trace says what it lacks.
func TestScrapeOfBadEndpoints(t *testing.T) {
	elsewhere := atomic.Int64{}
	other := served(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	release := make(chan struct{})
	endpoints := map[string]*httptest.Server{
		"it answers with more than 16 MiB": served(t, func(w http.ResponseWriter, _ *http.Request) {
			line := []byte(strings.Repeat("#", 1<<20-1) + "\n")
			for {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}),
		"it answers with more than 100000 samples": served(t, func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100_001 {
				_, _ = fmt.Fprintf(w, "a{b=\"%d\"} 1\n", i)
			}
		}),
		"text format parsing error in line 1": served(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "\x1b[2J{{{ no metrics\n")
		}),
		"it answers with text/html, and not with Prometheus' text form": served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<p>1</p>")
		}),
		"no answer within 2s":      served(t, func(http.ResponseWriter, *http.Request) { <-release }),
		"it answers 302 Found":     served(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }),
		"it answers 403 Forbidden": served(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }),
		"connection refused":       closed,
	}
	t.Cleanup(func() { close(release) }) // before the servers, which wait for their calls
	s := recorder.Scrape{Interval: 2 * time.Second}
	for _, e := range endpoints {
		s.URLs = append(s.URLs, e.URL)
	}
	r := scraped(t, s)
	for range len(endpoints) - 1 { // all but the closed one, which may be about to start
		awaitNote(r, "trying again")
	}
	trace := r.end()
	if all := rows[traces.Metric](t, trace); len(all) != 0 {
		t.Errorf("%d samples", len(all))
	}
	losses := trace.Manifest().Losses
	for why, e := range endpoints {
		if !slices.ContainsFunc(losses, func(l traces.Loss) bool {
			return l.Source == "metrics" && l.Count == -1 && strings.HasPrefix(l.Reason, e.URL+"/metrics was never scraped") && strings.Contains(l.Reason, why)
		}) {
			t.Errorf("no loss of %s with %q: %+v", e.URL, why, losses)
		}
	}
	if len(losses) != len(endpoints) || elsewhere.Load() != 0 {
		t.Errorf("%d losses, %d calls elsewhere", len(losses), elsewhere.Load())
	}
	for _, l := range losses {
		if strings.ContainsRune(l.Reason, '\x1b') {
			t.Errorf("%q", l.Reason)
		}
	}
}

// An endpoint that fails for a while is one loss, and a row for each try.
func TestScrapeOfAnEndpointThatFails(t *testing.T) {
	var fails atomic.Bool
	endpoint := served(t, func(w http.ResponseWriter, _ *http.Request) {
		if fails.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "a 1\n")
	})
	r := scraped(t, recorder.Scrape{URLs: []string{endpoint.URL}, Interval: 100 * time.Millisecond})
	awaitMetric(r, "up{} 1 gauge")
	fails.Store(true)
	first := awaitMetric(r, "up{} 0 gauge")
	awaitMetric(r, "up{} 0 gauge")
	fails.Store(false)
	awaitMetric(r, "up{} 1 gauge")
	fails.Store(true) // to the end
	second := awaitMetric(r, "up{} 0 gauge")
	trace := r.end()
	losses := trace.Manifest().Losses
	if len(losses) != 2 || losses[0].From.UnixNano() != first.TS || !losses[0].To.After(losses[0].From) || losses[1].From.UnixNano() != second.TS ||
		!strings.Contains(losses[0].Reason, "failed: it answers 503 Service Unavailable") {
		t.Errorf("%+v", losses)
	}
	if n := slices.IndexFunc(rows[traces.Metric](t, trace), func(m *traces.Metric) bool { return math.IsNaN(m.Value) }); n >= 0 {
		t.Error("a series ended that was only not asked")
	}
}

// What an endpoint kept back before it first answered is a loss; that it did not listen yet is none. What may be a secret
// in its URL is in no manifest.
func TestScrapeOfAnEndpointThatRefusesAtFirst(t *testing.T) {
	refuse := make(chan bool, 2)
	refuse <- true
	refuse <- true
	endpoint := served(t, func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-refuse:
			w.WriteHeader(http.StatusForbidden)
		default:
			_, _ = io.WriteString(w, "a 1\n")
		}
	})
	r := scraped(t, recorder.Scrape{URLs: []string{endpoint.URL + "/metrics?token=sesame"}, Interval: 100 * time.Millisecond})
	awaitMetric(r, "up{} 1 gauge")
	losses := r.end().Manifest().Losses
	if len(losses) != 1 || !strings.Contains(losses[0].Reason, "2 scrapes of "+endpoint.URL+"/metrics failed: it answers 403 Forbidden") {
		t.Errorf("%+v", losses)
	}
}

// The end of the operator is not a loss of its metrics.
func TestScrapeOfAnOperatorThatEnds(t *testing.T) {
	endpoint := served(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a 1\n") })
	stdin := filepath.Join(t.TempDir(), "stdin")
	if err := syscall.Mkfifo(stdin, 0o600); err != nil {
		t.Fatal(err)
	}
	r, _ := runGuest(t, "wait", func(o *recorder.RunOptions) {
		o.NoCapture, o.Scrape = true, recorder.Scrape{URLs: []string{endpoint.URL}, Interval: time.Second}
		o.Command = []string{"sh", "-c", "read -r line <" + stdin}
	})
	awaitMetric(r, "up{} 1 gauge")
	endpoint.Close()
	awaitMetric(r, "up{} 0 gauge")
	if err := os.WriteFile(stdin, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trace := r.wait()
	failed := 0
	for _, m := range rows[traces.Metric](t, trace) {
		if text(m) == "up{} 0 gauge" {
			failed++
		}
	}
	if losses := trace.Manifest().Losses; failed == 1 && len(losses) > 0 { // a slow machine has time for a second one
		t.Errorf("%+v", losses)
	}
}

// A token for an endpoint behind TLS goes nowhere else, and a certificate of its own making is taken only when told.
func TestScrapeWithToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	endpoint := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sesame" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, "a 1\n")
	}))
	t.Cleanup(endpoint.Close)
	s := recorder.Scrape{URLs: []string{endpoint.URL}, TokenFile: token}
	r := scraped(t, s)
	awaitNote(r, "certificate signed by unknown authority")
	r.end()
	s.Insecure = true
	r = scraped(t, s)
	awaitMetric(r, "a{} 1 ")
	r.end()
}

func TestBadScrapes(t *testing.T) {
	fifo, empty := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "empty")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]recorder.Scrape{
		"--scrape ftp://127.0.0.1/metrics: want a URL such as":              {URLs: []string{"ftp://127.0.0.1/metrics"}},
		"--scrape 127.0.0.1: want a URL such as":                            {URLs: []string{"127.0.0.1"}},
		"--scrape 127.0.0.1:80: first path segment":                         {URLs: []string{"127.0.0.1:80"}},
		"--scrape: invalid port":                                            {URLs: []string{"http://me:word@127.0.0.1:x"}},
		"--scrape http://me:xxxxx@127.0.0.1: names and passwords":           {URLs: []string{"http://me:word@127.0.0.1"}},
		"--scrape http://127.0.0.1: it is there twice":                      {URLs: []string{"http://127.0.0.1", "http://127.0.0.1"}},
		"--scrape-interval 1ms: want 100ms or more":                         {URLs: []string{"http://127.0.0.1"}, Interval: time.Millisecond},
		"--scrape-token-file " + fifo + ": want a regular file":             {URLs: []string{"http://127.0.0.1"}, TokenFile: fifo},
		"--scrape-token-file " + empty + ": want one line":                  {URLs: []string{"http://127.0.0.1"}, TokenFile: empty},
		"--scrape-token-file nosuch: no such file":                          {URLs: []string{"http://127.0.0.1"}, TokenFile: "nosuch"},
		"--scrape http://10.0.0.1: a token is sent over https alone, or to": {URLs: []string{"http://10.0.0.1"}, TokenFile: "nosuch"},
	} {
		o := recorder.Options{Out: filepath.Join(t.TempDir(), "t.optrace"), Scrape: s}
		_, err := recorder.Capture(t.Context(), o)
		_, runErr := recorder.Run(t.Context(), recorder.RunOptions{Options: o, Command: []string{os.Args[0]}})
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "word@") || runErr == nil || runErr.Error() != err.Error() {
			t.Errorf("%v, %v, want %s", err, runErr, want)
		}
	}
}

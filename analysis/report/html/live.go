package html

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/traces"
)

// Live serves the page of a trace that is still being written: the page asks now and then for /version, and loads
// itself anew when that has changed. It answers to loopback names alone, lest another site's page reads the trace by
// a name of its own (DNS rebinding).
type Live struct {
	// Dir is the trace's folder.
	Dir string
	// Detectors makes the detectors of one analysis, which keep state; nil means analysis.All.
	Detectors func() []analysis.Detector

	mu      sync.Mutex
	version string
	page    []byte
}

// ServeHTTP implements http.Handler.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !loopback(r.Host) {
		http.Error(w, "this page is for this machine alone", http.StatusForbidden)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch r.URL.Path {
	case "/version":
		t, err := traces.Open(l.Dir)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer t.Close() //nolint:errcheck // only read
		_, _ = w.Write([]byte(t.SHA256()))
	case "/":
		page, err := l.made(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	default:
		http.NotFound(w, r)
	}
}

// made is the page of the trace as it is now, made once for each state of it.
func (l *Live) made(ctx context.Context) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, err := traces.Open(l.Dir)
	if err != nil {
		return nil, err
	}
	defer t.Close() //nolint:errcheck // only read
	if l.version == t.SHA256() {
		return l.page, nil
	}
	o := analysis.Options{}
	if l.Detectors != nil {
		o.Detectors = l.Detectors()
	}
	result, err := analysis.Analyze(ctx, t, o)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := Write(ctx, &b, Options{Live: true}, Run{t, result}); err != nil {
		return nil, err
	}
	l.version, l.page = t.SHA256(), b.Bytes()
	return l.page, nil
}

func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

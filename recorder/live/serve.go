package live

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Gatherer has the metrics, for who serves them otherwise.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Server serves metrics over HTTP.
type Server struct {
	// URL is where a scraper finds them.
	URL    string
	server *http.Server
}

// Serve serves the metrics at ADDRESS, HOST:PORT, below /metrics. Port 0 takes a free one.
func (m *Metrics) Serve(address string) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	s := &Server{
		URL:    fmt.Sprintf("http://%s/metrics", listener.Addr()),
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)},
	}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// Close ends the serving, and waits a little for scrapes that are under way. It may be called again.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.server.Shutdown(ctx); err == nil {
		return nil
	}
	return s.server.Close()
}

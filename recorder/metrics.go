package recorder

import (
	"maps"
	"net"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/recorder/live"
	"github.com/opreplay/opreplay/traces"
)

// openMetrics serves the recording's metrics, where that is wanted.
func (s *session) openMetrics() error {
	address := s.o.MetricsAddr
	if address == "" {
		return nil
	}
	if err := onLoopback("--metrics-addr", address, "they name what a cluster holds"); err != nil {
		return err
	}
	m := live.New(live.Options{Process: s.processOf, Lost: s.lostNow, Loops: s.loops})
	server, err := m.Serve(address)
	if err != nil {
		return cli.Usagef("--metrics-addr %s: %w", address, listenError(err))
	}
	s.metrics, s.server = m, server
	s.o.note("metrics at %s", server.URL)
	return nil
}

// listenError is why nobody can listen there, without the address.
func listenError(err error) error {
	if e, ok := err.(*net.OpError); ok { //nolint:errorlint // as net.Listen documents
		return e.Err
	}
	return err
}

// watched is the profiler so far, whose joiner is set; nil where there is none. The server asks from the beginning on.
func (s *session) watched() *profiler {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.profiler
}

// processOf is what the process PID is called in the trace.
func (s *session) processOf(pid int) string {
	if p := s.watched(); p != nil {
		return p.j.processOf(pid)
	}
	return ""
}

// lostNow is what is known to be lost so far, by its source: rows, or notes where it is not known how many.
func (s *session) lostNow() map[string]int64 {
	all := map[string]int64{}
	s.mu.Lock()
	maps.Copy(all, s.losses)
	tap := s.tap
	s.mu.Unlock()
	if tap != nil {
		for _, l := range tap.Losses() {
			all[l.Source] += atLeast(l)
		}
	}
	if p := s.watched(); p != nil {
		p.lostNow(all)
	}
	return all
}

func atLeast(l traces.Loss) int64 { return max(1, l.Count) }

// lostNow adds what the kernel's buffers had no room for.
func (p *profiler) lostNow(all map[string]int64) {
	if _, lost, err := p.sampler.Counted(); err == nil {
		all["samples"] += int64(lost)
	}
	if p.events != nil {
		if lost, err := p.events.Lost(); err == nil {
			all[string(traces.TableKernelEvents)] += int64(lost)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.gone
	for _, g := range p.programs {
		t.program(g)
	}
	all["probes"] += t.lost + t.lostBodies
}

// loops are the loops of reads that are hot now.
func (s *session) loops() (all []live.Loop) {
	p := s.watched()
	if p == nil || p.events == nil {
		return nil
	}
	for _, l := range p.events.Loops() {
		all = append(all, live.Loop{Process: s.processOf(l.PID), Rate: l.Rate, Persist: l.Persist})
	}
	return all
}

package live

import (
	"net"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/opreplay/opreplay/traces"
)

// sources are what is asked for when somebody looks.
type sources struct{ o Options }

var (
	lostDesc = prometheus.NewDesc("oprec_lost_total", "What is known to be missing from the trace, by its source: rows, or notes where it is not known how many.",
		[]string{"source"}, nil)
	rateDesc = prometheus.NewDesc("ebpf_loop_stack_rate", "Equal reads per second, from one stack, of the hottest loop of a process; no series where there is none.",
		[]string{"process"}, nil)
	persistDesc = prometheus.NewDesc("ebpf_loop_persist_seconds", "For how long the longest of a process's loops of reads has been hot.",
		[]string{"process"}, nil)
)

// Describe implements prometheus.Collector.
func (*sources) Describe(out chan<- *prometheus.Desc) {
	out <- lostDesc
	out <- rateDesc
	out <- persistDesc
}

// Collect implements prometheus.Collector.
func (s *sources) Collect(out chan<- prometheus.Metric) {
	if s.o.Lost != nil {
		all := map[string]int64{}
		for source, n := range s.o.Lost() {
			// Sources name streams and processes behind the first /: those are for the trace's manifest.
			table, _, _ := strings.Cut(source, "/")
			all[table] += n
		}
		for source, n := range all {
			out <- prometheus.MustNewConstMetric(lostDesc, prometheus.CounterValue, float64(n), source)
		}
	}
	if s.o.Loops == nil {
		return
	}
	hottest := map[string]Loop{}
	for _, l := range s.o.Loops() {
		h := hottest[l.Process]
		hottest[l.Process] = Loop{l.Process, max(h.Rate, l.Rate), max(h.Persist, l.Persist)}
	}
	for process, l := range hottest {
		out <- prometheus.MustNewConstMetric(rateDesc, prometheus.GaugeValue, l.Rate, process)
		out <- prometheus.MustNewConstMetric(persistDesc, prometheus.GaugeValue, l.Persist.Seconds(), process)
	}
}

func code(n int32) string { return strconv.Itoa(int(n)) }

func address(r *traces.KernelEvent) string {
	return net.JoinHostPort(r.Address, strconv.Itoa(int(r.Port)))
}

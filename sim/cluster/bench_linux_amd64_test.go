package cluster

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// report reports what a world's run took in wall time.
func report(b *testing.B, w *World, virtual, wall time.Duration) {
	st := w.Stats()
	if !st.Deterministic {
		b.Fatal(st.Reasons)
	}
	b.ReportMetric(virtual.Seconds()/wall.Seconds(), "virtual-s/s")
	b.ReportMetric(float64(st.Traps), "traps")
	b.ReportMetric(float64(wall.Microseconds())/float64(st.Traps), "µs/trap")
	b.ReportMetric(float64(w.requests)/wall.Seconds(), "requests/s")
	b.ReportMetric(float64(w.requests), "requests")
	b.ReportMetric(float64(w.Steps()), "steps")
	b.ReportMetric(rss(), "MB-RSS")
}

// rss is what this process has in memory, without its guests.
func rss() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kB, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(v), " kB"))
			return float64(kB) / 1024
		}
	}
	return 0
}

// BenchmarkIdleHour is a virtual hour of an operator that has nothing to do but to renew its lease.
func BenchmarkIdleHour(b *testing.B) {
	for _, c := range []struct {
		name string
		args []string
	}{{"watch", nil}, {"lease", []string{"--leader-elect"}}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				w := begin(b, Options{Seed: 1})
				if _, err := w.Start(Program{Name: "idle", Path: guest("idle"), Args: c.args}); err != nil {
					b.Fatal(err)
				}
				start := time.Now()
				play(b, w, time.Hour)
				report(b, w, time.Hour, time.Since(start))
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBusyHour is a virtual hour of the busy operator with 50 objects, ten workers and a lease.
func BenchmarkBusyHour(b *testing.B) {
	for b.Loop() {
		w := begin(b, Options{Seed: 1})
		startBusy(b, w, "busy", "--leader-elect")
		createAll(b, w, 50)
		start := time.Now()
		play(b, w, time.Hour)
		report(b, w, time.Hour, time.Since(start))
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

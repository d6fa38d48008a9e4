package virtual

import (
	"syscall"
	"testing"
	"time"
)

// BenchmarkIdleHour is one virtual hour of a program that has almost nothing to do.
func BenchmarkIdleHour(b *testing.B) {
	for b.Loop() {
		before := usage()
		w := newWorld(b, Options{Seed: 1})
		p := w.start("idle", []string{"1h"})
		start := time.Now()
		w.run(2*time.Hour, exited(p))
		wall := time.Since(start)
		st := w.s.Stats()
		cpu := usage() - before
		if !st.Deterministic {
			b.Fatal(st.Reasons)
		}
		b.ReportMetric(3600/wall.Seconds(), "virtual-s/s")
		b.ReportMetric(float64(st.Traps), "traps")
		b.ReportMetric(float64(wall.Microseconds())/float64(st.Traps), "µs/trap")
		b.ReportMetric(float64(cpu.Microseconds())/float64(st.Traps), "cpu-µs/trap")
		w.s.Close()
	}
}

// usage is the CPU time of this process and of the children it has waited for.
func usage() time.Duration {
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if syscall.Getrusage(who, &r) == nil {
			sum += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	return sum
}

// BenchmarkStart is the time until a process stands at its beginning, and its end.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		w := newWorld(b, Options{Seed: 1})
		w.start("idle", []string{"1h"}).Kill()
		w.s.Close()
	}
}

// BenchmarkRequests is HTTP requests of a client with four connections.
func BenchmarkRequests(b *testing.B) {
	for b.Loop() {
		w := newWorld(b, Options{Seed: 1})
		p := w.start("fds", nil)
		start := time.Now()
		w.run(2*time.Hour, exited(p))
		b.ReportMetric(50/time.Since(start).Seconds(), "connections/s")
		w.s.Close()
	}
}

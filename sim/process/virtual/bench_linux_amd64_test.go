package virtual

import (
	"syscall"
	"testing"
	"time"
)

// BenchmarkIdleHour is one virtual hour of a program that has almost nothing to do.
func BenchmarkIdleHour(b *testing.B) {
	for b.Loop() {
		own, children := usage(syscall.RUSAGE_SELF), usage(syscall.RUSAGE_CHILDREN)
		w := newWorld(b, Options{Seed: 1})
		p := w.start("idle", []string{"1h"})
		start := time.Now()
		w.run(2*time.Hour, exited(p))
		wall := time.Since(start)
		st := w.s.Stats()
		own, children = usage(syscall.RUSAGE_SELF)-own, usage(syscall.RUSAGE_CHILDREN)-children
		if !st.Deterministic {
			b.Fatal(st.Reasons)
		}
		b.ReportMetric(3600/wall.Seconds(), "virtual-s/s")
		b.ReportMetric(float64(st.Traps), "traps")
		b.ReportMetric(float64(wall.Microseconds())/float64(st.Traps), "µs/trap")
		b.ReportMetric(float64(own.Microseconds())/float64(st.Traps), "supervisor-cpu-µs/trap")
		b.ReportMetric(float64(children.Microseconds())/float64(st.Traps), "guest-cpu-µs/trap")
		b.ReportMetric(3600/(own+children).Seconds(), "virtual-s/cpu-s")
		w.s.Close()
	}
}

// usage is the CPU time of this process, or of the children it has waited for.
func usage(who int) time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(who, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
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

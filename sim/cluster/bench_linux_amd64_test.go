package cluster

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tally sums what worlds have cost.
type tally struct {
	virtual, wall, cpu time.Duration
	traps              uint64
	requests, steps    int64
	worlds             int
}

// play runs a world for D, ends it, and counts. BEFORE is the CPU time before the world began.
func (y *tally) play(b *testing.B, w *World, d, before time.Duration) {
	b.Helper()
	start := time.Now()
	play(b, w, d)
	y.wall += time.Since(start)
	st := w.Stats()
	if !st.Deterministic {
		b.Fatal(st.Reasons)
	}
	y.virtual += d
	y.traps += st.Traps
	y.requests += w.requests
	y.steps += w.Steps()
	y.worlds++
	if err := w.Close(); err != nil { // the programs' CPU time is known from now on
		b.Fatal(err)
	}
	y.cpu += usage() - before
}

// report says what that was in rates, and of one world. A second of virtual time would take a second on the wall
// clock: virtual-s/s is the ratio to that. The rates by CPU time count the API server, the supervisor and the programs,
// and depend less on what else the machine does.
func (y *tally) report(b *testing.B) {
	b.Helper()
	n := float64(y.worlds)
	b.ReportMetric(y.virtual.Seconds()/y.wall.Seconds(), "virtual-s/s")
	b.ReportMetric(y.virtual.Seconds()/y.cpu.Seconds(), "virtual-s/cpu-s")
	b.ReportMetric(float64(y.traps)/n, "traps")
	b.ReportMetric(float64(y.wall.Microseconds())/float64(y.traps), "µs/trap")
	b.ReportMetric(float64(y.requests)/n, "requests")
	b.ReportMetric(float64(y.requests)/y.wall.Seconds(), "requests/s")
	b.ReportMetric(float64(y.requests)/y.cpu.Seconds(), "requests/cpu-s")
	b.ReportMetric(float64(y.steps)/n, "steps")
	b.ReportMetric(rss(), "MB-RSS")
}

// usage is the CPU time of this process and of the children it has waited for.
func usage() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if syscall.Getrusage(who, &r) == nil {
			sum += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	return sum
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

// BenchmarkIdleHour is a virtual hour of an operator that has nothing to do, or nothing but to renew its lease.
func BenchmarkIdleHour(b *testing.B) {
	for _, c := range []struct {
		name string
		args []string
	}{{"watch", nil}, {"lease", []string{"--leader-elect"}}} {
		b.Run(c.name, func(b *testing.B) {
			var y tally
			for b.Loop() {
				before := usage()
				w := begin(b, Options{Seed: 1})
				if _, err := w.Start(Program{Name: "idle", Path: guest("idle"), Args: c.args}); err != nil {
					b.Fatal(err)
				}
				y.play(b, w, time.Hour, before)
			}
			y.report(b)
		})
	}
}

// BenchmarkBusyHour is a virtual hour of the busy operator with 50 objects and ten workers.
func BenchmarkBusyHour(b *testing.B) {
	for _, c := range []struct {
		name string
		args []string
	}{{"objects", nil}, {"lease", []string{"--leader-elect"}}} {
		b.Run(c.name, func(b *testing.B) {
			var y tally
			for b.Loop() {
				before := usage()
				w := begin(b, Options{Seed: 1})
				startBusy(b, w, "busy", c.args...)
				createAll(b, w, 50)
				y.play(b, w, time.Hour, before)
			}
			y.report(b)
		})
	}
}

// BenchmarkSchedule is what an altered schedule costs in a warm process: a world begins, an operator with five
// objects starts, 30 virtual seconds pass, and all ends.
func BenchmarkSchedule(b *testing.B) {
	for b.Loop() {
		w := begin(b, Options{Seed: 1})
		startBusy(b, w, "busy")
		createAll(b, w, 5)
		play(b, w, 30*time.Second)
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(60/(b.Elapsed().Seconds()/float64(b.N)), "schedules/min")
}

// BenchmarkBeginWarm is the beginning and the end of a world without programs.
func BenchmarkBeginWarm(b *testing.B) {
	for b.Loop() {
		if err := begin(b, Options{Seed: 1}).Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBeginCold is that with an API server of its own.
func BenchmarkBeginCold(b *testing.B) {
	base.Close()
	for b.Loop() {
		var err error
		if base, err = NewBase(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
		if err := begin(b, Options{Seed: 1}).Close(); err != nil {
			b.Fatal(err)
		}
		base.Close()
	}
	b.ReportMetric(rss(), "MB-RSS")
	b.StopTimer()
	var err error
	if base, err = NewBase(b.Context(), 1); err != nil {
		b.Fatal(err)
	}
}

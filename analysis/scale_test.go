//go:build unix

package analysis

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/opreplay/opreplay/analysis/internal/synth"
	"github.com/opreplay/opreplay/traces"
)

// write makes a trace of so many rows in DIR, if it isn't there.
func write(b *testing.B, dir string, rows int) string {
	b.Helper()
	if _, err := traces.Open(dir); err == nil {
		return dir
	}
	w, err := traces.Create(dir, traces.Manifest{Source: "run", Operators: []traces.Operator{{Process: "siteop"}}}, traces.WriterOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for r := range synth.Records(synth.Options{Rows: rows, Alive: 5000}) {
		if err := w.Append(r); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return dir
}

// BenchmarkTrace analyzes a trace on disk with all detectors: files are read, checked, decoded and judged. The number of
// rows is OPREPLAY_ROWS, and the trace is kept in the folder OPREPLAY_TRACES if that is set; make scale has 10 million.
// Memory is the most that the runtime held at a time.
func BenchmarkTrace(b *testing.B) {
	rows := 200_000
	if n, err := strconv.Atoi(os.Getenv("OPREPLAY_ROWS")); err == nil {
		rows = n
	}
	keep := os.Getenv("OPREPLAY_TRACES")
	if keep == "" {
		keep = b.TempDir()
	}
	dir := write(b, filepath.Join(keep, fmt.Sprintf("synth-%d.optrace", rows)), rows)
	for name, run := range map[string]func(*traces.Trace) int64{
		"read": func(t *traces.Trace) (n int64) {
			reuse := &traces.Reuse{}
			for r, err := range t.Records(context.Background(), traces.Range{Tables: listen(All()).tables(), Omit: unread, Reuse: reuse}) {
				if err != nil {
					b.Fatal(err)
				}
				if n++; n&0xff == 0 {
					reuse.Done(r.Header().Seq - 1)
				}
			}
			return n
		},
		"analyze": func(t *traces.Trace) int64 {
			r, err := Analyze(context.Background(), t, Options{})
			if err != nil {
				b.Fatal(err)
			}
			return r.Looked.Records
		},
	} {
		b.Run(name, func(b *testing.B) {
			most := watchMemory(b)
			begun := cpuTime(b)
			var n int64
			for b.Loop() {
				t, err := traces.Open(dir)
				if err != nil {
					b.Fatal(err)
				}
				n += run(t)
				_ = t.Close()
			}
			b.ReportMetric(float64(n)/(cpuTime(b)-begun), "records/cpu-s")
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(most())/(1<<20), "MiB")
		})
	}
}

// watchMemory looks every few milliseconds at what the runtime has from the system and has not given back.
func watchMemory(b *testing.B) (most func() uint64) {
	b.Helper()
	debug.FreeOSMemory()
	end, ended := make(chan struct{}), make(chan uint64)
	go func() {
		var peak uint64
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				ended <- peak
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.Sys-m.HeapReleased)
			}
		}
	}()
	return func() uint64 {
		close(end)
		return <-ended
	}
}

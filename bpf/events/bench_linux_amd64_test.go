package events

import (
	"math"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/opreplay/opreplay/bpf"
)

// BenchmarkSystemCall: what a short system call (a read of one byte) costs while events are watched for: of a
// process that nobody follows, and of one that reads over and over. The arms take turns; each one's best turn counts,
// as the one that was least disturbed.
func BenchmarkSystemCall(b *testing.B) {
	if err := bpf.Check(false); err != nil {
		b.Skipf("SKIPPED: %v", err)
	}
	arms := []struct {
		name     string
		o        Options
		followed bool
	}{
		{"none", Options{}, false},
		{"refused-forks", Options{Refused: true, Forks: true}, true},
		{"enospc", Options{NoSpace: true}, false},
		{"read-loops", Options{ReadLoops: true}, false},
		{"enospc-read-loops", Options{NoSpace: true, ReadLoops: true}, false},
		{"enospc-followed", Options{NoSpace: true}, true},
		{"read-loops-followed", Options{ReadLoops: true}, true},
	}
	best := make([]float64, len(arms))
	for i := range best {
		best[i] = math.Inf(1)
	}
	for b.Loop() {
		for i, arm := range arms {
			best[i] = min(best[i], nanosPerRead(b, arm.o, arm.followed))
		}
	}
	for i, arm := range arms {
		if i == 0 {
			b.ReportMetric(best[0], "none-ns")
			continue
		}
		b.ReportMetric(best[i]/best[0], arm.name+"-ratio")
	}
}

func nanosPerRead(b *testing.B, o Options, followed bool) float64 {
	b.Helper()
	processes, err := bpf.NewProcesses()
	if err != nil {
		b.Fatal(err)
	}
	defer processes.Close() //nolint:errcheck // the next turn's would fail too
	if o.Any() {
		w, err := Watch(processes, o)
		if err != nil {
			b.Fatal(err)
		}
		defer w.Close() //nolint:errcheck // likewise
	}
	if followed {
		if _, err := processes.Follow(os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	fd, buf := int(f.Fd()), make([]byte, 1)
	const chunk, chunks = 2000, 50
	best := math.Inf(1)
	for range chunks {
		began := time.Now()
		for range chunk {
			if _, err := unix.Pread(fd, buf, 0); err != nil {
				b.Fatal(err)
			}
		}
		best = min(best, float64(time.Since(began))/chunk)
	}
	return best
}

package probes

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/opreplay/opreplay/bpf"
	"github.com/opreplay/opreplay/bpf/internal/guest"
	"github.com/opreplay/opreplay/bpf/symbols"
)

// arm is one way in which an operator is looked at while its throughput is measured.
type arm struct {
	name            string
	sampled, probed bool
}

var arms = []arm{{"off", false, false}, {"99Hz", true, false}, {"probes", false, true}, {"99Hz-probes", true, true}}

// workload is what the operator does in each pass.
type workload struct {
	name                  string
	passes, calls, rounds int
}

// Of workloads the first is what an operator does that computes a little and calls a little, as most do; the others
// are nothing but passes, and nothing but calls, to tell what the probes add to each.
var workloads = []workload{{"operator", 200, 2, 300_000}, {"passes", 5000, 0, 0}, {"calls", 200, 10, 0}}

// turn is what a workload took, in nanoseconds: by the clock, and of the operator's processor time.
type turn [2]float64

// BenchmarkOverhead: what it takes of an operator's throughput to look at it. The arms take turns in each round, the
// operator is one process all the while; each round gives a ratio to its own arm without, of which the median counts:
// by the clock, which on a machine with other work shows that work, and by the operator's processor time.
func BenchmarkOverhead(b *testing.B) {
	if err := bpf.Check(false); err != nil {
		b.Skipf("SKIPPED: %v", err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer s.Close()
	path := guest.Build(b, "./testdata/load", guest.Stripped)
	g := guest.Start(b, path)
	binary, err := symbols.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	took := make([][][]turn, len(workloads)) // by workload and arm, of each round
	for i := range took {
		took[i] = make([][]turn, len(arms))
	}
	round := 0
	for b.Loop() {
		for i := range arms {
			a := (i + round) % len(arms) // each is first in its turn
			look := startLooking(b, arms[a], g.PID, binary, path)
			for w, load := range workloads {
				took[w][a] = append(took[w][a], perform(b, g, load, s.URL+"/api/v1/pods"))
			}
			look()
		}
		round++
	}
	for by, clock := range []string{"", "cpu-"} {
		for a := 1; a < len(arms); a++ {
			ratio := func(with, without turn) float64 { return with[by] / without[by] }
			b.ReportMetric(median(took[0][a], took[0][0], ratio), arms[a].name+"-"+clock+"ratio")
		}
		added := func(w int) float64 { // by the probes to a pass of the workload, in microseconds
			return median(took[w][2], took[w][0], func(with, without turn) float64 {
				return (with[by] - without[by]) / float64(workloads[w].passes) / 1e3
			})
		}
		pass := added(1)
		b.ReportMetric(pass, "probes-"+clock+"µs/reconcile")
		b.ReportMetric((added(2)-pass)/float64(workloads[2].calls), "probes-"+clock+"µs/request")
	}
}

// perform has the guest do its work.
func perform(b *testing.B, g *guest.Process, w workload, url string) (t turn) {
	b.Helper()
	g.Say(fmt.Sprint(w.passes, w.calls, w.rounds, " ", url))
	line := g.Line()
	if _, err := fmt.Sscan(line, &t[0], &t[1]); err != nil {
		b.Fatalf("%s: %v", line, err)
	}
	return t
}

// median is that of F of the rounds' pairs.
func median(with, without []turn, f func(with, without turn) float64) float64 {
	var all []float64
	for i := range with {
		all = append(all, f(with[i], without[i]))
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// startLooking looks at the process as a recording does, until the function that it returns is called.
func startLooking(b *testing.B, a arm, pid int, binary *symbols.Binary, path string) (end func()) {
	b.Helper()
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	processes, err := bpf.NewProcesses()
	must(err)
	_, err = processes.Follow(pid)
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	var closers []func() error
	if a.sampled {
		s, err := bpf.NewSampler(processes, bpf.SamplerOptions{})
		must(err)
		closers = append(closers, s.Close)
		reading.Go(func() { drain(ctx, s.Next) })
	}
	if a.probed {
		w, err := Attach(processes, binary, path)
		must(err)
		closers = append(closers, w.Close)
		reading.Go(func() { drain(ctx, w.Next) })
	}
	return func() {
		stop()
		reading.Wait()
		for _, f := range append(closers, processes.Close) {
			must(f())
		}
	}
}

func drain[T any](ctx context.Context, next func(context.Context) (T, error)) {
	for {
		if _, err := next(ctx); err != nil {
			return
		}
	}
}

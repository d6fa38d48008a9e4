package versus

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// run is what a verb cost on one server, all rounds together.
type run struct {
	ops       int
	wall, cpu time.Duration
}

func (r run) perSecond() float64 { return float64(r.ops) / r.wall.Seconds() }
func (r run) cpuPerOp() float64  { return float64(r.cpu.Microseconds()) / float64(r.ops) }

// line is one line of the table.
type line struct {
	kind    string
	workers int
	verb    string
}

// results are by server: the runs of each line, and the latencies of the watch by kind and workers.
type results struct {
	runs    map[line]*run
	latency map[line][]time.Duration
}

var verbs = []string{"create", "get", "list", "update", "patch", "apply", "delete"}

// kinds are made anew for each round.
var kinds = map[string]func(*connection) kind{
	"widget":    (*connection).widget,
	"configmap": (*connection).configMap,
}

// TestOurs has the benchmark's client do a little of everything, so that it does not rot between benchmarks.
func TestOurs(t *testing.T) {
	const objects = 4
	s := ours(t)
	c := connect(t, s)
	r := &results{map[line]*run{}, map[line][]time.Duration{}}
	for name := range kinds {
		for _, workers := range []int{1, 8} {
			measure(t, s, c, name, workers, objects, r)
		}
	}
	each(func(at line) {
		if at.verb == "watch" {
			if n := len(r.latency[at]); n != 2*objects {
				t.Errorf("%v: %d events, want one for each create and update: %d", at, n, 2*objects)
			}
		} else if r.runs[at] == nil || r.runs[at].ops < 1 {
			t.Errorf("%v was not measured", at)
		}
	})
	table(io.Discard, r, r)
}

// BenchmarkVersus prints the table; see the package's documentation.
func BenchmarkVersus(b *testing.B) {
	rounds, objects := number(b, "VERSUS_ROUNDS", 3), number(b, "VERSUS_OBJECTS", 400)
	servers := []*server{nil, ours(b)}
	if os.Getenv("VERSUS_ALONE") != "" {
		servers = servers[1:]
	} else {
		servers[0] = theirs(b)
	}
	var connections []*connection
	var all []*results
	for _, s := range servers {
		idle := s.memory(b)
		fmt.Printf("%s: ready after %.2f s, %.0f MiB\n", s.name, s.started.Seconds(), idle)
		connections = append(connections, connect(b, s))
		all = append(all, &results{map[line]*run{}, map[line][]time.Duration{}})
	}
	for round := range rounds + 1 {
		for _, name := range []string{"widget", "configmap"} {
			for _, workers := range []int{1, 8} {
				for i, s := range servers {
					r := all[i]
					if round == 0 { // warms both up
						r = &results{map[line]*run{}, map[line][]time.Duration{}}
					}
					measure(b, s, connections[i], name, workers, objects, r)
				}
			}
		}
	}
	last := len(all) - 1
	table(os.Stdout, all[0], all[last])
	for _, s := range servers {
		fmt.Printf("%s: %.0f MiB after %d objects\n", s.name, s.memory(b), (rounds+1)*4*objects)
	}
	slowest, dearest := extremes(all[0], all[last])
	b.ReportMetric(slowest, "min-speedup")
	b.ReportMetric(dearest, "max-cpu-ratio")
}

func number(b testing.TB, env string, fallback int) int {
	text := os.Getenv(env)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("%s=%s: want a number above 0", env, text)
	}
	return n
}

// patience is how long after its write an event may come.
const patience = 10 * time.Second

// measure does all verbs once for each object.
func measure(b testing.TB, s *server, c *connection, name string, workers, objects int, r *results) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	k := kinds[name](c)
	w, err := k.watch(ctx)
	if err != nil {
		b.Fatal(err)
	}
	l := listen(b, w)
	for n, verb := range verbs {
		ops := objects
		if verb == "list" {
			ops = max(objects/10, workers)
		}
		op := operation(k, c, l, verb, n)
		cpu, begin := s.cpu(b), time.Now()
		if err := parallel(ctx, workers, ops, op); err != nil {
			b.Fatalf("%s: %s %s: %v", s.name, verb, name, err)
		}
		wall := time.Since(begin)
		late := time.AfterFunc(patience, w.Stop)
		if n := l.drain(); n > 0 {
			b.Fatalf("%s: %s %s: %d events have not come", s.name, verb, name, n)
		}
		late.Stop()
		at := line{name, workers, verb}
		if r.runs[at] == nil {
			r.runs[at] = &run{}
		}
		r.runs[at].ops += ops
		r.runs[at].wall += wall
		r.runs[at].cpu += s.cpu(b) - cpu
	}
	w.Stop()
	<-l.finished
	at := line{name, workers, "watch"}
	r.latency[at] = append(r.latency[at], l.latency...)
}

// operation is a verb on the I-th object.
func operation(k kind, c *connection, l *listener, verb string, n int) func(ctx context.Context, i int) error {
	name := func(i int) string { return fmt.Sprintf("object-%d", i) }
	return map[string]func(context.Context, int) error{
		"create": func(ctx context.Context, i int) error {
			l.sending(name(i))
			return k.create(ctx, name(i))
		},
		"get":  func(ctx context.Context, i int) error { return k.get(ctx, name(i)) },
		"list": func(ctx context.Context, _ int) error { return c.read(ctx, k.list()) },
		"update": func(ctx context.Context, i int) error {
			l.sending(name(i))
			return k.update(ctx, name(i), n+1)
		},
		"patch":  func(ctx context.Context, i int) error { return k.patch(ctx, name(i), n) },
		"apply":  func(ctx context.Context, i int) error { return k.apply(ctx, name(i), n) },
		"delete": func(ctx context.Context, i int) error { return k.delete(ctx, name(i)) },
	}[verb]
}

// parallel has WORKERS do op for 0 to ops-1.
func parallel(ctx context.Context, workers, ops int, op func(context.Context, int) error) error {
	var next atomic.Int64
	var failure error
	var once sync.Once
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= ops {
					return
				}
				if err := op(ctx, i); err != nil {
					once.Do(func() { failure = err })
					return
				}
			}
		})
	}
	wg.Wait()
	return failure
}

func table(out io.Writer, real, ours *results) {
	fmt.Fprintf(out, "\n%-10s %7s %-7s %12s %8s %6s %17s %8s %6s\n", "kind", "workers", "verb", "ops/s: real", "ours", "ratio", "CPU µs/op: real", "ours", "ratio")
	each(func(at line) {
		if at.verb == "watch" {
			a, b := real.latency[at], ours.latency[at]
			fmt.Fprintf(out, "%-10s %7d watch   latency in ms, p50: real %.2f, ours %.2f; p99: real %.2f, ours %.2f\n", at.kind, at.workers,
				percentile(a, 50), percentile(b, 50), percentile(a, 99), percentile(b, 99))
			return
		}
		a, b := real.runs[at], ours.runs[at]
		fmt.Fprintf(out, "%-10s %7d %-7s %12.0f %8.0f %6.1f %17.0f %8.0f %6.2f\n", at.kind, at.workers, at.verb,
			a.perSecond(), b.perSecond(), b.perSecond()/a.perSecond(), a.cpuPerOp(), b.cpuPerOp(), b.cpuPerOp()/a.cpuPerOp())
	})
	fmt.Fprintln(out)
}

// each calls fn for the lines of the table, in order.
func each(fn func(line)) {
	for _, kind := range []string{"widget", "configmap"} {
		for _, workers := range []int{1, 8} {
			for _, verb := range append(slices.Clone(verbs), "watch") {
				fn(line{kind, workers, verb})
			}
		}
	}
}

// extremes are the least ratio of operations per second and the greatest of CPU time.
func extremes(real, ours *results) (slowest, dearest float64) {
	slowest = 1e9
	each(func(at line) {
		if at.verb != "watch" {
			slowest = min(slowest, ours.runs[at].perSecond()/real.runs[at].perSecond())
			dearest = max(dearest, ours.runs[at].cpuPerOp()/real.runs[at].cpuPerOp())
		}
	})
	return slowest, dearest
}

// percentile is in milliseconds.
func percentile(all []time.Duration, p int) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return float64(all[min(len(all)*p/100, len(all)-1)].Microseconds()) / 1000
}

package html

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/opreplay/opreplay/traces"
)

// buckets is how finely the page cuts a run into times.
const buckets = 60

// quantiles are API latencies over time, in milliseconds: empirical quantiles (stat.Empirical, the inverse of the
// distribution function) of the calls that ended in each bucket.
type quantiles struct {
	Time []float64 `json:"t"` // the bucket's begin, milliseconds since the page's start
	P50  []float64 `json:"p50"`
	P90  []float64 `json:"p90"`
	P99  []float64 `json:"p99"`
	N    []int     `json:"n"`
}

// width is the length of a bucket in nanoseconds.
func (g *gathered) width() int64 { return max(1, (g.last-g.first)/buckets+1) }

func (g *gathered) quantiles() *quantiles {
	if len(g.latencies) == 0 {
		return nil
	}
	in := map[int64][]float64{}
	for _, l := range g.latencies {
		b := (l.end - g.first) / g.width()
		in[b] = append(in[b], millis(l.took))
	}
	q := &quantiles{}
	for _, b := range slices.Sorted(maps.Keys(in)) {
		x := in[b]
		slices.Sort(x)
		at := func(p float64) float64 { return stat.Quantile(p, stat.Empirical, x, nil) }
		q.Time, q.N = append(q.Time, millis(b*g.width())), append(q.N, len(x))
		q.P50, q.P90, q.P99 = append(q.P50, at(0.5)), append(q.P90, at(0.9)), append(q.P99, at(0.99))
	}
	return q
}

// histogram counts reconciles by how long they took: bounds 1, 2, 5, 10, … microseconds.
type histogram struct {
	Bounds      []float64 `json:"bounds"` // upper ones, milliseconds
	Controllers []string  `json:"controllers"`
	Counts      [][]int   `json:"counts"` // a controller each
}

func (g *gathered) histogram() *histogram {
	if len(g.passes) == 0 {
		return nil
	}
	by, low, high := map[string]map[int]int{}, math.MaxInt, math.MinInt
	for _, p := range g.passes {
		b := boundOf(millis(p.end - p.start))
		low, high = min(low, b), max(high, b)
		if by[p.lane.controller] == nil {
			by[p.lane.controller] = map[int]int{}
		}
		by[p.lane.controller][b]++
	}
	h := &histogram{Controllers: slices.Sorted(maps.Keys(by))}
	for b := low; b <= high; b++ {
		h.Bounds = append(h.Bounds, bound(b))
	}
	for _, c := range h.Controllers {
		counts := make([]int, len(h.Bounds))
		for b, n := range by[c] {
			counts[b-low] = n
		}
		h.Counts = append(h.Counts, counts)
	}
	return h
}

// bound is the i-th of 0.001, 0.002, 0.005, 0.01, … milliseconds.
func bound(i int) float64 {
	return []float64{1, 2, 5}[i%3] * math.Pow10(i/3-3)
}

func boundOf(ms float64) int {
	i := 0
	for bound(i) < ms {
		i++
	}
	return i
}

// heat counts kernel events by what they were, over time.
type heat struct {
	Rows  []string   `json:"rows"`
	Width float64    `json:"width"` // of a cell, milliseconds
	Cells [][3]int64 `json:"cells"` // column, row, count
}

func (g *gathered) heat() *heat {
	if len(g.kernel) == 0 {
		return nil
	}
	counts := map[string]map[int64]int64{}
	for _, e := range g.kernel {
		what := e.what.Value()
		if counts[what] == nil {
			counts[what] = map[int64]int64{}
		}
		counts[what][(e.ts-g.first)/g.width()] += e.count
	}
	h := &heat{Rows: slices.Sorted(maps.Keys(counts)), Width: millis(g.width())}
	for y, row := range h.Rows {
		for _, x := range slices.Sorted(maps.Keys(counts[row])) {
			h.Cells = append(h.Cells, [3]int64{x, int64(y), counts[row][x]})
		}
	}
	return h
}

// kernelRow names what kind of kernel event it was, and with whom.
func kernelRow(x *traces.KernelEvent) string {
	return strings.TrimSpace(x.Kind + " " + address(&traces.KernelEvent{Address: x.Address, Port: x.Port}))
}

// keyed sums up the reconciles of one key.
type keyed struct {
	Key           string
	Object        string // namespace/name
	N, Failed     int
	Median, Worst float64 // seconds
	Total         float64 // seconds
	took          []float64
}

// byKey are the keys that took longest, and how many more there are.
func (g *gathered) byKey(most int) ([]*keyed, int) {
	by := map[string]*keyed{}
	for _, p := range g.passes {
		k := by[p.lane.name]
		if k == nil {
			k = &keyed{Key: strings.TrimPrefix(p.lane.name, "reconcile "), Object: strings.TrimPrefix(strings.Join(p.lane.key[:], "/"), "/")}
			by[p.lane.name] = k
		}
		took := float64(p.end-p.start) / 1e9
		k.N, k.Total, k.took = k.N+1, k.Total+took, append(k.took, took)
		if p.failed {
			k.Failed++
		}
	}
	list := make([]*keyed, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		k := by[name]
		slices.Sort(k.took)
		k.Median, k.Worst = stat.Quantile(0.5, stat.Empirical, k.took, nil), k.took[len(k.took)-1]
		list = append(list, k)
	}
	slices.SortStableFunc(list, func(a, b *keyed) int { return -cmp.Compare(a.Total, b.Total) })
	return list[:min(most, len(list))], max(0, len(list)-most)
}

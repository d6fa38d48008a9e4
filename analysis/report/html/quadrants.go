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
	if len(g.reconciles) == 0 {
		return nil
	}
	by, low, high := map[string]map[int]int{}, math.MaxInt, math.MinInt
	for i := range g.reconciles {
		r := &g.reconciles[i]
		b := boundOf(millis(r.TS - r.Start))
		low, high = min(low, b), max(high, b)
		if by[r.Controller] == nil {
			by[r.Controller] = map[int]int{}
		}
		by[r.Controller][b]++
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
	for i := range g.kernel {
		e := &g.kernel[i]
		row := strings.TrimSpace(e.Kind + " " + address(&traces.KernelEvent{Address: e.Address, Port: e.Port}))
		if counts[row] == nil {
			counts[row] = map[int64]int64{}
		}
		counts[row][(e.TS-g.first)/g.width()] += max(1, e.Count)
	}
	h := &heat{Rows: slices.Sorted(maps.Keys(counts)), Width: millis(g.width())}
	for y, row := range h.Rows {
		for _, x := range slices.Sorted(maps.Keys(counts[row])) {
			h.Cells = append(h.Cells, [3]int64{x, int64(y), counts[row][x]})
		}
	}
	return h
}

// passes sums up the reconciles of one key.
type passes struct {
	Key           string
	N, Failed     int
	Median, Worst float64 // seconds
	Total         float64 // seconds
	took          []float64
}

// byKey are the keys that took longest, and how many more there are.
func (g *gathered) byKey(most int) ([]*passes, int) {
	by := map[string]*passes{}
	for i := range g.reconciles {
		r := &g.reconciles[i]
		k := key(r)
		if by[k] == nil {
			by[k] = &passes{Key: k}
		}
		p, took := by[k], float64(r.TS-r.Start)/1e9
		p.N, p.Total, p.took = p.N+1, p.Total+took, append(p.took, took)
		if outcome(r) == kindReconcileError {
			p.Failed++
		}
	}
	list := make([]*passes, 0, len(by))
	for _, k := range slices.Sorted(maps.Keys(by)) {
		p := by[k]
		slices.Sort(p.took)
		p.Median, p.Worst = stat.Quantile(0.5, stat.Empirical, p.took, nil), p.took[len(p.took)-1]
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b *passes) int { return -cmp.Compare(a.Total, b.Total) })
	return list[:min(most, len(list))], max(0, len(list)-most)
}

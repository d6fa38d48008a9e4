package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/opreplay/opreplay/analysis/stats"
)

// spin is a row of passes of one key that had no event before them and made no write.
type spin struct {
	run         int64
	pass        string // reconcileID of the last one, where the log shows passes
	start, last moment
	longest     int64
	from, to    int64 // of the longest
	places      places
	worst       places
}

func (s *spin) passed(at moment) {
	if s.run++; s.run == 1 {
		s.start = at
	}
	s.last = at
	s.places.add(at.seq, at.ts, "pass", 0, 0)
	if s.run > s.longest {
		s.longest, s.from, s.to, s.worst = s.run, s.start.ts, at.ts, s.places
	}
}

// broken says that something happened that a pass may be about.
func (s *spin) broken() {
	if s.run > 0 {
		s.run, s.places = 0, places{}
	}
}

// spins is whether the key is passed over and over for nothing.
func (d *RetryStorm) spins(r *retries) bool {
	s := &r.spin
	if s.longest < d.MinPasses {
		return false
	}
	_, low, _ := stats.Rate(s.longest-1, float64(s.to-s.from)/1e9)
	return low >= d.MinPassRate
}

// spinning makes one finding for each process and controller.
func (d *RetryStorm) spinning(m *Model, all []*retries) []Finding {
	groups := map[string][]*retries{}
	for _, r := range all {
		key := r.process + "\x00" + r.about.controller
		groups[key] = append(groups[key], r)
	}
	var out []Finding
	for _, key := range sortedKeys(groups) {
		group := groups[key]
		slices.SortFunc(group, func(a, b *retries) int {
			return cmp.Or(cmp.Compare(b.spin.longest, a.spin.longest), cmp.Compare(a.about.key(), b.about.key()))
		})
		r := group[0]
		s := &r.spin
		f := Finding{
			Severity: Error, Certainty: Sure, Process: r.process, First: at(s.from), Last: at(s.to), Evidence: s.worst.evidence(), told: s.worst.nth(d.MinPasses),
			Statistics: []Statistic{rate("passes", s.longest-1, float64(s.to-s.from)/1e9)},
		}
		var n int64
		var perSecond float64
		f.Objects, f.Total, n, perSecond = retried(m, group)
		f.Effect = Effect{Value: perSecond, Unit: "passes/s in vain", Weight: float64(n) / float64(d.MinPasses)}
		f.What = fmt.Sprintf("%s reconciles %s over and over: %d passes in %s with neither an event before them nor a write in them",
			r.process, r.about.key(), s.longest, seconds(s.to-s.from))
		f.Cause = "each pass queues the key again with a delay that is zero, negative or far too short, and finds the same state again"
		out = append(out, f)
	}
	return out
}

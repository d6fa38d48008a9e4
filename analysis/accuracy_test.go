package analysis

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/opreplay/opreplay/traces"
)

// How often detectors are right, over all labelled traces: those of the zoo (recorded, and replayed under the plans of
// their cases, faulty and mended twins), and scenes for detectors without an operator; each as it is and in variants with
// other times, another order where either may be, other versions, and other controllers at work beside it (vary).
//
// make accuracy prints the tables.

// variants is how many of each trace there are beside itself.
const variants = 20

// label is a finding that must be there.
type label struct {
	Detector string `json:"detector"`
	// Object must be among the finding's objects, Field be its field; "" is any.
	Object string `json:"object"`
	Field  string `json:"field"`
}

// labelled is a trace with what must be found in it, and nothing else.
type labelled struct {
	name     string
	rows     []traces.Record
	manifest *traces.Manifest
	want     []label
	subject  string // detector whose notes count, "" for none
	notes    bool   // there must be some
	says     string // what is in one of them
}

// corpus is every labelled trace.
func corpus(t *testing.T) []labelled {
	var all []labelled
	for _, s := range scenes() {
		m := &traces.Manifest{Source: "run", Resources: kinds}
		all = append(all, labelled{s.name, rowsOf(t, &s, s.faulty), m, s.want, s.subject, s.notes, ""})
		for i, healthy := range s.healthy {
			all = append(all, labelled{fmt.Sprintf("%s (well %d)", s.name, i+1), rowsOf(t, &s, healthy), m, nil, s.subject, false, ""})
		}
	}
	return append(all, recorded(t)...)
}

// recorded are the traces that labels.yaml names.
func recorded(t *testing.T) []labelled {
	dir := filepath.Join("..", "traces", "labelled")
	text, err := os.ReadFile(filepath.Join(dir, "labels.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Traces []struct {
			Trace    string  `json:"trace"`
			Findings []label `json:"findings"`
			Note     string  `json:"note"`   // detector of which there must be a note
			Says     string  `json:"says"`   // what must be in the note
			NoNote   string  `json:"noNote"` // detector of which there must be none
		} `json:"traces"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []labelled
	for _, x := range file.Traces {
		trace, err := traces.Open(filepath.Join(dir, x.Trace))
		if err != nil {
			t.Fatal(err)
		}
		l := labelled{name: x.Trace, manifest: trace.Manifest(), want: x.Findings, subject: cmp.Or(x.Note, x.NoNote), notes: x.Note != "", says: x.Says}
		for row, err := range trace.Records(t.Context(), traces.Range{Tables: listen(All()).tables()}) {
			if err != nil {
				t.Fatal(err)
			}
			l.rows = append(l.rows, copyOf(row))
		}
		if err := trace.Close(); err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// LabelledRuns are the findings that the runs of faulty twins are labelled with, as TRACE/DETECTOR.
func LabelledRuns(t *testing.T) (out []string) {
	for _, l := range recorded(t) {
		for _, w := range l.want {
			if strings.HasSuffix(l.name, "-faulty.optrace") {
				out = append(out, l.name+"/"+w.Detector)
			}
		}
	}
	return out
}

// score counts, by detector.
type score struct{ hit, missed, wrong map[string]int }

func newScore() *score {
	return &score{map[string]int{}, map[string]int{}, map[string]int{}}
}

func (s *score) recall(d string) float64    { return ratio(s.hit[d], s.hit[d]+s.missed[d]) }
func (s *score) precision(d string) float64 { return ratio(s.hit[d], s.hit[d]+s.wrong[d]) }

func (s *score) totals() (precision, recall float64) {
	var hit, missed, wrong int
	for _, d := range Names() {
		hit, missed, wrong = hit+s.hit[d], missed+s.missed[d], wrong+s.wrong[d]
	}
	return ratio(hit, hit+wrong), ratio(hit, hit+missed)
}

func ratio(k, n int) float64 {
	if n == 0 {
		return 1
	}
	return float64(k) / float64(n)
}

// judge holds what was found against what should be, and returns what is wrong in words.
func (s *score) judge(l *labelled, r *Result) (problems []string) {
	taken := make([]bool, len(r.Findings))
	for _, w := range l.want {
		i := slices.IndexFunc(r.Findings, w.is)
		if i < 0 {
			s.missed[w.Detector]++
			problems = append(problems, fmt.Sprintf("no %s of %s %s", w.Detector, w.Object, w.Field))
			continue
		}
		taken[i] = true
		s.hit[w.Detector]++
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; !taken[i] {
			s.wrong[f.Detector]++
			problems = append(problems, fmt.Sprintf("%s, which is not there: %s", f.Detector, f.What))
		}
	}
	if l.subject != "" && isNoter(l.subject) {
		has := slices.ContainsFunc(r.Notes, func(n Note) bool {
			return n.Detector == l.subject && n.Process != neighbour && strings.Contains(n.What, l.says)
		})
		switch {
		case l.notes && has:
			s.hit[l.subject]++
		case l.notes:
			s.missed[l.subject]++
			problems = append(problems, "no note of "+l.subject)
		case has:
			s.wrong[l.subject]++
			problems = append(problems, "a note of "+l.subject)
		}
	}
	return problems
}

func (l label) is(f Finding) bool {
	return f.Detector == l.Detector && (l.Field == "" || f.Field == l.Field) &&
		(l.Object == "" || slices.ContainsFunc(f.Objects, func(o Object) bool { return o.String() == l.Object }))
}

// isNoter is whether a detector has notes only.
func isNoter(detector string) bool {
	return slices.Contains([]string{"useless-reconciles", "queue-wait", "rbac", "metrics"}, detector)
}

func analyzed(t *testing.T, l *labelled, rows []traces.Record) *Result {
	t.Helper()
	r, err := Records(context.Background(), each(rows), l.manifest, l.name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAccuracy(t *testing.T) {
	all := corpus(t)
	plain, noisy := newScore(), newScore()
	confusion := map[string]map[string]int{}
	delays, told := map[string][]float64{}, map[string][]float64{}
	for i := range all {
		l := &all[i]
		r := analyzed(t, l, l.rows)
		for _, p := range plain.judge(l, r) {
			t.Errorf("%s: %s", l.name, p)
		}
		for _, w := range l.want {
			d, said, ok := timeToDetection(t, l, w, r)
			if !ok {
				continue
			}
			delays[w.Detector], told[w.Detector] = append(delays[w.Detector], d), append(told[w.Detector], said)
		}
		var wrong []string
		for seed := range uint64(variants) {
			r := analyzed(t, l, vary(l.rows, seed+uint64(i)<<8))
			for _, p := range noisy.judge(l, r) {
				wrong = append(wrong, fmt.Sprintf("%s, variant %d: %s", l.name, seed, p))
			}
			confuse(confusion, l, r)
		}
		if len(wrong) > 0 {
			t.Logf("%s, and %d more like it", wrong[0], len(wrong)-1)
		}
	}
	t.Log(table(plain, noisy, delays, told))
	t.Log(matrix(confusion))
	if p, r := plain.totals(); p < 1 || r < 1 {
		t.Errorf("precision %.3f, recall %.3f over the traces as they are, want 1", p, r)
	}
	const floor = 0.95
	for _, d := range Names() {
		if p, r := noisy.precision(d), noisy.recall(d); p < floor || r < floor {
			t.Errorf("%s: precision %.3f, recall %.3f over the variants, want %.2f", d, p, r, floor)
		}
		if plain.hit[d]+plain.missed[d] == 0 {
			t.Errorf("no labelled trace has a fault for %s", d)
		}
	}
}

// Rows that are known to be lost make findings less certain, and make none: of each trace some rows of its watches are
// dropped, and the manifest says when, as a recorder that was cut off from its cluster does.
func TestDroppedRowsInventNothing(t *testing.T) {
	const copies = 4
	for i, l := range corpus(t) {
		for seed := range uint64(copies) {
			rows, losses := dropped(l.rows, seed+uint64(i)<<8)
			cut := l
			manifest := *l.manifest
			manifest.Losses = losses
			cut.manifest = &manifest
			r := analyzed(t, &cut, rows)
			for i := range r.Findings {
				f := &r.Findings[i]
				if !slices.ContainsFunc(l.want, func(w label) bool { return w.Detector == f.Detector }) {
					t.Errorf("%s, copy %d: %s (%s), which is not there: %s; %s", l.name, seed, f.Detector, f.Certainty, f.What, f.Cause)
				}
			}
		}
	}
}

// dropped is the rows without one in twenty of those that watches brought, and the losses that say so: when the row
// before came, and when the next.
func dropped(rows []traces.Record, seed uint64) (out []traces.Record, losses []traces.Loss) {
	r := rand.New(rand.NewPCG(seed, 5))
	last := rows[0].Header().TS
	open := false
	for _, row := range rows {
		ts := row.Header().TS
		if w, ok := row.(*traces.WatchEvent); ok && r.IntN(20) == 0 {
			if open {
				losses[len(losses)-1].Count++
			} else {
				losses = append(losses, traces.Loss{Source: "watch/" + w.Process, From: at(last), Count: 1})
			}
			open = true
			continue
		}
		if open {
			losses[len(losses)-1].To = at(ts)
		}
		open, last = false, ts
		out = append(out, copyOf(row))
	}
	if open {
		losses[len(losses)-1].To = at(last)
	}
	return out, losses
}

// timeToDetection is for how long the fault must have gone on, in seconds, for the trace that ends there to show it. said
// is what the finding itself states, which must be right to a second or a fourth: a trace that ends so much earlier
// doesn't have it, and one that ends so much later does.
func timeToDetection(t *testing.T, l *labelled, w label, r *Result) (shown, said float64, ok bool) {
	i := slices.IndexFunc(r.Findings, w.is)
	if i < 0 {
		return 0, 0, false
	}
	w.Object = "" // of many objects of one finding, whichever shows it first
	shows := func(rows int) bool {
		return slices.ContainsFunc(analyzed(t, l, l.rows[:rows]).Findings, w.is)
	}
	low, high := 0, len(l.rows) // the first prefix that shows it, taking it that longer ones do
	for low < high {
		if mid := (low + high) / 2; shows(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	first := r.Findings[i].First.UnixNano()
	said = r.Findings[i].DetectedAfterSeconds
	slack := max(1, 0.25*said)
	before := func(seconds float64) int { // how many rows came by then
		n := 0
		for n < len(l.rows) && l.rows[n].Header().TS < first+int64(seconds*1e9) {
			n++
		}
		return n
	}
	if n := before(said - slack); said > slack && shows(n) {
		t.Errorf("%s: %s says that it could be told after %.2f s, and a trace that ends %.2f s earlier has it", l.name, w.Detector, said, slack)
	}
	if n := max(before(said+slack), min(before(said)+1, len(l.rows))); !shows(n) {
		t.Errorf("%s: %s says that it could be told after %.2f s, and a trace that ends %.2f s later doesn't have it", l.name, w.Detector, said, slack)
	}
	return max(0, float64(l.rows[low-1].Header().TS-first)/1e9), said, true
}

// confuse counts which detectors spoke of traces that are labelled with what.
func confuse(table map[string]map[string]int, l *labelled, r *Result) {
	is := "well"
	switch {
	case len(l.want) > 0:
		var names []string
		for _, w := range l.want {
			names = append(names, w.Detector)
		}
		is = strings.Join(slices.Compact(names), " + ")
	case l.notes:
		is = l.subject
	}
	if table[is] == nil {
		table[is] = map[string]int{}
	}
	table[is][""]++
	spoke := map[string]bool{}
	for i := range r.Findings {
		spoke[r.Findings[i].Detector] = true
	}
	for _, n := range r.Notes {
		if n.Detector == l.subject && isNoter(l.subject) && n.Process != neighbour {
			spoke[n.Detector] = true
		}
	}
	for d := range spoke {
		table[is][d]++
	}
}

func table(plain, noisy *score, delays, told map[string][]float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-20s  %29s  %29s  %s\n", "", "as they are", fmt.Sprintf("%d variants of each", variants), "median time to detection")
	fmt.Fprintf(&b, "%-20s  %5s %7s %7s %7s  %5s %7s %7s %7s  %10s %10s\n", "DETECTOR", "FAULTS", "FOUND", "WRONG", "", "FAULTS", "RECALL", "WRONG", "PRECIS.", "MEASURED", "STATED")
	for _, d := range Names() {
		fmt.Fprintf(&b, "%-20s  %5d %7d %7d %7s  %6d %6.1f%% %7d %6.1f%%  %10s %10s\n", d, plain.hit[d]+plain.missed[d], plain.hit[d], plain.wrong[d], "",
			noisy.hit[d]+noisy.missed[d], 100*noisy.recall(d), noisy.wrong[d], 100*noisy.precision(d), middle(delays[d]), middle(told[d]))
	}
	p, r := plain.totals()
	np, nr := noisy.totals()
	fmt.Fprintf(&b, "all: precision %.1f %%, recall %.1f %% as they are; precision %.1f %%, recall %.1f %% over the variants", 100*p, 100*r, 100*np, 100*nr)
	return b.String()
}

// middle is the median of a list of seconds, "" of none.
func middle(list []float64) string {
	if len(list) == 0 {
		return ""
	}
	slices.Sort(list)
	return time.Duration(list[len(list)/2] * 1e9).Round(10 * time.Millisecond).String()
}

// matrix is the confusion table: which detectors spoke of the variants of traces with a label, and of how many.
func matrix(confusion map[string]map[string]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-46s %7s  %s\n", "LABELLED", "TRACES", "SPOKE OF")
	for _, is := range slices.Sorted(maps.Keys(confusion)) {
		var spoke []string
		for _, d := range Names() {
			if n := confusion[is][d]; n > 0 {
				spoke = append(spoke, fmt.Sprintf("%s %d", d, n))
			}
		}
		fmt.Fprintf(&b, "%-46s %7d  %s\n", is, confusion[is][""], strings.Join(spoke, ", "))
	}
	return b.String()
}

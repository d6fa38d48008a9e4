package html

import (
	"cmp"
	"html/template"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/report"
	"github.com/opreplay/opreplay/traces"
)

// maxKeys is how many keys the page's table of reconciles has.
const maxKeys = 100

// page is what the page's template prints.
type page struct {
	Policy string
	CSS    template.CSS
	Live   bool
	Title  string
	verdict
	Runs []*run
	// Ranked are the findings of all runs, where there are several.
	Ranked []*finding
}

// verdict counts findings.
type verdict struct {
	N, Errors, Others int
	// Causes is how many different causes they have.
	Causes int
}

// run is what the page tells of one trace.
type run struct {
	Index int
	// Prefix makes the run's names of places in the page its own.
	Prefix string
	// Alone is whether the page has no other, Level that of its headings.
	Alone bool
	Level int
	Title string
	verdict
	Facts    []fact
	Caveats  []string
	Findings []*finding
	Notes    []analysis.Note
	Left     left
	Unknown  int // versions of which the page doesn't say what they changed
	Still    int
	Beside   *beside
	Latency  bool
	Duration bool
	Kernel   bool
	Flame    bool
	Keys     []*keyed
	MoreKeys int
}

type fact struct{ Name, Value string }

// finding is one with what only the trace has.
type finding struct {
	analysis.Finding
	Run     *run
	When    string
	Long    string
	More    int64 // evidence that is not shown
	Flame   bool
	Rhythm  bool
	Frames  []traces.Frame
	MoreObj int64
}

// findingData is what the script draws for a finding.
type findingData struct {
	ID       string                   `json:"id"`
	Lanes    []string                 `json:"lanes"`
	From     float64                  `json:"from"`
	To       float64                  `json:"to"`
	Marks    []int64                  `json:"marks"`
	Survival []analysis.SurvivalPoint `json:"survival,omitempty"`
	Rhythm   *rhythm                  `json:"rhythm,omitempty"`
	Backoff  *analysis.Backoff        `json:"backoff,omitempty"`
	Changes  []rateChange             `json:"changes,omitempty"`
	Flame    *flame                   `json:"flame,omitempty"`
	Path     []analysis.Step          `json:"path,omitempty"`
}

// rhythm is the curve that a finding's period shows in.
type rhythm struct {
	Seconds  []float64 `json:"seconds"` // periods, or lags
	Strength []float64 `json:"strength"`
	Lags     bool      `json:"lags"`
	Line     float64   `json:"line"` // what chance exceeds once in a hundred times
	Period   float64   `json:"period"`
}

// rateChange is a moment from which on a finding's places came at another rate.
type rateChange struct {
	At   float64 `json:"at"` // milliseconds since the timeline's start
	What string  `json:"what"`
}

const moments = "2006-01-02 15:04:05.000 UTC"

// add puts a run onto the page.
func (p *page) add(title string, g *gathered, r *analysis.Result, d *runData, alone bool) {
	x := &run{
		Index: len(p.Runs), Alone: alone, Level: 2, Title: title,
		Facts: g.facts(r), Caveats: r.Caveats, Notes: r.Notes,
		Left: g.left, Unknown: g.versions.left, Still: g.still, Beside: d.Beside,
		Latency: d.Latency != nil, Duration: d.Duration != nil, Kernel: d.Kernel != nil, Flame: d.Flame != nil,
	}
	if !alone {
		x.Prefix, x.Level = "trace-"+strconv.Itoa(x.Index+1)+"-", 3
	}
	x.Keys, x.MoreKeys = g.byKey(maxKeys)
	causes := map[string]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		causes[f.Group] = true
		x.N++
		if f.Severity == analysis.Error {
			x.Errors++
		} else {
			x.Others++
		}
		fd := g.findingData(f)
		d.Findings = append(d.Findings, fd)
		x.Findings = append(x.Findings, &finding{
			Finding: *f, Run: x, When: f.First.Format(moments), Long: report.Seconds(f.Last.Sub(f.First).Seconds()),
			More: f.Evidence.Total - int64(len(f.Evidence.Items)), MoreObj: f.Total - int64(len(f.Objects)),
			Flame: fd.Flame != nil, Rhythm: fd.Rhythm != nil, Frames: g.stacks[f.Stack],
		})
	}
	x.Causes = len(causes)
	p.N, p.Errors, p.Others, p.Causes = p.N+x.N, p.Errors+x.Errors, p.Others+x.Others, p.Causes+x.Causes
	p.Runs = append(p.Runs, x)
}

// rank puts the findings of all runs in one order, as an analysis has its own: those of one cause stay together, the cause
// first, and stand where their worst would, by severity and then by how large they are.
func (p *page) rank() {
	var groups [][]*finding
	for _, r := range p.Runs {
		for i, f := range r.Findings {
			if i == 0 || f.Group != r.Findings[i-1].Group {
				groups = append(groups, nil)
			}
			last := &groups[len(groups)-1]
			*last = append(*last, f)
		}
	}
	worse := func(a, b *finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(b.Effect.Weight, a.Effect.Weight))
	}
	slices.SortStableFunc(groups, func(a, b []*finding) int {
		return worse(slices.MinFunc(a, worse), slices.MinFunc(b, worse))
	})
	p.Ranked = slices.Concat(groups...)
}

// titles name traces by the ends of their paths, as long as it takes to tell them apart.
func titles(runs []Run) []string {
	list := make([]string, len(runs))
	for parts := 1; ; parts++ {
		n, grown := map[string]int{}, false
		for i, r := range runs {
			all := strings.Split(filepath.ToSlash(filepath.Clean(r.Trace.Dir())), "/")
			list[i] = strings.Join(all[max(0, len(all)-parts):], "/")
			grown = grown || parts < len(all)
			n[list[i]]++
		}
		if len(n) == len(runs) || !grown { // or one trace comes twice
			return list
		}
	}
}

func (g *gathered) facts(r *analysis.Result) []fact {
	m := g.trace.Manifest()
	f := []fact{
		{"made by", m.Tool + ", " + m.Source},
		{"from", time.Unix(0, g.first).UTC().Format(moments)},
		{"for", report.Seconds(time.Duration(g.last - g.first).Seconds())},
		{"records", report.Thousands(m.Rows())},
		{"cluster", m.Cluster.Version},
	}
	for _, o := range m.Operators {
		f = append(f, fact{"operator", o.Process})
	}
	if m.Run != nil {
		f = append(f, fact{"plan", m.Run.Plan})
		if !m.Run.Deterministic {
			f = append(f, fact{"not deterministic", m.Run.Reason})
		}
	}
	for _, l := range m.Losses {
		f = append(f, fact{"lost", l.Source + ": " + l.Reason})
	}
	return slices.DeleteFunc(append(f, fact{"detectors", report.Thousands(int64(len(r.Looked.Detectors)))}), func(f fact) bool { return f.Value == "" })
}

// findingData has the time of a finding with a tenth more on each side.
func (g *gathered) findingData(f *analysis.Finding) findingData {
	from, to := f.First.UnixNano()-g.first, f.Last.UnixNano()-g.first
	margin := max((to-from)/10, int64(200*time.Millisecond))
	d := findingData{ID: f.ID, Lanes: lanesOf(f), From: millis(max(0, from-margin)), To: millis(to + margin), Survival: f.Survival, Path: f.Path}
	for _, e := range f.Evidence.Items {
		d.Marks = append(d.Marks, e.Seq)
	}
	if p := f.Evidence.Period; p != nil {
		if c := p.Curve(); len(c.Seconds) > 0 {
			d.Rhythm = &rhythm{c.Seconds, c.Strength, c.Lags, c.Line, p.Seconds}
		}
	}
	if b := f.Evidence.Backoff; b != nil && len(b.DelaysSeconds) > 1 {
		d.Backoff = b
	}
	for _, c := range f.Evidence.Changes {
		d.Changes = append(d.Changes, rateChange{millis(c.At.UnixNano() - g.first), report.Value(c.Before, "1/s") + " → " + report.Value(c.After, "1/s")})
	}
	if len(g.samples.list) > 0 && len(f.Objects) > 0 {
		d.Flame = g.flame(g.reconcilesOf(f))
	}
	return d
}

// reconcilesOf wants the reconciles whose key is an object of the finding.
func (g *gathered) reconcilesOf(f *analysis.Finding) func(int64) bool {
	keys := map[[2]string]bool{}
	for _, o := range f.Objects {
		keys[[2]string{o.Namespace, o.Name}] = true
	}
	ids := map[int64]bool{}
	for _, p := range g.passes {
		if keys[p.lane.key] {
			ids[p.seq] = true
		}
	}
	return func(id int64) bool { return ids[id] }
}

// chance writes how likely something is by chance.
func chance(p float64) string {
	switch {
	case p < 1e-6:
		return "under 1 in a million by chance"
	case p < 1e-3:
		return "1 in " + report.Thousands(int64(1/p)) + " by chance"
	}
	return report.Value(p, "share") + " by chance"
}

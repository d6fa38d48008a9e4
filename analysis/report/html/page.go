package html

import (
	"html/template"
	"path/filepath"
	"slices"
	"time"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/report"
	"github.com/opreplay/opreplay/traces"
)

// maxKeys is how many keys the page's table of reconciles has.
const maxKeys = 100

// page is what the page's template prints.
type page struct {
	Policy  string
	CSS     template.CSS
	Live    bool
	Title   string
	Facts   []fact
	Caveats []string
	Errors  int
	Others  int
	// Causes is how many different causes the findings have.
	Causes   int
	Findings []finding
	Notes    []analysis.Note
	Lanes    []laneData
	Left     int64
	Folded   int
	Still    int
	Beside   *beside
	Latency  bool
	Duration bool
	Kernel   bool
	Flame    bool
	Keys     []*passes
	MoreKeys int
}

type fact struct{ Name, Value string }

// finding is one with what only the trace has.
type finding struct {
	analysis.Finding
	When    string
	Long    string
	More    int64 // evidence that is not shown
	Flame   bool
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
	Flame    *flame                   `json:"flame,omitempty"`
	Path     []analysis.Step          `json:"path,omitempty"`
}

const moments = "2006-01-02 15:04:05.000 UTC"

func newPage(g *gathered, r *analysis.Result, d *data) *page {
	p := &page{
		Title: filepath.Base(g.trace.Dir()), Facts: g.facts(r), Caveats: r.Caveats, Notes: r.Notes, Lanes: d.Run.Lanes,
		Left: g.left, Still: g.still, Folded: len(g.lanes) - len(g.chosen), Beside: d.Beside,
		Latency: d.Latency != nil, Duration: d.Duration != nil, Kernel: d.Kernel != nil, Flame: d.Flame != nil,
	}
	p.Keys, p.MoreKeys = g.byKey(maxKeys)
	causes := map[string]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		causes[f.Group] = true
		if f.Severity == analysis.Error {
			p.Errors++
		} else {
			p.Others++
		}
		x := g.findingData(f)
		d.Findings = append(d.Findings, x)
		p.Findings = append(p.Findings, finding{
			Finding: *f, When: f.First.Format(moments), Long: report.Seconds(f.Last.Sub(f.First).Seconds()),
			More: f.Evidence.Total - int64(len(f.Evidence.Items)), MoreObj: f.Total - int64(len(f.Objects)),
			Flame: x.Flame != nil, Frames: g.stacks[f.Stack],
		})
	}
	p.Causes = len(causes)
	return p
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
	if len(g.samples) > 0 && len(f.Objects) > 0 {
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
	for i := range g.reconciles {
		x := &g.reconciles[i]
		ids[x.Seq] = keys[[2]string{x.Namespace, x.Name}]
	}
	return func(id int64) bool { return ids[id] }
}

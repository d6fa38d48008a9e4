package html

import (
	_ "embed" // the page's parts
	"fmt"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/opreplay/opreplay/analysis/report"
	"github.com/opreplay/opreplay/traces"
)

// Exploration is what a page shows of an exploration of timings, under way or over.
type Exploration struct {
	Title string
	// Stage says in words what it is doing; Over is whether it does anything.
	Stage string
	Over  bool
	// Planned plans are to be run; Done were, Before of them in earlier sittings.
	Planned, Done, Before int
	// Began is when this sitting began to run plans, Now when this was known, or when the last plan was run.
	Began, Now time.Time
	// Until is when it has to end; zero for when all plans were run.
	Until    time.Time
	Kinds    []ExploredKind
	Findings []ExploredFinding
	Pruned   []string
}

// ExploredKind counts what came of the plans of one kind.
type ExploredKind struct {
	Kind                 string
	Fine, Alarms, Failed int
}

// Run is how many plans of the kind were run.
func (k ExploredKind) Run() int { return k.Fine + k.Alarms + k.Failed }

// ExploredFinding is what plans showed.
type ExploredFinding struct {
	What    string
	Also    []string
	ShownBy string // which plans, in words
	Plan    string
	Small   bool
	Command string
	// Trace is the folder in which a trace of the failing run is looked for, Keep the command that puts it there.
	Trace, Keep string
	Story       string

	HasTrace bool // by the page
}

// Rate is how many plans were run a minute in this sitting; 0 where that is not known yet.
func (e *Exploration) Rate() float64 {
	if took := e.Now.Sub(e.Began).Minutes(); took > 0 && !e.Began.IsZero() {
		return float64(e.Done-e.Before) / took
	}
	return 0
}

// Left is how long it will run plans still, in words; "" where that is not known or it is over.
func (e *Exploration) Left() string {
	rate := e.Rate()
	if e.Over || rate <= 0 || e.Done >= e.Planned {
		return ""
	}
	left := time.Duration(float64(e.Planned-e.Done) / rate * float64(time.Minute))
	if !e.Until.IsZero() {
		left = min(left, e.Until.Sub(e.Now))
	}
	if left <= 0 { // its time is over, and it is no plan that it runs
		return ""
	}
	return report.Seconds(left.Round(time.Second).Seconds())
}

// Alarming is how many plans had alarms.
func (e *Exploration) Alarming() (n int) {
	for _, k := range e.Kinds {
		n += k.Alarms
	}
	return n
}

// Took is how long this sitting has run plans.
func (e *Exploration) Took() string {
	return report.Seconds(e.Now.Sub(e.Began).Round(time.Second).Seconds())
}

//go:embed assets/explore.html
var exploreText string

//go:embed assets/explore.js
var exploreJS string

var exploreTemplate = template.Must(template.New("explore").Funcs(template.FuncMap{
	"add": func(a, b int) int { return a + b }, "count": report.Plural[int], "rate": func(v float64) string { return report.Value(v, "1") },
}).Parse(exploreText))

// write writes the page.
func (e *Exploration) write(w io.Writer) error {
	return exploreTemplate.Execute(w, struct {
		*Exploration
		CSS    template.CSS
		Script template.JS
		Policy string
	}{e, template.CSS(pageCSS), template.JS(exploreJS), "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; script-src " + hashOf(exploreJS)}) //nolint:gosec // ours
}

// LiveExploration serves the page of an exploration, which puts its newest form in its place now and then, and the pages of
// the traces of failing runs, where there are any. It answers to loopback names alone, as Live does.
type LiveExploration struct {
	// Version is another one when anything has changed. It is asked for often, by each page that is open.
	Version func() string
	// Look is how the exploration is now. It is asked for once for each version.
	Look func() (*Exploration, error)

	mu      sync.Mutex
	version string
	last    *Exploration     // of that version; nil before the first
	traces  map[string]*Live // by folder
}

// ServeHTTP implements http.Handler.
func (l *LiveExploration) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !loopback(r.Host) {
		http.Error(w, "this page is for this machine alone", http.StatusForbidden)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	e, version, err := l.now()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	var finding int
	var rest string
	switch n, _ := fmt.Sscanf(r.URL.Path, "/finding-%d/%s", &finding, &rest); {
	case n > 0 && finding >= 1 && finding <= len(e.Findings):
		f := &e.Findings[finding-1]
		if !f.traced() {
			http.NotFound(w, r)
			return
		}
		http.StripPrefix("/finding-"+strconv.Itoa(finding), l.live(f.Trace)).ServeHTTP(w, r)
	case r.URL.Path == "/version":
		_, _ = io.WriteString(w, version)
	case r.URL.Path == "/":
		for i := range e.Findings {
			e.Findings[i].HasTrace = e.Findings[i].traced()
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = e.write(w)
	default:
		http.NotFound(w, r)
	}
}

// now is the exploration as it is now, for its caller to alter, and its version.
func (l *LiveExploration) now() (*Exploration, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	version := l.Version() // before the look, so that what changes meanwhile is looked at the next time
	if l.last == nil || version != l.version {
		e, err := l.Look()
		if err != nil {
			return nil, "", err
		}
		l.last, l.version = e, version
	}
	e := *l.last
	e.Findings = slices.Clone(e.Findings)
	return &e, version, nil
}

// traced is whether there is a whole trace of a run of the finding's plan: one that lies there since another sitting may be
// of another finding, which had this one's number then.
func (f *ExploredFinding) traced() bool {
	if f.Trace == "" {
		return false
	}
	t, err := traces.Open(f.Trace)
	if err != nil {
		return false
	}
	defer t.Close() //nolint:errcheck // only read
	run := t.Manifest().Run
	return f.Plan == "" || run != nil && run.Plan == f.Plan
}

// live serves one trace.
func (l *LiveExploration) live(dir string) *Live {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.traces == nil {
		l.traces = map[string]*Live{}
	}
	if l.traces[dir] == nil {
		l.traces[dir] = &Live{Dir: dir}
	}
	return l.traces[dir]
}

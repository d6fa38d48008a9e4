package analysis

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opreplay/opreplay/traces"
)

// Schema names the form of a Result's JSON. The number rises when a field changes its meaning or goes; new
// fields may come under the same number.
const Schema = "opreplay.analysis/v1"

// Detector looks for one kind of fault. It is handed facts in the order of the trace, keeps what it needs of
// open objects, and says at the end what it found.
type Detector interface {
	// Name is the detector's name in findings, on the command line and in docs/findings.
	Name() string
	// Call is a request that ended, other than a list or a watch. The Call is the detector's to keep, its
	// Body is not.
	Call(*Model, *Call)
	// Change is a new version of an object, with its writer: once per version, in the order of resource
	// versions for one object. The Change and all texts in it are valid during the call only.
	Change(*Model, *Change)
	// Log is a line that a process logged.
	Log(*Model, *traces.Log)
	// Gone is an object that was deleted.
	Gone(*Model, *State)
	// Findings says what was found, in any order. It is called once, at the end.
	Findings(*Model) ([]Finding, []Note)
}

// ignore is embedded by detectors that don't need every fact.
type ignore struct{}

func (ignore) Call(*Model, *Call)      {}
func (ignore) Change(*Model, *Change)  {}
func (ignore) Log(*Model, *traces.Log) {}
func (ignore) Gone(*Model, *State)     {}

// Options choose what Analyze does. The zero value runs every detector with its own thresholds.
type Options struct {
	// Detectors to run; nil means All().
	Detectors []Detector
	// Reproduce is the command that shows the findings again; "" derives it from the manifest.
	Reproduce string
	// Progress, if set, is called every few thousand records with how many were looked at.
	Progress func(records int64)
	// BodyBytes bounds the text of objects' last versions that is kept to compare the next with; 0 means 128 MiB.
	BodyBytes int
}

// All is one of each detector, with the thresholds that are right for most.
func All() []Detector {
	return []Detector{NewSelfLoop(), NewChurn(), NewConflictStorm(), NewLostStatus(), NewFinalizerHang()}
}

// Names are the names of all detectors.
func Names() []string {
	var names []string
	for _, d := range All() {
		names = append(names, d.Name())
	}
	return names
}

// Select is the detectors of those names.
func Select(names []string) ([]Detector, error) {
	var chosen []Detector
	for _, name := range names {
		i := slices.Index(Names(), name)
		if i < 0 {
			return nil, fmt.Errorf("no detector %q; there are %s", name, strings.Join(Names(), ", "))
		}
		chosen = append(chosen, All()[i])
	}
	return chosen, nil
}

// Looked says what an analysis looked at.
type Looked struct {
	Trace     string    `json:"trace,omitempty"`
	Source    string    `json:"source"`
	Records   int64     `json:"records"`
	Watch     int64     `json:"watchEvents"`
	Requests  int64     `json:"requests"`
	Logs      int64     `json:"logs"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Processes []string  `json:"processes"`
	Objects   int64     `json:"objects"` // incarnations seen
	Detectors []string  `json:"detectors"`
}

// Result is what an analysis found.
type Result struct {
	Schema   string    `json:"schema"`
	Looked   Looked    `json:"looked"`
	Findings []Finding `json:"findings"`
	Notes    []Note    `json:"notes"`
	// Caveats say what limits the analysis: known losses, no recorded process, texts given up for want of memory.
	Caveats []string `json:"caveats"`
}

// Analyze reads a trace once, in the order of seq, and reports what the detectors find in it.
func Analyze(ctx context.Context, t *traces.Trace, o Options) (*Result, error) {
	records := t.Records(ctx, traces.Range{Tables: []traces.Table{traces.TableWatch, traces.TableRequests, traces.TableLogs}})
	r, err := Records(ctx, records, t.Manifest(), t.Dir(), o)
	if _, named := errors.AsType[*traces.FormatError](err); err != nil && !named { // which names the file
		return nil, fmt.Errorf("analyze %s: %w", t.Dir(), err)
	}
	return r, err
}

// Records is Analyze over records from anywhere, in the order of seq. The manifest may be nil. The trace's
// name is only for commands that the findings print.
func Records(ctx context.Context, records iter.Seq2[traces.Record, error], manifest *traces.Manifest, name string, o Options) (*Result, error) {
	if manifest == nil {
		manifest = &traces.Manifest{}
	}
	m := newModel()
	m.Simulated, m.losses = manifest.Run != nil, concerning(manifest.Losses)
	if m.detectors = o.Detectors; m.detectors == nil {
		m.detectors = All()
	}
	if o.BodyBytes > 0 {
		m.bodies.limit = o.BodyBytes
	}
	r := &Result{Schema: Schema, Looked: Looked{Trace: name, Source: manifest.Source}}
	for _, d := range m.detectors {
		r.Looked.Detectors = append(r.Looked.Detectors, d.Name())
	}
	for record, err := range records {
		if err != nil {
			return nil, err
		}
		if r.Looked.Records&0xfff == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if o.Progress != nil {
				o.Progress(r.Looked.Records)
			}
		}
		m.observe(record, &r.Looked)
	}
	m.finish()
	r.conclude(m, manifest, name, o)
	return r, nil
}

func (m *Model) observe(record traces.Record, l *Looked) {
	l.Records++
	switch x := record.(type) {
	case *traces.WatchEvent:
		l.Watch++
		m.tick(&x.Head)
		m.watch(x)
	case *traces.Request:
		l.Requests++
		m.tick(&x.Head)
		m.request(x)
	case *traces.Log:
		l.Logs++
		m.tick(&x.Head)
		for _, d := range m.detectors {
			d.Log(m, x)
		}
	}
}

// conclude collects, ranks and groups what was found.
func (r *Result) conclude(m *Model, manifest *traces.Manifest, name string, o Options) {
	r.Looked.From, r.Looked.To, r.Looked.Objects = at(m.FirstTS), at(m.LastTS), m.seen
	for _, p := range m.nth {
		r.Looked.Processes = append(r.Looked.Processes, p.Name)
	}
	slices.Sort(r.Looked.Processes)
	reproduce := o.Reproduce
	if reproduce == "" {
		reproduce = command(manifest, name)
	}
	for _, d := range m.detectors {
		findings, notes := d.Findings(m)
		for i := range findings {
			f := &findings[i]
			f.Detector, f.Reproduce = d.Name(), reproduce
			if m.lossy(f.First, f.Last) {
				f.Certainty = f.Certainty.less()
			}
		}
		for i := range notes {
			notes[i].Detector = d.Name()
		}
		r.Findings = append(r.Findings, findings...)
		r.Notes = append(r.Notes, notes...)
	}
	rank(r.Findings)
	sortNotes(r.Notes)
	r.Caveats = m.caveats()
}

// concerning leaves out the losses of what no detector reads: where processor time went, and from which line of code
// a call came.
func concerning(all []traces.Loss) (some []traces.Loss) {
	for _, l := range all {
		switch table, _, _ := strings.Cut(l.Source, "/"); table {
		case "samples", "stacks", "probes", "reconciles":
		default:
			some = append(some, l)
		}
	}
	return some
}

// lossy is whether the trace is known to lack something in that time.
func (m *Model) lossy(from, to time.Time) bool {
	for _, l := range m.losses {
		if !l.From.After(to) && !l.To.Before(from) {
			return true
		}
	}
	return false
}

func (m *Model) caveats() []string {
	var c []string
	if n := len(m.losses); n > 0 {
		c = append(c, fmt.Sprintf("the trace is known to lack records in %d places; findings in that time are less certain", n))
	}
	if len(m.nth) == 0 {
		c = append(c, "no process was recorded, only what watches showed: who was told what, and refused writes, are not known (oprec run and oprec proxy record them)")
	}
	if m.bodies.given > 0 {
		c = append(c, fmt.Sprintf("%d versions were not compared with the one before, to stay within memory", m.bodies.given))
	}
	if len(m.nth) == maxProcesses {
		c = append(c, fmt.Sprintf("only the first %d processes are told apart", maxProcesses))
	}
	return c
}

// command is the command line that shows a finding of this trace again.
func command(m *traces.Manifest, name string) string {
	operator := "CMD"
	for _, o := range m.Operators {
		if len(o.Command) > 0 {
			operator = quote(o.Command)
			break
		}
	}
	if r := m.Run; r != nil {
		line := "opsim replay " + quote([]string{r.Trace}) + " --operator " + quote([]string{operator})
		if strings.Contains(r.Plan, "\n- ") || strings.Contains(r.Plan, "\n  - ") { // it has faults
			line += " --plan " + quote([]string{name + "/plan.yaml"}) // which a run writes: replay.PlanFile
		}
		if r.Seed != 0 {
			line += " --seed " + strconv.FormatUint(r.Seed, 10)
		}
		return line
	}
	if name == "" || len(m.Operators) == 0 {
		return ""
	}
	return "opsim replay " + quote([]string{name}) + " --operator " + quote([]string{operator})
}

// quote writes words as a POSIX shell reads them.
func quote(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if w != "" && !strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+", r)
		}) {
			out[i] = w
			continue
		}
		out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}

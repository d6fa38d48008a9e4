package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opreplay/opreplay/analysis/causal"
	"github.com/opreplay/opreplay/traces"
)

// Schema names the form of a Result's JSON. The number rises when a field changes its meaning or goes; new
// fields may come under the same number.
const Schema = "opreplay.analysis/v1"

// Options choose what Analyze does. The zero value runs every detector with its own thresholds.
type Options struct {
	// Detectors to run; nil means All().
	Detectors []Detector
	// Reproduce is the command that shows the findings again; "" derives it from the manifest.
	Reproduce string
	// Progress, if set, is called every few thousand records with how many were looked at.
	Progress func(records int64)
	// Seed is what the bootstrap draws with. Analyze makes it of the trace's hash when it is 0.
	Seed uint64
	// BodyBytes bounds the text of objects' last versions that is kept to compare the next with; 0 means 128 MiB.
	BodyBytes int

	// done is told up to which row nothing is used any more.
	done func(seq int64)
}

// Looked says what an analysis looked at.
type Looked struct {
	Trace        string    `json:"trace,omitempty"`
	Source       string    `json:"source"`
	Records      int64     `json:"records"`
	Watch        int64     `json:"watchEvents"`
	Requests     int64     `json:"requests"`
	Logs         int64     `json:"logs"`
	Reconciles   int64     `json:"reconciles"`
	Samples      int64     `json:"samples"`
	KernelEvents int64     `json:"kernelEvents"`
	Metrics      int64     `json:"metrics"`
	From         time.Time `json:"from"`
	To           time.Time `json:"to"`
	Processes    []string  `json:"processes"`
	Objects      int64     `json:"objects"` // incarnations seen
	Detectors    []string  `json:"detectors"`
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
	if o.Detectors == nil {
		o.Detectors = All()
	}
	if o.Seed == 0 {
		o.Seed, _ = strconv.ParseUint(t.SHA256()[:16], 16, 64)
	}
	reuse := &traces.Reuse{Overwrite: overwrite}
	o.done = reuse.Done
	records := t.Records(ctx, traces.Range{Tables: listen(o.Detectors).tables(), Omit: unread, Reuse: reuse})
	r, err := Records(ctx, ahead(ctx, records), t.Manifest(), t.Dir(), o)
	if err == nil && !t.Manifest().Complete {
		r.Caveats = append([]string{"the trace was not closed in order, or is still being recorded: rows may be missing, perhaps all (oprec repair brings back what the journal of a killed recording has)"}, r.Caveats...)
	}
	if err == nil {
		err = r.explain(ctx, t)
	}
	if _, named := errors.AsType[*traces.FormatError](err); err != nil && !named { // which names the file
		return nil, fmt.Errorf("analyze %s: %w", t.Dir(), err)
	}
	return r, err
}

// overwrite is set in tests: what is read of a row that is used up is then wrong.
var overwrite bool

// Records is Analyze over records from anywhere, in the order of seq. The manifest may be nil. The trace's
// name is only for commands that the findings print.
func Records(ctx context.Context, records iter.Seq2[traces.Record, error], manifest *traces.Manifest, name string, o Options) (*Result, error) {
	if manifest == nil {
		manifest = &traces.Manifest{}
	}
	detectors := o.Detectors
	if detectors == nil {
		detectors = All()
	}
	m := newModel(manifest, listen(detectors))
	m.place(detectors)
	m.Seed = o.Seed
	if o.BodyBytes > 0 {
		m.bodies.limit = o.BodyBytes
	}
	r := &Result{Schema: Schema, Looked: Looked{Trace: name, Source: manifest.Source}}
	for _, d := range detectors {
		r.Looked.Detectors = append(r.Looked.Detectors, d.Name())
	}
	for _, d := range m.on.starts {
		d.Start(m)
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
		if o.done != nil && (r.Looked.Records&0xff == 0 || overwrite) {
			o.done(m.used(record.Header().Seq))
		}
	}
	m.finish()
	r.conclude(m, detectors, name, o)
	return r, nil
}

func (m *Model) observe(record traces.Record, l *Looked) {
	l.Records++
	m.tick(record.Header())
	switch x := record.(type) {
	case *traces.WatchEvent:
		l.Watch++
		m.watch(x)
	case *traces.Request:
		l.Requests++
		m.request(x)
	case *traces.Reconcile:
		l.Reconciles++
		m.pass(x)
	case *traces.Log:
		l.Logs++
		for _, d := range m.on.logs {
			d.Log(m, x)
		}
	case *traces.Stack:
		m.stack(x)
	case *traces.Sample:
		l.Samples++
		m.sample(x)
	case *traces.KernelEvent:
		l.KernelEvents++
		for _, d := range m.on.kernel {
			d.Kernel(m, x)
		}
	case *traces.Metric:
		l.Metrics++
		for _, d := range m.on.metrics {
			d.Metric(m, x)
		}
	case *traces.Decision:
		for _, d := range m.on.decisions {
			d.Decision(m, x)
		}
	}
}

// conclude collects, ranks and groups what was found.
func (r *Result) conclude(m *Model, detectors []Detector, name string, o Options) {
	r.Looked.From, r.Looked.To, r.Looked.Objects = at(m.FirstTS), at(m.LastTS), m.seen
	for _, p := range m.nth {
		r.Looked.Processes = append(r.Looked.Processes, p.Name)
	}
	slices.Sort(r.Looked.Processes)
	reproduce := o.Reproduce
	if reproduce == "" {
		reproduce = command(m.Manifest, name)
	}
	for _, d := range detectors {
		losses := concerning(m.Manifest.Losses, d)
		findings, notes := d.Findings(m)
		findings = slices.DeleteFunc(findings, func(f Finding) bool {
			hidden := slices.ContainsFunc(m.Manifest.Losses, func(l traces.Loss) bool { return f.hides(l, m) })
			if hidden {
				notes = append(notes, f.supposed())
			}
			return hidden
		})
		for i := range findings {
			f := &findings[i]
			f.Detector, f.Reproduce = d.Name(), reproduce
			told := cmp.Or(f.told, f.Last.UnixNano())
			f.DetectedAfterSeconds = max(0, float64(min(told, m.LastTS)-f.First.UnixNano())/1e9)
			if own := causal.Own(m.Stack(f.Stack)); own != nil {
				f.locate(causal.Line(own))
			}
			if lossy(losses, f.First, f.Last) {
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
	r.Caveats = m.caveats(detectors)
}

// concerning are the losses of what the detector reads: every one reads the watch events and the requests. From which
// line of code a call came decides nothing.
func concerning(all []traces.Loss, d Detector) (some []traces.Loss) {
	reads := listen([]Detector{d}).tables()
	for _, l := range all {
		table, _, _ := strings.Cut(l.Source, "/")
		switch table {
		case "stacks":
			continue
		case "probes": // that reconciles, and which calls and events belong to them, are known by
			table = string(traces.TableReconciles)
		}
		optional := slices.Contains(traces.Tables(), traces.Table(table))
		if !optional || slices.Contains(reads, traces.Table(table)) {
			some = append(some, l)
		}
	}
	return some
}

// lossy is whether the trace is known to lack something in that time.
func lossy(losses []traces.Loss, from, to time.Time) bool {
	for _, l := range losses {
		if !l.From.After(to) && !l.To.Before(from) {
			return true
		}
	}
	return false
}

func (m *Model) caveats(detectors []Detector) []string {
	var c []string
	concern := map[traces.Loss]bool{}
	for _, d := range detectors {
		for _, l := range concerning(m.Manifest.Losses, d) {
			concern[l] = true
		}
	}
	if n := len(concern); n > 0 {
		c = append(c, fmt.Sprintf("the trace is known to lack records in %s; findings in that time are less certain", plural(int64(n), "place", "places")))
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

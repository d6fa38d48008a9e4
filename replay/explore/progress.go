package explore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// progressName is the file in an exploration's folder that says how far it is.
const progressName = "progress.json"

// Stage is what an exploration is doing.
type Stage string

// The stages.
const (
	Running   Stage = "running"   // plans
	Shrinking Stage = "shrinking" // the plans of what was found
	Done      Stage = "done"
	Stopped   Stage = "stopped" // before its end: the same command goes on
)

// grouping is whether who looks on makes the findings of the rows, whose groups are not settled yet.
func (s Stage) grouping() bool { return s == Running || s == Stopped }

// Progress is how far an exploration is, for those who look on (Look). Times are the wall's.
type Progress struct {
	Stage Stage `json:"stage"`
	// Planned is how many plans there are to run, Before how many of them earlier sittings have run.
	Planned int `json:"planned"`
	Before  int `json:"before"`
	Workers int `json:"workers"`
	// Began is when this sitting began to run plans; Until, where it is not zero, when it has to end them; Ended when it
	// had no more to run.
	Began time.Time `json:"began"`
	Until time.Time `json:"until,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Pruned is how many plans were left out, by reason.
	Pruned map[string]int `json:"pruned,omitempty"`
	// Findings are those that are not to be made of the rows: while plans run, and of what was stopped, that of the unaltered
	// run; else all.
	Findings []Finding `json:"findings"`
}

// Finding is a Group in words.
type Finding struct {
	What string   `json:"what"`
	Also []string `json:"also,omitempty"`
	// Plans is how many plans showed it, Kinds of which kinds they are; none: the unaltered run shows it.
	Plans int    `json:"plans"`
	Kinds []Kind `json:"kinds,omitempty"`
	// Plan is the smallest that shows it, Small whether it cannot be made smaller.
	Plan  string `json:"plan,omitempty"`
	Small bool   `json:"small,omitempty"`
	// File is the plan's file, Command shows it again: both once the plan has been made small.
	File    string `json:"file,omitempty"`
	Command string `json:"command,omitempty"`
	// Story is what happened, in lines.
	Story string `json:"story,omitempty"`
}

// report writes how far it is. Nobody may be looking: a failure is not one of the exploration.
func (c *campaign) report(stage Stage) {
	p := &c.progress
	p.Stage, p.Planned, p.Before, p.Workers, p.Pruned, p.Findings = stage, c.result.Planned, c.result.Before, c.o.Workers, c.result.Pruned, []Finding{}
	for _, g := range c.result.Groups {
		if g.Index < 0 || !p.Stage.grouping() {
			p.Findings = append(p.Findings, g.words())
		}
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return
	}
	// Whoever reads it meanwhile sees the old one or the new one.
	file := filepath.Join(c.o.Out, progressName)
	if os.WriteFile(file+".new", append(text, '\n'), 0o600) == nil {
		_ = os.Rename(file+".new", file)
	}
}

func (g *Group) words() Finding {
	f := Finding{What: g.Alarm.What, Plans: g.Plans, Kinds: g.Kinds, File: g.File, Command: g.Command}
	for _, a := range g.Also {
		f.Also = append(f.Also, a.What)
	}
	t := g.Try
	if g.Small != nil {
		t, f.Small = g.Small.Try, g.Small.Done
	}
	if t.Plan != nil && g.Index >= 0 {
		f.Plan = t.Plan.String()
	}
	if g.Story != nil {
		var b strings.Builder
		_ = g.Story.Text(&b) // which cannot fail
		f.Story = b.String()
	}
	return f
}

// Status is what the folder of an exploration says of it, under way or over.
type Status struct {
	Progress
	// Rows are the plans that were run, in the order of their index.
	Rows []Row
}

// Doing says in words what the exploration does.
func (s *Status) Doing() string {
	early := len(s.Rows) < s.Planned
	switch s.Stage {
	case Running:
		if s.Began.IsZero() {
			return "Playing the unaltered run"
		}
		return "Running plans, " + cli.Count(s.Workers, "worker")
	case Shrinking:
		if early {
			return "The time is over; making the plans of the findings small"
		}
		return "All plans are run; making those of the findings small"
	case Stopped:
		return "Stopped before its end; the same command goes on"
	case Done:
		if early {
			return "Done, for the time is over; the same command goes on with the other plans"
		}
		return "Done"
	}
	return string(s.Stage)
}

// Version is another one when what Look reads has changed, or a trace of a finding has come. It costs little: sizes and
// times of files.
func Version(dir string) string {
	var v strings.Builder
	found, _ := fs.Glob(os.DirFS(dir), "finding-*.optrace/"+traces.ManifestName) // a right pattern
	for _, name := range append([]string{identityName, progressName, logName}, found...) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			fmt.Fprintf(&v, "%d@%d", info.Size(), info.ModTime().UnixNano())
		}
		v.WriteByte(' ')
	}
	return v.String()
}

// Look reads the folder of an exploration, which may be under way. It is nil where the folder is none.
func Look(dir string) (*Status, error) {
	if id, err := readIdentity(dir); id == nil || err != nil {
		return nil, err
	}
	s := &Status{}
	text, err := os.ReadFile(filepath.Join(dir, progressName))
	switch {
	case errors.Is(err, fs.ErrNotExist): // the unaltered run is being played: which rows are of its plans is not known yet
		s.Stage = Running
		return s, nil
	case err != nil:
		return nil, cli.CannotRun(err)
	default:
		if err := json.Unmarshal(text, &s.Progress); err != nil {
			return nil, cli.Usagef("%s: %w", filepath.Join(dir, progressName), err)
		}
	}
	done, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, cli.CannotRun(err)
	}
	s.Rows = readRows(done)
	if s.Stage.grouping() {
		return s, s.group()
	}
	return s, nil
}

// group makes findings of the rows so far.
func (s *Status) group() error {
	groups, err := group(s.Rows)
	if err != nil {
		return err
	}
	plans := map[int]string{}
	for i := range s.Rows {
		plans[int(s.Rows[i].Index)] = s.Rows[i].Plan
	}
	for _, g := range groups {
		f := g.words()
		f.Plan = plans[g.Index]
		s.Findings = append(s.Findings, f)
	}
	return nil
}

// readRows reads the log of what was done; a last line that is cut off is not there yet.
func readRows(text []byte) []Row {
	byIndex := map[int32]Row{}
	for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
		var r Row
		if json.Unmarshal(line, &r) == nil && r.Verdict != "" {
			byIndex[r.Index] = r
		}
	}
	rows := make([]Row, 0, len(byIndex))
	for _, r := range byIndex {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Index, b.Index) })
	return rows
}

package explore

import (
	"bytes"
	"cmp"
	"crypto/sha256"
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
	Stopped   Stage = "stopped" // before its plans were run: the same command goes on
)

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
	// Findings are those that are known otherwise than from the rows: of the unaltered run; and all when the plans have
	// been run.
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
		p.Findings = append(p.Findings, g.words())
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
	// Version is another one when anything has changed.
	Version string
}

// Look reads the folder of an exploration, which may be under way. It is nil where the folder is none.
func Look(dir string) (*Status, error) {
	if id, err := readIdentity(dir); id == nil || err != nil {
		return nil, err
	}
	s := &Status{}
	text, err := os.ReadFile(filepath.Join(dir, progressName))
	switch {
	case errors.Is(err, fs.ErrNotExist): // the unaltered run is being played
		s.Stage = Running
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
	s.Version = fmt.Sprintf("%d %x", len(done), sha256.Sum256(text))
	s.Rows = readRows(done)
	if s.Stage == Running || s.Stage == Stopped {
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

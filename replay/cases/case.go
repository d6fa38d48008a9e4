package cases

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/sim/fault"
)

// FileName is the file that makes a folder a case.
const FileName = "case.yaml"

// Case is one regression case.
type Case struct {
	// Dir is the case's folder, to which its paths are relative; Name is what it is called in reports.
	Dir  string `yaml:"-"`
	Name string `yaml:"-"`
	// About says in a line what it is about.
	About string `yaml:"about,omitempty"`
	// Operator is the command: the program and its arguments, {kubeconfig} for the kubeconfig's path. A program
	// with a slash in it is looked for from the case's folder, and then from where opsim is started.
	Operator []string `yaml:"operator,flow"`
	Env      []string `yaml:"env,omitempty"`
	// Trace is the recording's folder.
	Trace string `yaml:"trace"`
	// Recorded tells the operator's recorded calls, where the recording does not.
	Recorded *Recorded `yaml:"recorded,omitempty"`
	// Plan alters the run; without one it is as recorded.
	Plan Plan `yaml:"plan,omitempty"`
	// Seed is that of the unaltered run, and of a plan that says none.
	Seed uint64 `yaml:"seed,omitempty"`
	// Start, InCluster and RBAC are as in replay.Options.
	Start     time.Time `yaml:"start,omitempty"`
	InCluster string    `yaml:"inCluster,omitempty"`
	RBAC      bool      `yaml:"rbac,omitempty"`
	// Threads, Procs, Replicas and Without are as in trial.Try.
	Threads  string  `yaml:"threads,omitempty"`
	Procs    int     `yaml:"procs,omitempty"`
	Replicas int     `yaml:"replicas,omitempty"`
	Without  []int64 `yaml:"without,omitempty,flow"`
	// Settle and Bound are as in trial.Options.
	Settle time.Duration `yaml:"settle,omitempty"`
	Bound  time.Duration `yaml:"bound,omitempty"`
	// Invariants are the user's own.
	Invariants []trial.Invariant `yaml:"invariants,omitempty"`
	Expect     Expect            `yaml:"expect"`
}

// Expect is what has to come of a case.
type Expect struct {
	// Findings are the alarms that there must be, and no others; none if it is empty.
	Findings []Finding `yaml:"findings" json:"findings"`
	// Unmatched are the parts of the plan that are expected to meet nothing, as reports print them.
	Unmatched []string `yaml:"unmatched,omitempty" json:"unmatched,omitempty"`
	// Final says how the cluster is left.
	Final Final `yaml:"final,omitempty" json:"final"`
}

// Recorded is a replay.Identity.
type Recorded struct {
	Process       string   `yaml:"process,omitempty"`
	UserAgents    []string `yaml:"userAgents,omitempty,flow"`
	Users         []string `yaml:"users,omitempty,flow"`
	FieldManagers []string `yaml:"fieldManagers,omitempty,flow"`
}

// Final is how a run leaves the cluster, compared to the unaltered run.
type Final string

// The finals.
const (
	FinalAny     Final = "" // it does not matter
	FinalSame    Final = "same"
	FinalDiffers Final = "differs"
	// finalUnknown is of a run whose end could not be compared.
	finalUnknown Final = "not compared"
)

// Finding is an alarm whatever object it is about: see trial.Alarm. One that is expected without a resource or a
// field means any.
type Finding struct {
	Oracle   string `yaml:"oracle" json:"oracle"`
	Resource string `yaml:"resource,omitempty" json:"resource,omitempty"`
	Field    string `yaml:"field,omitempty" json:"field,omitempty"`
}

// String is its form in a line.
func (f Finding) String() string {
	return strings.Join(strings.Fields(f.Oracle+" "+f.Resource+" "+f.Field), " ")
}

// means says whether an expected finding is this one.
func (f Finding) means(seen Finding) bool {
	return f.Oracle == seen.Oracle && (f.Resource == "" || f.Resource == seen.Resource) && (f.Field == "" || f.Field == seen.Field)
}

// expected says whether one of the findings that are expected is this one.
func (e *Expect) expected(seen Finding) bool {
	return slices.ContainsFunc(e.Findings, func(f Finding) bool { return f.means(seen) })
}

// IsAbout says whether an alarm is what the case is about: one of those that it expects, or any where it expects none.
func (c *Case) IsAbout(a trial.Alarm) bool {
	return len(c.Expect.Findings) == 0 || c.Expect.expected(FindingOf(&a))
}

// FindingOf is the finding that an alarm is.
func FindingOf(a *trial.Alarm) Finding { return Finding{a.Oracle, a.Resource, trial.General(a.Field)} }

// Plan is a plan in a case: in a file beside it, or inline.
type Plan struct {
	// File is its file; "" for one that is inline.
	File string
	// Inline is its text, if there is no file.
	Inline string
}

// MarshalYAML implements yaml.Marshaler.
func (p Plan) MarshalYAML() (any, error) {
	if p.File != "" {
		return p.File, nil
	}
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(p.Inline), &n); err != nil || len(n.Content) == 0 {
		return nil, err
	}
	return n.Content[0], nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *Plan) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&p.File)
	}
	text, err := yaml.Marshal(n)
	p.Inline = string(text)
	return err
}

// IsZero is for omitempty.
func (p Plan) IsZero() bool { return p == Plan{} }

// Load reads the case in a folder.
func Load(dir string) (*Case, error) {
	file := filepath.Join(dir, FileName)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("%s: no such file; a case is a folder with a %s", file, FileName)
	} else if err != nil {
		return nil, cli.CannotRun(err)
	}
	c := &Case{Dir: dir, Name: nameOf(dir)}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil {
		return nil, cli.Usagef("%s: %w", file, err)
	}
	return c, c.check(file)
}

func (c *Case) check(file string) error {
	switch {
	case len(c.Operator) == 0:
		return cli.Usagef("%s: operator is missing: the command, as [./manager, --flag]", file)
	case c.Trace == "":
		return cli.Usagef("%s: trace is missing: the recording's folder", file)
	case !slices.Contains([]Final{FinalAny, FinalSame, FinalDiffers}, c.Expect.Final):
		return cli.Usagef("%s: final is %q; want same or differs", file, c.Expect.Final)
	case !slices.Contains([]string{"", string(replay.ThreadsFIFO), string(replay.ThreadsSeeded)}, c.Threads):
		return cli.Usagef("%s: threads is %q; want fifo or seeded", file, c.Threads)
	case !slices.Contains([]string{"", "auto", "true", "false"}, c.InCluster):
		return cli.Usagef("%s: inCluster is %q; want true, false or auto", file, c.InCluster)
	}
	if slices.ContainsFunc(c.Expect.Findings, func(f Finding) bool { return f.Oracle == "" }) {
		return cli.Usagef("%s: a finding without oracle; want such as {oracle: missing, resource: services}", file)
	}
	_, err := c.Try()
	return err
}

// nameOf is what a case in a folder is called if nothing else is said.
func nameOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(dir)
}

// Try is the run of the case.
func (c *Case) Try() (t trial.Try, err error) {
	file, text := c.Plan.File, []byte(c.Plan.Inline)
	if file != "" {
		file = filepath.Join(c.Dir, file)
		if text, err = os.ReadFile(file); err != nil {
			return t, cli.Usagef("%s: plan: %w", filepath.Join(c.Dir, FileName), err)
		}
	} else {
		file = filepath.Join(c.Dir, FileName)
	}
	t = trial.Try{Threads: replay.Threads(c.Threads), Procs: c.Procs, Replicas: c.Replicas, Without: c.Without}
	if t.Plan, err = fault.Parse(file, text); err != nil {
		return t, err
	}
	if t.Plan.Seed == 0 {
		t.Plan.Seed = c.Seed
	}
	return t, nil
}

// TraceDir is the recording's folder, as it can be opened from here.
func (c *Case) TraceDir() string {
	if filepath.IsAbs(c.Trace) {
		return c.Trace
	}
	return filepath.Join(c.Dir, c.Trace)
}

// Names of what Save writes.
const (
	traceName = "trace.optrace"
	planName  = "plan.yaml"
)

// Save writes a case into a new folder, with a copy of the recording. The operator's program, if it is one with a slash
// in it, is found from here, and is written so that it is found from the case's folder.
func (c *Case) Save(dir, trace string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return cli.CannotRun(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return cli.Usagef("--keep: %w: name a folder that is not there yet", err)
	}
	kept := *c
	kept.Dir, kept.Trace, kept.Operator = dir, traceName, slices.Clone(c.Operator)
	if p := c.Operator[0]; filepath.Base(p) != p && !filepath.IsAbs(p) {
		rel, err := relative(dir, p)
		if err != nil {
			return cli.CannotRun(err)
		}
		kept.Operator[0] = rel
	}
	if err := copyTrace(trace, filepath.Join(dir, traceName)); err != nil {
		return cli.CannotRun(err)
	}
	if kept.Plan.Inline != "" {
		if err := os.WriteFile(filepath.Join(dir, planName), []byte(kept.Plan.Inline), 0o600); err != nil {
			return cli.CannotRun(err)
		}
		kept.Plan = Plan{File: planName}
	}
	if kept.Expect.Findings == nil {
		kept.Expect.Findings = []Finding{}
	}
	if kept.Expect.Final == finalUnknown {
		kept.Expect.Final = FinalAny
	}
	var doc yaml.Node
	if err := errors.Join(doc.Encode(&kept), setExpect(&doc, &kept.Expect)); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	var text bytes.Buffer
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return cli.CannotRun(os.WriteFile(filepath.Join(dir, FileName), text.Bytes(), 0o600))
}

// relative is a path, relative to here, as it is from the folder DIR.
func relative(dir, path string) (string, error) {
	from, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}

// copyTrace copies a trace's folder, which has no folders in it.
func copyTrace(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

//go:build unix

package explore

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/cases"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/traces"
)

// workerEnv has the test binary run plans for a pool: the operator's command, as JSON.
const workerEnv = "OPSIM_TEST_EXPLORE"

func TestMain(m *testing.M) {
	if text := os.Getenv(workerEnv); text != "" {
		var command []string
		err := json.Unmarshal([]byte(text), &command)
		if err == nil {
			var o trial.Options
			if o, err = trialOf(command); err == nil {
				err = trial.Serve(context.Background(), o, os.Stdin, os.Stdout)
			}
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// trialOf is the bundled recording of an operator with a binary of it.
func trialOf(command []string) (trial.Options, error) {
	trace, err := traces.Open(bundled(filepath.Base(command[0])))
	return trial.Options{Replay: replay.Options{Trace: trace, Operators: []replay.Operator{{Command: command}}}}, err
}

func bundled(name string) string {
	return filepath.Join("..", "..", "traces", "cases", name+".optrace")
}

func needVirtual(t testing.TB) {
	t.Helper()
	if err := virtual.Probe(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
}

// zooOperator builds an operator of the zoo.
func zooOperator(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/opreplay/opreplay/examples/operators/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}

// exploreIt explores with an operator of the zoo.
func exploreIt(t *testing.T, command []string, change func(*Options)) *Result {
	t.Helper()
	o := Options{Out: filepath.Join(t.TempDir(), "out"), Budget: 20, NoShrink: true}
	var err error
	if o.Trial, err = trialOf(command); err != nil {
		t.Fatal(err)
	}
	change(&o)
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func table(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, TableName))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A crash between two creates is found, its plan is one fault, and it becomes a case; the mended twin has none.
func TestFindsTheCrashGap(t *testing.T) {
	needVirtual(t)
	bin := zooOperator(t, "halfcreate")
	keep := filepath.Join(t.TempDir(), "kept")
	r := exploreIt(t, []string{bin}, func(o *Options) { o.NoShrink, o.Keep = false, keep })
	if len(r.Groups) != 1 {
		t.Fatalf("%d findings, want one: %+v", len(r.Groups), r.Groups)
	}
	g := r.Groups[0]
	if g.Alarm.Oracle != "missing" || g.Alarm.Resource != "services" {
		t.Errorf("found %+v, want a missing Service", g.Alarm)
	}
	if g.Small == nil || len(g.Small.Try.Plan.Faults) != 1 {
		t.Fatalf("shrunk to %+v, want one fault", g.Small)
	}
	if plan := g.Small.Try.Plan.String(); !strings.Contains(plan, "configmaps/orders-settings") {
		t.Errorf("the plan is not about the first of the two creates: %s", plan)
	}
	if g.Story == nil || len(g.Story.Steps) == 0 || !strings.Contains(strings.Join(g.Story.Words, " "), "creates services/orders") {
		t.Errorf("the story does not say that the Service was not created: %+v", g.Story)
	}
	c, err := cases.Load(filepath.Join(keep, "finding-1"))
	if err != nil {
		t.Fatal(err)
	}
	try, err := c.Try()
	if err != nil || try.Plan.String() != g.Small.Try.Plan.String() {
		t.Errorf("the case has the plan %v, %v", try.Plan, err)
	}
	for status, args := range map[cases.Status][]string{cases.OK: nil, cases.Failed: {"--fixed"}} {
		came, err := c.Run(t.Context(), []replay.Operator{{Command: append([]string{bin}, args...)}})
		if err != nil || came.Status != status {
			t.Errorf("the case with %q: %+v, %v; want %s", args, came, err, status)
		}
	}
	if r := exploreIt(t, []string{bin, "--fixed"}, func(*Options) {}); len(r.Groups) != 0 || r.Ran != 20 {
		t.Errorf("the mended twin: %d plans, found %+v", r.Ran, r.Groups)
	}
}

// The table is the same, byte for byte, with four workers, in three shards that are merged, and after an interruption.
func TestTableIsRepeatable(t *testing.T) {
	needVirtual(t)
	command := []string{zooOperator(t, "halfcreate")}
	text, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	one := exploreIt(t, command, func(o *Options) { o.Budget = 12 })
	want := table(t, one.Out)
	four := exploreIt(t, command, func(o *Options) {
		o.Budget, o.Workers = 12, 4
		o.Worker = func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, self)
			cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
			return cmd
		}
	})
	if table(t, four.Out) != want {
		t.Error("four workers make another table than one")
	}
	if one.Alarming == 0 {
		t.Error("no plan has alarms: the table shows nothing of what differs by chance")
	}
	var shards []string
	for i := 1; i <= 3; i++ {
		r := exploreIt(t, command, func(o *Options) { o.Budget, o.Shard, o.Shards = 12, i, 3 })
		if r.Ran != 4 {
			t.Errorf("shard %d ran %d plans, want 4", i, r.Ran)
		}
		shards = append(shards, r.Out)
	}
	rows, err := Merge(shards)
	if err != nil {
		t.Fatal(err)
	}
	merged := t.TempDir()
	if err := WriteTable(filepath.Join(merged, TableName), rows); err != nil {
		t.Fatal(err)
	}
	if table(t, merged) != want {
		t.Error("three shards merged are not the table of the whole")
	}
	other := exploreIt(t, command, func(o *Options) { o.Budget, o.Shard, o.Shards, o.Trial.Settle = 4, 1, 4, time.Second })
	if _, err := Merge([]string{shards[1], other.Out}); err == nil || !strings.Contains(err.Error(), "are not of one exploration") {
		t.Errorf("shards of two explorations were merged: %v", err)
	}
	resumed(t, command, one.Out, want)
}

// resumed has an exploration that was ended in the middle of a line go on.
func resumed(t *testing.T, command []string, of, want string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(of, logName))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(of, logName), log[:len(log)*2/3], 0o600); err != nil {
		t.Fatal(err)
	}
	r := exploreIt(t, command, func(o *Options) { o.Budget, o.Out = 12, of })
	if r.Before == 0 || r.Before >= 12 || r.Ran != 12 {
		t.Errorf("%d plans of an earlier sitting, %d in all", r.Before, r.Ran)
	}
	if table(t, of) != want {
		t.Error("an exploration that goes on makes another table")
	}
	o := Options{Out: of, Budget: 13}
	if o.Trial, err = trialOf(command); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "holds another exploration") {
		t.Errorf("another budget in the same folder: error %v", err)
	}
}

// An invariant of the user's is evaluated over each write and over the end.
func TestInvariants(t *testing.T) {
	needVirtual(t)
	bin := zooOperator(t, "halfcreate")
	r := exploreIt(t, []string{bin, "--fixed"}, func(o *Options) {
		o.Budget = 1
		o.Trial.Invariants = []trial.Invariant{
			{Name: "no service", Expr: `object.kind != "Service" || object.metadata.namespace != "mq"`},
			{Name: "brokers", Expr: `objects.exists(o, o.kind == "Broker")`},
		}
	})
	if len(r.Groups) != 1 || r.Groups[0].Alarm.Oracle != "invariant no service" || r.Groups[0].Index != -1 {
		t.Errorf("found %+v, want the first invariant broken in the unaltered run, and the second not", r.Groups)
	}
}

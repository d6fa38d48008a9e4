package replay

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

var buildElected = sync.OnceValues(func() (string, error) {
	path := filepath.Join(guestDir, "elected")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", path, "./testdata/elected").CombinedOutput()
	if err != nil {
		return "", &exec.Error{Name: string(out), Err: err}
	}
	return path, nil
})

// elected replays a bundled case with replicas of the operator that elects a leader.
func elected(t *testing.T, plan string, args ...string) *task {
	t.Helper()
	path, err := buildElected()
	if err != nil {
		t.Fatal(err)
	}
	command := append([]string{path}, args...)
	return &task{
		Trace: bundled("statusloop"), Plan: plan, Limit: 40 * time.Second, Patience: -1,
		Operators: []Operator{{Name: "a", Command: command}, {Name: "b", Command: command}},
	}
}

// writers are the processes that wrote the leader's ConfigMap, in order, each once in a row.
func writers(t *testing.T, r *Result) (all []string) {
	t.Helper()
	for _, q := range rows[traces.Request](t, openTrace(t, r.RunDir)) {
		if q.Resource == "configmaps" && isWrite(q.Verb) && succeeded(q) && q.Process != "" && (len(all) == 0 || all[len(all)-1] != q.Process) {
			all = append(all, q.Process)
		}
	}
	return all
}

// TestReplicas: of two one leads, whoever wins the race, and it is the same in every run.
func TestReplicas(t *testing.T) {
	needVirtual(t)
	c := elected(t, "seed: 1").check(t, CheckOptions{Runs: 3, Workers: 1})
	mustBeIdentical(t, c)
	if got := writers(t, c.First); len(got) != 1 {
		t.Errorf("leaders: %v, want one", got)
	}
	for _, op := range c.First.Operators {
		if op.Calls == 0 || op.ExitEarly {
			t.Errorf("%s made %d calls and ended: %s", op.Name, op.Calls, op.Exit)
		}
	}
	trace := openTrace(t, c.First.RunDir)
	if m := trace.Manifest(); len(m.Operators) != 2 || m.Operators[0].Process != "a" || m.Operators[1].Process != "b" {
		t.Errorf("operators of the manifest: %+v", m.Operators)
	}
	logged := map[string]bool{}
	for _, l := range rows[traces.Log](t, trace) {
		logged[l.Process] = true
	}
	if !logged["a"] || !logged["b"] {
		t.Errorf("logs of %v", logged)
	}
}

// TestLeaseIsTakenOver: when the leader is killed the other one leads once the lease has run out.
func TestLeaseIsTakenOver(t *testing.T) {
	needVirtual(t)
	leader := writers(t, elected(t, "seed: 1").check(t, CheckOptions{Runs: 2}).First)[0]
	other := map[string]string{"a": "b", "b": "a"}[leader]
	k := elected(t, "seed: 1\nfaults:\n- crash: {process: "+leader+", after: \"UPDATE configmaps/leader #2\", restartAfter: 1h}\n")
	c := k.check(t, CheckOptions{Runs: 3, Workers: 1})
	mustBeIdentical(t, c)
	if got := writers(t, c.First); !slices.Equal(got, []string{leader, other}) {
		t.Fatalf("leaders: %v, want %s and then %s", got, leader, other)
	}
	var last, first int64 // of the one, of the other
	for _, q := range rows[traces.Request](t, openTrace(t, c.First.RunDir)) {
		switch {
		case !succeeded(q) || q.Resource != "leases" || !isWrite(q.Verb):
		case q.Process == leader:
			last = q.TS
		case first == 0:
			first = q.TS
		}
	}
	if gap := time.Duration(first - last); gap < 15*time.Second || gap > 25*time.Second {
		t.Errorf("the lease was taken over %s after it was renewed last; it lasts for 15 s", gap)
	}
}

// TestRunsThatWriteCRDsAreIdentical: the API server cannot go back behind such a run; another one takes its place.
func TestRunsThatWriteCRDsAreIdentical(t *testing.T) {
	needVirtual(t)
	c := elected(t, "seed: 1", "--crd").check(t, CheckOptions{Runs: 3})
	mustBeIdentical(t, c)
	defined := slices.ContainsFunc(rows[traces.Request](t, openTrace(t, c.First.RunDir)), func(q *traces.Request) bool {
		return q.Resource == "customresourcedefinitions" && q.Verb == "create" && q.Code == 201
	})
	if !defined {
		t.Error("no CRD was written")
	}
}

// TestReplicasOnTheWallClock: the same two, as far as their ports allow; there the second fails to listen.
func TestReplicasOnTheWallClock(t *testing.T) {
	k := caseTask(t, "orphanfinalizer")
	k.Operators = append(k.Operators, k.Operators[0])
	k.Limit = 3 * time.Second
	r, trace := k.run(t, func(o *Options) { o.Clock = ClockWall })
	if len(r.Operators) != 2 || r.Operators[0].Name != "orphanfinalizer" || r.Operators[1].Name != "orphanfinalizer-2" {
		t.Fatalf("operators: %+v", r.Operators)
	}
	calls := map[string]int{}
	for _, q := range rows[traces.Request](t, trace) {
		calls[q.Process]++
	}
	for _, op := range r.Operators {
		if op.Calls == 0 || calls[op.Name] != op.Calls {
			t.Errorf("%s: %d calls, %d in the trace", op.Name, op.Calls, calls[op.Name])
		}
	}
}

func TestParseOperator(t *testing.T) {
	for text, want := range map[string]Operator{
		"./manager --x=1":   {Command: []string{"./manager", "--x=1"}},
		"a=./manager --x=1": {Name: "a", Command: []string{"./manager", "--x=1"}},
		"'./my op' run":     {Command: []string{"./my op", "run"}},
		"b-2='./my op'":     {Name: "b-2", Command: []string{"./my op"}},
	} {
		got, err := ParseOperator(text)
		if err != nil || got.Name != want.Name || !slices.Equal(got.Command, want.Command) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if _, err := ParseOperator("a="); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("no command: %v", err)
	}
}

func TestOperatorNames(t *testing.T) {
	op := func(name, command string) *Operator { return &Operator{Name: name, Command: []string{command}} }
	ops := []*Operator{op("", "./m"), op("x", "./m"), op("", "bin/m"), op("", "m"), op("m-2", "./m")}
	if err := giveNames(ops); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range ops {
		got = append(got, o.Name)
	}
	if want := []string{"m", "x", "m-3", "m-4", "m-2"}; !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
	for _, twice := range [][]*Operator{{op("x", "m"), op("x", "m")}, {op("opsim", "m")}} {
		if err := giveNames(twice); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%v: %v", twice, err)
		}
	}
}

// TestOperatorsStandForThoseOfTheirName: each of several operators stands for the recorded process with its name.
func TestOperatorsStandForThoseOfTheirName(t *testing.T) {
	s := newScene(t, traces.Manifest{Operators: []traces.Operator{{Process: "east"}, {Process: "west"}}})
	trace := s.open()
	self, err := os.Executable() // any program will do: none is started
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Trace: trace, Operators: []Operator{{Name: "west", Command: []string{self}}, {Name: "east", Command: []string{self}}}}
	ops, err := resolve(context.Background(), &o)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		if op.Identity.Process != op.Name {
			t.Errorf("%s stands for %s", op.Name, op.Identity.Process)
		}
	}
}

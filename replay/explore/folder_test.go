//go:build unix

package explore

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/sim/fault"
)

// sitting takes up an exploration in a folder, and gives what it found there.
func sitting(t *testing.T, out string, change func(*Options)) (*campaign, error) {
	t.Helper()
	o := Options{Out: out, Budget: 4}
	var err error
	if o.Trial, err = trialOf([]string{"halfcreate"}); err != nil {
		t.Fatal(err)
	}
	o.Trial.Replay.Operators[0].Command = []string{"true", "--fixed"} // nothing is run
	t.Cleanup(func() { _ = o.Trial.Replay.Trace.Close() })
	o.Trial.Replay.Start = time.Date(2026, time.January, 2, 3, 4, 5, 6, time.UTC)
	if change != nil {
		change(&o)
	}
	runner, err := trial.Open(t.Context(), o.Trial)
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	old, err := readIdentity(out)
	if err != nil {
		t.Fatal(err)
	}
	c := &campaign{o: o, rows: map[int]Row{}, result: &Result{}}
	err = c.takeUp(old, runner.Session())
	if c.log != nil {
		t.Cleanup(func() { _ = c.log.Close() })
	}
	return c, err
}

// A folder is gone on with by the same exploration, and by no other: all that alters a run is looked at.
func TestFolderIsOfOneExploration(t *testing.T) {
	needVirtual(t)
	out := filepath.Join(t.TempDir(), "out")
	for range 2 {
		if _, err := sitting(t, out, nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(*Options){
		"budget":     func(o *Options) { o.Budget = 5 },
		"shard":      func(o *Options) { o.Shard, o.Shards = 1, 2 },
		"seed":       func(o *Options) { o.Trial.Replay.Seed = 1 },
		"start":      func(o *Options) { o.Trial.Replay.Start = o.Trial.Replay.Start.Add(time.Second) },
		"rbac":       func(o *Options) { o.Trial.Replay.RBAC = true },
		"in-cluster": func(o *Options) { o.Trial.Replay.InCluster = replay.InClusterAlways },
		"settle":     func(o *Options) { o.Trial.Settle = time.Second },
		"name":       func(o *Options) { o.Trial.Replay.Operators[0].Name = "other" },
		"arguments":  func(o *Options) { o.Trial.Replay.Operators[0].Command = o.Trial.Replay.Operators[0].Command[:1] },
	} {
		if _, err := sitting(t, out, change); err == nil || cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "another exploration") {
			t.Errorf("another %s: error %v", name, err)
		}
	}
}

// A log that ends in the middle of a line loses that line alone: what is appended after it is read the next time.
func TestTornLine(t *testing.T) {
	needVirtual(t)
	out := filepath.Join(t.TempDir(), "out")
	if _, err := sitting(t, out, nil); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(out, logName)
	const whole, torn = `{"index":0,"verdict":"fine"}` + "\n", `{"index":1,"verdi`
	if err := os.WriteFile(file, []byte(whole+torn), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := sitting(t, out, nil)
	if err != nil || len(c.rows) != 1 {
		t.Fatalf("%v, rows %v, want the whole one", err, c.rows)
	}
	if _, err := c.log.WriteString(`{"index":1,"verdict":"alarms"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	if c, err = sitting(t, out, nil); err != nil || len(c.rows) != 2 || c.rows[1].Verdict != "alarms" {
		t.Errorf("%v, rows %v, want both", err, c.rows)
	}
}

// Another opsim may have made other plans of the same numbers: their rows are not those of the plans, for the command and
// for who looks on.
func TestRowsOfOtherPlans(t *testing.T) {
	plan := func(seed uint64) Planned {
		return Planned{Index: int(seed), Kind: KindRandom, Try: trial.Try{Plan: &fault.Plan{Seed: seed}}}
	}
	dir := t.TempDir()
	if err := begin(filepath.Join(dir, identityName), &identity{}); err != nil {
		t.Fatal(err)
	}
	own, other := planRow(plan(1)), planRow(plan(7))
	own.Verdict, other.Verdict, other.Index = "fine", "alarms", 2
	var log []byte
	for _, r := range []Row{own, other} {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		log = append(append(log, line...), '\n')
	}
	if err := os.WriteFile(filepath.Join(dir, logName), log, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &campaign{o: Options{Out: dir}, rows: map[int]Row{}, result: &Result{}, plans: []Planned{plan(1), plan(2), plan(3)}}
	look := func(when string, want int) {
		if s, err := Look(dir); err != nil || len(s.Rows) != want {
			t.Errorf("%s, who looks on sees %+v, %v, want %d", when, s.Rows, err, want)
		}
	}
	if err := c.resume(); err != nil || len(c.rows) != 2 {
		t.Fatalf("%v, rows %v, want both", err, c.rows)
	}
	look("before the plans are known", 0)
	if err := c.known(); err != nil || len(c.rows) != 1 || c.result.Before != 1 || c.rows[1].Plan == "" {
		t.Errorf("%v, kept %v, want the first", err, c.rows)
	}
	c.report(Running)
	look("then", 1)
	if _, err := c.log.WriteString(`{"index":2,"verdict":"fine"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	look("after one more", 2)
	if err := c.log.Close(); err != nil {
		t.Error(err)
	}
}

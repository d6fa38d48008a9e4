package replay

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/sim/fault"
	"github.com/opreplay/opreplay/sim/process/virtual"
	"github.com/opreplay/opreplay/traces"
)

// needVirtual skips where there is no virtual time, and says why.
func needVirtual(t testing.TB) {
	t.Helper()
	if err := virtual.Probe(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
}

// The test binary plays runs for a Check when this names its task, and burns CPU when it says so.
const taskEnv = "OPSIM_TEST_TASK"

// task is what a worker process of a test is told: what a test can change of Options.
type task struct {
	Trace     string
	Operators []Operator
	Plan      string
	Seed      uint64
	Limit     time.Duration
	Patience  time.Duration
	Threads   Threads
}

// doTask is the main function of this binary's children.
func doTask(text string) {
	if text == "burn" {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		}
		return
	}
	var k task
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		panic(err)
	}
	o, err := k.options()
	if err == nil {
		err = Serve(context.Background(), o, os.Stdin, os.Stdout)
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
}

func (k *task) options() (Options, error) {
	trace, err := traces.Open(k.Trace)
	if err != nil {
		return Options{}, err
	}
	plan, err := fault.Parse("plan", []byte(k.Plan))
	return Options{
		Trace: trace, Operators: k.Operators, Plan: plan, Seed: k.Seed, Limit: k.Limit, Patience: k.Patience, Threads: k.Threads, Clock: ClockVirtual,
	}, err
}

func bundled(name string) string { return filepath.Join("..", "traces", "cases", name+".optrace") }

// caseTask replays a bundled case with the operator of the zoo that belongs to it.
func caseTask(t testing.TB, name string, args ...string) *task {
	t.Helper()
	return &task{
		Trace: bundled(name), Operators: []Operator{{Command: append([]string{zooOperator(t, name)}, args...)}}, Seed: 5, Patience: time.Second,
	}
}

// run is one run of it.
func (k *task) run(t testing.TB, change ...func(*Options)) (*Result, *traces.Trace) {
	t.Helper()
	o, err := k.options()
	if err != nil {
		t.Fatal(err)
	}
	o.Out = filepath.Join(t.TempDir(), "run.optrace")
	for _, c := range change {
		c(&o)
	}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r, openTrace(t, o.Out)
}

// worker is a process of this binary that plays runs of it.
func (k *task) worker(ctx context.Context, env ...string) *exec.Cmd {
	text, err := json.Marshal(k)
	if err != nil {
		panic(err)
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(os.Environ(), taskEnv+"="+string(text)), env...)
	return cmd
}

// check plays it several times, in this process and in others with different numbers of processors.
func (k *task) check(t *testing.T, c CheckOptions) *Checked {
	t.Helper()
	o, err := k.options()
	if err != nil {
		t.Fatal(err)
	}
	o.Out = filepath.Join(t.TempDir(), "run.optrace")
	settings := make(chan string, 2)
	settings <- "GOMAXPROCS=1"
	settings <- "GOMAXPROCS=4"
	if c.Worker == nil && c.Workers > 0 {
		c.Worker = func(ctx context.Context) *exec.Cmd { return k.worker(ctx, <-settings) }
	}
	checked, err := Check(context.Background(), o, c)
	if err != nil {
		t.Fatal(err)
	}
	return checked
}

func mustBeIdentical(t *testing.T, c *Checked) {
	t.Helper()
	var text strings.Builder
	if err := c.Text(&text); err != nil {
		t.Fatal(err)
	}
	if c.Identical != c.Runs || c.Same() != nil || len(c.First.Hash) != 64 {
		t.Errorf("not all runs are identical:\n%s", text.String())
	}
	if c.First.OperatorCPU <= 0 {
		t.Error("the operator used no CPU time")
	}
	if !c.First.Deterministic || len(c.First.Reasons) > 0 {
		t.Errorf("the run is not deterministic: %q", c.First.Reasons)
	}
}

// burn keeps processors busy beside the test.
func burn(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), taskEnv+"=burn")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
}

// TestVirtualRunsAreIdentical: each case, with the faulty and the mended operator, in processes of one and of four
// processors, with something else that wants the machine.
func TestVirtualRunsAreIdentical(t *testing.T) {
	needVirtual(t)
	burn(t)
	for _, name := range []string{"statusloop", "statusrace", "orphanfinalizer"} {
		for _, args := range [][]string{nil, {"--fixed"}} {
			t.Run(strings.Join(append([]string{name}, args...), " "), func(t *testing.T) {
				c := caseTask(t, name, args...).check(t, CheckOptions{Runs: 4, Workers: 2})
				mustBeIdentical(t, c)
				if c.Processes != 3 {
					t.Errorf("runs in %d processes", c.Processes)
				}
				r := c.First
				if r.Clock != ClockVirtual || r.Traps == 0 || r.WorldSteps == 0 || r.Jumps == 0 {
					t.Errorf("clock %s, %d traps, %d steps, %d jumps", r.Clock, r.Traps, r.WorldSteps, r.Jumps)
				}
				if r.Applied != r.Steps || r.Steps == 0 || r.Operators[0].ExitEarly || len(r.Notes) > 0 {
					t.Errorf("%d of %d steps applied, exit %s, notes %q", r.Applied, r.Steps, r.Operators[0].Exit, r.Notes)
				}
				if d := r.Divergence; args == nil && (d.Recorded == 0 || d.Again != d.Recorded || d.Equal != d.Recorded) {
					t.Errorf("%d of %d recorded writes made again, %d equal", d.Again, d.Recorded, d.Equal)
				}
				checkVirtualTrace(t, r)
			})
		}
	}
}

func checkVirtualTrace(t *testing.T, r *Result) {
	t.Helper()
	trace := openTrace(t, r.RunDir)
	if problems, err := trace.Verify(context.Background()); err != nil || len(problems) > 0 {
		t.Errorf("trace: %v, %v", problems, err)
	}
	m := trace.Manifest()
	if !m.Complete || m.Run == nil || m.Run.Mode != "virtual" || !m.Run.Deterministic || m.Run.Threads != "fifo" || m.Run.Start.IsZero() {
		t.Errorf("complete %v, run %+v", m.Complete, m.Run)
	}
	// Decisions tell the whole run: each call arrives and is answered.
	kinds := map[string]int{}
	for _, d := range rows[traces.Decision](t, trace) {
		kinds[d.Kind]++
		if d.Of < 1 || d.Choice >= d.Of || d.Subject == "" {
			t.Errorf("decision %+v", d)
		}
	}
	if kinds["request"] == 0 || kinds["answer"] == 0 || kinds["deliver"] == 0 || kinds["outsider"] < r.Steps || kinds["process"] != 2 {
		t.Errorf("decisions: %v", kinds)
	}
	problem := slices.ContainsFunc(rows[traces.Log](t, trace), func(l *traces.Log) bool { return l.Level != "" })
	if !problem {
		t.Error("no line of the operator's log was understood")
	}
}

// TestRunsAreTheSameElsewhere: where the operator's binary lies is no part of the run.
func TestRunsAreTheSameElsewhere(t *testing.T) {
	needVirtual(t)
	k := caseTask(t, "orphanfinalizer")
	here, _ := k.run(t)
	program, err := os.ReadFile(k.Operators[0].Command[0])
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), strings.Repeat("far away ", 20))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	k.Operators[0].Command[0] = filepath.Join(dir, "orphanfinalizer")
	if err := os.WriteFile(k.Operators[0].Command[0], program, 0o700); err != nil {
		t.Fatal(err)
	}
	if there, _ := k.run(t); there.Hash != here.Hash {
		t.Errorf("hash %s, elsewhere %s", here.Hash, there.Hash)
	}
}

// TestSeedsAndThreadsMatter: another seed, or another order of threads, is another run, as repeatable.
func TestSeedsAndThreadsMatter(t *testing.T) {
	needVirtual(t)
	hashes := map[string]string{}
	for _, v := range []struct {
		name    string
		seed    uint64
		threads Threads
	}{{"seed 5", 5, ThreadsFIFO}, {"seed 6", 6, ThreadsFIFO}, {"threads of seed 5", 5, ThreadsSeeded}} {
		k := elected(t, "") // two processes: a Go program of one processor seldom has two threads to choose from
		k.Seed, k.Threads = v.seed, v.threads
		c := k.check(t, CheckOptions{Runs: 2})
		mustBeIdentical(t, c)
		if other, known := hashes[c.First.Hash]; known {
			t.Errorf("%s gives the same run as %s", v.name, other)
		}
		hashes[c.First.Hash] = v.name
	}
}

// TestCheckShowsWhereRunsPart: a run with another seed is found, kept and compared.
func TestCheckShowsWhereRunsPart(t *testing.T) {
	needVirtual(t)
	k := caseTask(t, "statusloop")
	k.Limit = 2 * time.Second
	other := *k
	other.Seed = 6
	c := k.check(t, CheckOptions{Runs: 3, Workers: 1, Worker: func(ctx context.Context) *exec.Cmd { return other.worker(ctx) }})
	if c.Identical == 3 || c.Same() == nil || len(c.Unlike) != 1 || c.Unlike[0].Hash == c.First.Hash || c.Difference == nil {
		t.Fatalf("not found: %+v", c)
	}
	d := c.Difference
	marked := func(rows []string) bool {
		return slices.ContainsFunc(rows, func(s string) bool { return strings.HasPrefix(s, "> seq "+strconv.FormatInt(d.Seq, 10)+" ") })
	}
	if d.Seq == 0 || !marked(d.A) || !marked(d.B) {
		t.Errorf("rows around: %+v", d)
	}
	if kept, err := os.ReadDir(filepath.Dir(c.First.RunDir)); err != nil || len(kept) != 2 {
		t.Errorf("beside the first run and the other one is left: %v, %v", kept, err)
	}
	var text strings.Builder
	if err := c.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" of 3 runs identical", "is not like the first", "the runs part at row", "first run:", "other run:"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in:\n%s", want, text.String())
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		runs int
	}{
		"one run":    {Options{}, 1},
		"wall clock": {Options{Clock: ClockWall}, 2},
		"a break":    {Options{BreakAt: []Break{{}}}, 2},
	} {
		if _, err := Check(context.Background(), c.o, CheckOptions{Runs: c.runs}); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBreaksChangeNothing: a run that stood still, and was looked at, is the run that did not.
func TestBreaksChangeNothing(t *testing.T) {
	needVirtual(t)
	k := caseTask(t, "statusloop")
	free, _ := k.run(t)
	var breaks []Break
	for _, text := range []string{"CREATE configmaps/blog-page", "PATCH sites/*/status #3", "step 30", "4s"} {
		b, err := ParseBreak(text)
		if err != nil {
			t.Fatal(err)
		}
		breaks = append(breaks, b)
	}
	var stood []*Standing
	stopped, _ := k.run(t, func(o *Options) {
		o.BreakAt = breaks
		o.Stand = func(_ context.Context, s *Standing) (Go, error) {
			stood = append(stood, s)
			look(t, s)
			if len(stood) == 1 {
				return GoStep, nil
			}
			return GoToNext, nil
		}
	})
	if stopped.Hash != free.Hash {
		t.Errorf("hash %s, without breaks %s", stopped.Hash, free.Hash)
	}
	if len(stood) < 5 {
		t.Fatalf("stood still %d times, want at 4 breaks and one step", len(stood))
	}
	if !strings.HasPrefix(stood[0].What, "request CREATE configmaps web/blog-page by statusloop") || stood[1].Step != stood[0].Step+1 {
		t.Errorf("first %+v, then %+v", stood[0], stood[1])
	}
	last := stood[len(stood)-1]
	if elapsed, err := time.ParseDuration(last.Elapsed); err != nil || elapsed < 4*time.Second || elapsed > 5*time.Second {
		t.Errorf("last %+v, want shortly after 4 s", last)
	}
	for _, s := range stood {
		if len(s.Processes) != 1 || s.Processes[0].Name != "statusloop" || s.Processes[0].Pid == 0 {
			t.Errorf("processes: %+v", s.Processes)
		}
	}
	if len(stopped.Notes) > 0 {
		t.Errorf("notes: %q", stopped.Notes)
	}
}

// look reads the cluster by the kubeconfig, and tries to do more.
func look(t *testing.T, s *Standing) {
	text, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		t.Error(err)
		return
	}
	server := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(string(text))
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/api/v1/configmaps", 200},
		{"GET", "/apis/web.example.com/v1/namespaces/web/sites/shop", 200},
		{"GET", "/apis", 200},
		{"GET", "/api/v1/configmaps?watch=true", 403},
		{"POST", "/api/v1/namespaces", 403},
		{"DELETE", "/api/v1/namespaces/web/configmaps/shop-page", 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, server+c.path, strings.NewReader(`{"metadata":{"name":"intruder"}}`))
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != c.code {
			t.Errorf("%s %s: HTTP status %d, want %d: %s", c.method, c.path, answer.StatusCode, c.code, body)
		}
	}
}

func TestParseBreak(t *testing.T) {
	for _, text := range []string{"", "step", "step 0", "step x", "-3s", "0s", "CREATE", "MAKE configmaps", "CREATE configmaps #0"} {
		if _, err := ParseBreak(text); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestConsole(t *testing.T) {
	signal := make(chan os.Signal, 1)
	in, feed := io.Pipe()
	var out strings.Builder
	c := NewConsole(in, &out, signal)
	stand := func() Go {
		t.Helper()
		how, err := c.Stand(context.Background(), &Standing{Step: 7, What: "request", Kubeconfig: "/k", Processes: []Pid{{"op", 42}}})
		if err != nil {
			t.Fatal(err)
		}
		return how
	}
	say := func(text string) { go func() { _, _ = io.WriteString(feed, text) }() }
	for _, k := range []struct {
		text string
		want Go
	}{{"s\n", GoStep}, {"\n", GoToNext}, {"what?\nc\n", GoToEnd}} {
		say(k.text)
		if got := stand(); got != k.want {
			t.Errorf("%q: %d, want %d", k.text, got, k.want)
		}
	}
	signal <- os.Interrupt
	if got := stand(); got != GoToNext {
		t.Errorf("a signal: %d", got)
	}
	_ = feed.Close()
	if got := stand(); got != GoToEnd {
		t.Errorf("the end of the input: %d", got)
	}
	for _, want := range []string{"before step 7", "op: dlv attach 42", "kubectl --kubeconfig /k", `"what?" is none of them`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

// TestStartLiesBeforeTheWallClock: a run of a fresh recording begins days earlier, at the same time of the day.
func TestStartLiesBeforeTheWallClock(t *testing.T) {
	script := &Script{Start: sceneStart, Span: time.Hour}
	for _, k := range []struct {
		name  string
		now   time.Time
		start time.Time // asked for
		want  time.Time
		note  string
	}{
		{"an old recording", sceneStart.AddDate(0, 1, 0), time.Time{}, sceneStart, ""},
		{"a fresh one", sceneStart.Add(2 * time.Minute), time.Time{}, sceneStart.AddDate(0, 0, -1), "1 day(s) earlier"},
		{"another start", sceneStart, sceneStart.AddDate(-1, 0, 0), sceneStart.AddDate(-1, 0, 0), ""},
		{"a future one", sceneStart, sceneStart.AddDate(0, 0, 3), sceneStart.AddDate(0, 0, -1), "4 day(s) earlier"},
	} {
		o := Options{Clock: ClockVirtual, Start: k.start}
		o.complete()
		s := &Session{o: o, script: script}
		s.settleStart(k.now)
		if !s.start.Equal(k.want) || (len(s.notes) > 0) != (k.note != "") || k.note != "" && !strings.Contains(s.notes[0], k.note) {
			t.Errorf("%s: starts at %s with notes %q, want %s", k.name, s.start, s.notes, k.want)
		}
		if s.start.Add(s.length()).After(k.now) {
			t.Errorf("%s: it would not end before the wall clock's time", k.name)
		}
	}
}

// BenchmarkVirtualReplay: what a run costs on an API server that is there already.
func BenchmarkVirtualReplay(b *testing.B) {
	needVirtual(b)
	k := caseTask(b, "statusloop")
	o, err := k.options()
	if err != nil {
		b.Fatal(err)
	}
	s, err := Open(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var took, wall, cpu, traps float64
	for n := 0; b.Loop(); n++ {
		r, err := s.play(context.Background(), filepath.Join(b.TempDir(), strconv.Itoa(n)+".optrace"))
		if err != nil {
			b.Fatal(err)
		}
		took += r.Took.Seconds()
		wall += r.Wall.Seconds()
		cpu += r.CPU.Seconds()
		traps += float64(r.Traps)
	}
	n := float64(b.N)
	b.ReportMetric(took/wall, "virtual-s/wall-s")
	b.ReportMetric(cpu/n, "opsim-cpu-s/run")
	b.ReportMetric(traps/n, "traps/run")
}

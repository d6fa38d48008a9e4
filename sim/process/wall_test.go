//go:build unix

package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/opreplay/opreplay/traces"
)

// The test binary is its own guest: with GUEST set it does what the word says.
func TestMain(m *testing.M) {
	switch os.Getenv("GUEST") {
	case "":
		os.Exit(m.Run())
	case "show":
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"args": os.Args[1:], "env": os.Environ()})
		fmt.Fprintln(os.Stderr, `{"level":"error","msg":"no luck","n":1}`)
		os.Exit(3)
	case "obey":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("ready")
		fmt.Println("got", <-c)
	case "refuse":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case "child": // starts a grandchild that outlives it and holds its output
		attr := &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}, Env: []string{"GUEST=refuse"}}
		p, err := os.StartProcess(os.Args[0], os.Args[:1], attr)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.Pid)
	}
}

// start runs this test binary as a guest. lines collects its output; ready is closed by its first line.
func start(t *testing.T, guest string, more ...string) (p Process, lines func() []string, ready <-chan struct{}) {
	t.Helper()
	var mu sync.Mutex
	var got []string
	first := make(chan struct{})
	spec := Spec{
		Name:       "guest",
		Command:    append([]string{os.Args[0]}, more...),
		Kubeconfig: "/k/config", Home: t.TempDir(), Env: []string{"GUEST=" + guest},
		Output: func(stream, line string) {
			mu.Lock()
			defer mu.Unlock()
			if len(got) == 0 {
				close(first)
			}
			got = append(got, stream+": "+line)
		},
	}
	p, err := Wall{}.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0) })
	return p, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(got) }, first
}

func TestWallShowsAFixedWorld(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SHELL", "1")
	p, lines, _ := start(t, "show", "--kubeconfig={kubeconfig}", "x y")
	<-p.Done()
	if got := p.Exit(); got != (Exit{Code: 3}) {
		t.Errorf("exit is %+v", got)
	}
	out := lines()
	slices.Sort(out) // stderr, stdout
	if len(out) != 2 || out[0] != `stderr: {"level":"error","msg":"no luck","n":1}` {
		t.Fatalf("output is %q", out)
	}
	var seen struct{ Args, Env []string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(out[1], "stdout: ")), &seen); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"--kubeconfig=/k/config", "x y"}, seen.Args); d != "" {
		t.Error(d)
	}
	var keys []string
	for _, kv := range seen.Env {
		k, _, _ := strings.Cut(kv, "=")
		keys = append(keys, k)
	}
	slices.Sort(keys)
	want := []string{"GUEST", "HOME", "HOSTNAME", "KUBECONFIG", "LANG", "PATH", "POD_NAME", "POD_NAMESPACE", "TMPDIR", "TZ"}
	if d := cmp.Diff(want, keys); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
}

func TestWallStops(t *testing.T) {
	p, lines, ready := start(t, "obey")
	<-ready
	if got, want := p.Stop(time.Minute), (Exit{Stopped: true}); got != want {
		t.Errorf("exit is %+v, want %+v", got, want)
	}
	if d := cmp.Diff([]string{"stdout: ready", "stdout: got terminated"}, lines()); d != "" {
		t.Error(d)
	}
}

func TestWallKills(t *testing.T) {
	p, _, ready := start(t, "refuse")
	<-ready
	if got, want := p.Stop(10*time.Millisecond), (Exit{Code: -1, Signal: "SIGKILL", Stopped: true}); got != want {
		t.Errorf("exit is %+v, want %+v", got, want)
	}
	if got := p.Stop(time.Minute); got.String() != "killed by SIGKILL (stopped by opsim)" {
		t.Errorf("a second Stop says %q", got)
	}
}

func TestExitForMachines(t *testing.T) {
	for want, e := range map[string]Exit{
		`{"code":3,"stopped":false}`:                    {Code: 3},
		`{"code":-1,"signal":"SIGKILL","stopped":true}`: {Code: -1, Signal: SignalName(syscall.SIGKILL), Stopped: true},
	} {
		if got, err := json.Marshal(e); err != nil || string(got) != want {
			t.Errorf("%s, want %s (%v)", got, want, err)
		}
	}
}

// TestWallLeavesNobody: a grandchild in the group dies with the process and does not hold up its end.
func TestWallLeavesNobody(t *testing.T) {
	p, lines, _ := start(t, "child")
	<-p.Done()
	out := lines()
	if len(out) == 0 {
		t.Fatal("the guest said nothing")
	}
	pid, err := strconv.Atoi(strings.TrimPrefix(out[0], "stdout: "))
	if err != nil {
		t.Fatal(err)
	}
	// SIGKILL was sent before Done; the process may be a zombie until init takes it, which has no command line.
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil && len(cmdline) > 0 {
		t.Errorf("grandchild %d still runs", pid)
	}
}

func TestCommandErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "README")
	script := filepath.Join(dir, "script")
	for path, mode := range map[string]os.FileMode{text: 0o644, script: 0o755} {
		if err := os.WriteFile(path, []byte("hello"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("PATH", ".")
	for name, want := range map[string]string{
		"no-such-operator": `operator command "no-such-operator": not on the PATH`,
		"./gone":           `operator command "./gone": no such file`,
		dir:                `operator command "` + dir + `": not an executable file`,
		text:               `operator command "` + text + `": not an executable file`,
		script:             `operator command "` + script + `": cannot be executed here: exec format error`,
		"script":           `operator command "script": not on the PATH, only in this folder; say ./script`,
	} {
		_, err := Wall{}.Start(Spec{Command: []string{name}})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if bad, ok := errors.AsType[*CommandError](err); !ok || !bad.BadInput() {
			t.Errorf("%s: not marked as bad input", name)
		}
	}
}

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		"./manager":                        {"./manager"},
		"  a  b\tc\n":                      {"a", "b", "c"},
		`a 'b c' "d \"e\" \\ \n" f\ g "" `: {"a", "b c", `d "e" \ \n`, "f g", ""},
		`a=b"c d"'e'`:                      {"a=bc de"},
		`a $HOME * | b`:                    {"a", "$HOME", "*", "|", "b"},
	} {
		got, err := Split(line)
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", line, d)
		}
	}
	for _, line := range []string{"", "  ", `a "b`, `a 'b`, `a \`, `""`} {
		if got, err := Split(line); err == nil {
			t.Errorf("%q splits into %q", line, got)
		}
	}
}

type appender struct{ rows []traces.Record }

func (a *appender) Append(r traces.Record) error { a.rows = append(a.rows, r); return nil }
func (a *appender) Seq() int64                   { return int64(len(a.rows)) }

func TestLogTo(t *testing.T) {
	var rows appender
	LogTo(&rows, "op", func() time.Time { return time.Unix(5, 0) })("stderr", `{"level":"error","msg":"no luck","n":1}`)
	want := &traces.Log{
		Head: traces.Head{TS: 5e9}, Process: "op", Stream: "stderr",
		Level: "error", Message: "no luck", Fields: `{"n":1}`,
	}
	if d := cmp.Diff([]traces.Record{want}, rows.rows); d != "" {
		t.Error(d)
	}
}

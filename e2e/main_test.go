package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bin is the folder of the binaries under test, zoo/ in it that of the operators.
var bin string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "opreplay-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin = dir
	for out, packages := range map[string][]string{
		".":   {"./cmd/oprec", "./cmd/opsim", "./examples/operators/play"},
		"zoo": {"./examples/operators/statusloop", "./examples/operators/statusrace", "./examples/operators/orphanfinalizer", "./examples/operators/halfcreate", "./examples/operators/twoleaders"},
	} {
		if err := os.MkdirAll(filepath.Join(bin, out), 0o700); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		build := exec.CommandContext(context.Background(), "go", append([]string{"build", "-o", filepath.Join(bin, out) + "/"}, packages...)...)
		build.Dir = ".."
		if text, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, text)
			return 1
		}
	}
	return m.Run()
}

// result is how a program ended.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a binary under test to its end.
func run(t *testing.T, name string, args ...string) result {
	t.Helper()
	p := start(t, name, args...)
	return p.wait()
}

// mustRun is run for what must end with one of the exit codes.
func mustRun(t *testing.T, codes []int, name string, args ...string) string {
	t.Helper()
	got := run(t, name, args...)
	for _, code := range codes {
		if got.code == code {
			return got.stdout
		}
	}
	t.Fatalf("%s %s: exit code %d\n%s%s", name, strings.Join(args, " "), got.code, got.stdout, got.stderr)
	return ""
}

// program is a binary under test at work.
type program struct {
	t              *testing.T
	cmd            *exec.Cmd
	done           chan struct{}
	stdout, stderr bytes.Buffer
	printed        *lookout
	err            error
}

// start starts a binary under test in a folder of its own. The test's end ends it.
func start(t *testing.T, name string, args ...string) *program {
	t.Helper()
	p := &program{t: t, done: make(chan struct{})}
	p.printed = &lookout{into: &p.stderr}
	// Not the test's context: it ends before the cleanup, which is to end the program.
	p.cmd = exec.CommandContext(context.Background(), filepath.Join(bin, name), args...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append(os.Environ(), "KUBECONFIG=", "HOME="+p.cmd.Dir)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, p.printed
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		select {
		case <-p.done:
		default:
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	})
	return p
}

// limit is how long anything that a test waits for may take.
const limit = 2 * time.Minute

// await waits until the program has printed the phrase on standard error.
func (p *program) await(phrase string) {
	p.t.Helper()
	select {
	case <-p.printed.wait(phrase):
	case <-p.done:
		p.t.Fatalf("%v ended (%v) before it printed %q\n%s", p.cmd, p.err, phrase, p.stderr.String())
	case <-time.After(limit):
		p.t.Fatalf("%v did not print %q within %v", p.cmd, phrase, limit)
	}
}

// interrupt is what ^C does.
func (p *program) interrupt() {
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) wait() result {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Fatalf("%v had not ended after %v\n%s", p.cmd, limit, p.stderr.String())
	}
	if _, isExit := errors.AsType[*exec.ExitError](p.err); p.err != nil && !isExit {
		p.t.Fatal(p.err)
	}
	return result{p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
}

// within is a context for what a test waits for.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

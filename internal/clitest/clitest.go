package clitest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// asProgram in the environment makes the test binary be the program. It is inherited, so a program that
// starts itself starts itself.
const asProgram = "CLITEST_AS_PROGRAM"

// limit is how long a program may take.
const limit = 2 * time.Minute

// Main runs the tests, or PROGRAM where Run started this process.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// Result is how a program ended.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs the program with ARGS in a folder of its own, with no kubeconfig but what ARGS name.
func Run(t testing.TB, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := command(ctx, t, args)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s had not ended after %v\n%s", strings.Join(args, " "), limit, stderr.String())
	}
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
		t.Fatal(err)
	}
	return Result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Children has every process that this test starts from the test binary, by whatever way, be the program.
func Children(t *testing.T) { t.Setenv(asProgram, "1") }

// Command is the program with ARGS, to be started by the caller, in a folder of its own. What still runs
// two minutes later is killed.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	// Not the test's context: it ends before the cleanups, one of which may want an orderly end.
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return command(ctx, t, args)
}

func command(ctx context.Context, t testing.TB, args []string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), asProgram+"=1", "KUBECONFIG=", "HOME="+cmd.Dir)
	return cmd
}

// Refuses asserts that the program calls ARGS bad usage or bad input: exit code 2, nothing on standard
// output, and one line on standard error that has all of MENTIONS. Mistakes in flags may be followed by
// one more line that points to the help.
func Refuses(t *testing.T, args []string, mentions ...string) {
	t.Helper()
	got := Run(t, args...)
	call := strings.Join(args, " ")
	if got.Code != 2 {
		t.Errorf("%s: exit code %d, want 2", call, got.Code)
	}
	if got.Stdout != "" {
		t.Errorf("%s: printed on standard output: %s", call, got.Stdout)
	}
	first, rest, whole := strings.Cut(got.Stderr, "\n")
	hint := rest == "" || strings.HasPrefix(rest, "see '") && strings.Count(rest, "\n") == 1
	if !whole || first == "" || !hint {
		t.Errorf("%s: want one line on standard error, got:\n%s", call, got.Stderr)
	}
	for _, m := range mentions {
		if !strings.Contains(got.Stderr, m) {
			t.Errorf("%s: the error does not mention %q: %s", call, m, got.Stderr)
		}
	}
}

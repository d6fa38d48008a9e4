// Package guest builds and runs the programs that tests look at.
package guest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Stripped is how a program is built that is shipped: without symbols and debug information.
const Stripped = "-ldflags=-s -w"

// Build compiles the program in FOLDER for Linux on amd64 and returns its path.
func Build(t testing.TB, folder string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(folder))
	build := exec.Command("go", append(append([]string{"build"}, flags...), "-o", out, folder)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	return out
}

// Process is a program that runs until its test ends: then its input does, and it is waited for.
type Process struct {
	PID int
	t   testing.TB
	in  io.WriteCloser
	out *bufio.Scanner
}

// Start runs the program at PATH.
func Start(t testing.TB, path string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &Process{PID: cmd.Process.Pid, t: t, in: in, out: bufio.NewScanner(out)}
}

// Say gives the program a line.
func (p *Process) Say(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// Line is the next line that the program prints.
func (p *Process) Line() string {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("the guest printed nothing more: %v", p.out.Err())
	}
	return p.out.Text()
}

// Closing closes C when the test ends, whose error is the test's.
func Closing(t testing.TB, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

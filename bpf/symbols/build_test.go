package symbols

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// forms are the ways in which the test program is built.
var forms = []struct {
	name  string
	flags []string
}{
	{"plain", nil},
	{"stripped", []string{"-ldflags=-s -w"}},
	{"pie", []string{"-buildmode=pie", "-ldflags=-s -w"}},
}

// build compiles testdata/guest.
func build(t testing.TB, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "guest")
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", out, "./testdata/guest")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	return out
}

func open(t testing.TB, path string) *Binary {
	t.Helper()
	b, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

package virtual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExe: a program is the same run wherever it lies, and finds itself where it is told that it is.
func TestExe(t *testing.T) {
	const exe = "/usr/local/bin/some-manager"
	at := func(s *Spec) { s.Exe = exe }
	one := same(t, 2, guest(Options{Seed: 1}, "exe", nil, at))
	contains(t, one.out, "executable "+exe+" <nil>", "link "+exe+" <nil>", "mode -r-xr-xr-x true <nil>", "program true <nil>", "found "+exe+" <nil>",
		"started again: "+exe+"\n<nil>", "started again: /proc/self/exe\n<nil>")
	far := filepath.Join(t.TempDir(), strings.Repeat("a long way ", 15))
	if err := os.Mkdir(far, 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(guests, "exe"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(far, "exe"), program, 0o700); err != nil {
		t.Fatal(err)
	}
	elsewhere := guest(Options{Seed: 1}, "exe", nil, at, func(s *Spec) { s.Path = filepath.Join(far, "exe") })(t)
	if elsewhere.out != one.out || elsewhere.hash != one.hash {
		t.Errorf("elsewhere it is another run: %s %s, %s %s", elsewhere.hash, elsewhere.out, one.hash, one.out)
	}
}

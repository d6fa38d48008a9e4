package bpf

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// compiler is the clang that the committed programs are made with: another one's are other bytes.
const compiler = "clang version 14."

// generators are the packages with programs.
var generators = []string{".", "probes", "events"}

// The programs that are committed are what their sources make, with all that is generated beside them.
func TestProgramsAreWhatTheirSourcesMake(t *testing.T) {
	version, err := exec.Command("clang", "--version").Output()
	if err != nil {
		t.Skipf("SKIPPED: there is no clang to make the programs anew: %v", err)
	}
	if !strings.Contains(string(version), compiler) {
		first, _, _ := strings.Cut(string(version), "\n")
		t.Skipf("SKIPPED: the programs are made with %s…; here is %s, which makes others", compiler, first)
	}
	if _, err := os.Stat("/usr/include/bpf/bpf_helpers.h"); err != nil {
		t.Skipf("SKIPPED: libbpf's headers are missing (libbpf-dev): %v", err)
	}
	readSources(t)
	for _, pkg := range generators {
		for _, args := range commands(t, pkg) {
			out := t.TempDir()
			cmd := exec.Command("go", slices.Concat([]string{"run", args[0], "-output-dir", out}, args[1:])...)
			cmd.Dir = pkg
			cmd.Env = append(os.Environ(), "GOPACKAGE="+packageName(t, pkg))
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", pkg, err, text)
			}
			compare(t, out, pkg)
		}
	}
}

// readSources has go test know on which files the result depends, so that it runs anew when they change.
func readSources(t *testing.T) {
	t.Helper()
	sources, err := filepath.Glob("kernel/*")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	for _, file := range sources {
		if _, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
}

// commands are the arguments of go run in a package's generate.go.
func commands(t *testing.T, pkg string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(pkg, "generate.go"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if args, ok := strings.CutPrefix(line, "//go:generate go run "); ok {
			all = append(all, strings.Fields(args))
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s generates nothing", pkg)
	}
	return all
}

func packageName(t *testing.T, pkg string) string {
	t.Helper()
	folder, err := filepath.Abs(pkg)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(folder)
}

func compare(t *testing.T, made, committed string) {
	t.Helper()
	files, err := os.ReadDir(made)
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing was made: %v", err)
	}
	for _, f := range files {
		want, err := os.ReadFile(filepath.Join(made, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(committed, f.Name()))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what its source makes: run make generate (%v)", filepath.Join(committed, f.Name()), err)
		}
	}
}

package livecluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fakeSource is a module in the place of the control plane's, whose etcd is the program MAIN: what
// matters here is not what is built.
func fakeSource(t *testing.T, main string) *source {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module " + programs[Etcd].pkg + "\n\ngo 1.26.0\n",
		"main.go": "package main\n\n" + main,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &source{dir: dir, version: "v1.37.2", cache: filepath.Join(t.TempDir(), "cache")}
}

func TestParallelCallersBuildOnce(t *testing.T) {
	s := fakeSource(t, `func main() { println("burrow") }`)
	if err := os.MkdirAll(s.cache, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.cache, Etcd+".new"), []byte("half of a killed build"), 0o600); err != nil {
		t.Fatal(err)
	}
	var builds atomic.Int32
	progress := func(format string, _ ...any) {
		if strings.HasPrefix(format, "building") {
			builds.Add(1)
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			found, err := s.build(t.Context(), progress, []string{Etcd})
			if err != nil {
				t.Error(err)
				return
			}
			if out, err := exec.Command(found[Etcd]).CombinedOutput(); err != nil || string(out) != "burrow\n" {
				t.Errorf("what was built printed %q, %v", out, err)
			}
		})
	}
	wg.Wait()
	if builds.Load() != 1 {
		t.Errorf("built %d times, want once", builds.Load())
	}
}

func TestFailedBuildLeavesNothingAndSaysWhy(t *testing.T) {
	s := fakeSource(t, `func main() { hop() }`)
	_, err := s.build(t.Context(), t.Logf, []string{Etcd})
	if err == nil || !strings.Contains(err.Error(), "undefined: hop") {
		t.Errorf("got %v, want the compiler's complaint", err)
	}
	left, err := filepath.Glob(filepath.Join(s.cache, Etcd+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestBuildOutOfTimeSaysWhatToDo(t *testing.T) {
	s := fakeSource(t, `func main() {}`)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the day is over"))
	_, err := s.build(ctx, t.Logf, []string{Etcd})
	if err == nil || !strings.Contains(err.Error(), "the day is over") || !strings.Contains(err.Error(), "--build-only") {
		t.Errorf("got %v, want the cause and what to do", err)
	}
}

func TestBuildWithoutGoSaysWhatToDo(t *testing.T) {
	s := fakeSource(t, `func main() {}`)
	t.Setenv("PATH", t.TempDir())
	_, err := s.build(t.Context(), t.Logf, []string{Etcd})
	if err == nil || !strings.Contains(err.Error(), "go.dev/dl") || !strings.Contains(err.Error(), assetsEnv) {
		t.Errorf("got %v, want where to get Go, and %s", err, assetsEnv)
	}
}

func TestReadyBinariesComeFirst(t *testing.T) {
	assets, path := t.TempDir(), t.TempDir()
	for _, f := range []string{filepath.Join(assets, Etcd), filepath.Join(path, Etcd), filepath.Join(path, APIServer)} {
		if err := os.WriteFile(f, []byte("#!/bin/sh\necho one\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", path)
	t.Setenv(assetsEnv, assets)
	var heard []string
	found, err := Binaries(t.Context(), func(format string, args ...any) { heard = append(heard, fmt.Sprintf(format, args...)) }, Etcd, APIServer)
	if err != nil {
		t.Fatal(err)
	}
	if found[Etcd] != filepath.Join(assets, Etcd) || found[APIServer] != filepath.Join(path, APIServer) {
		t.Errorf("found %v, want etcd of the assets and kube-apiserver of PATH", found)
	}
	if want := "using " + found[Etcd] + " (one)"; len(heard) != 2 || heard[0] != want {
		t.Errorf("heard %q, want first %q", heard, want)
	}
	t.Setenv(assetsEnv, filepath.Join(assets, "none"))
	if _, err := Binaries(t.Context(), nil, Etcd); err == nil || !strings.Contains(err.Error(), assetsEnv) {
		t.Errorf("a folder of assets that is not there: %v", err)
	}
}

func TestSourceIsFoundFromWithinTheCheckoutOnly(t *testing.T) {
	s, err := findSource()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(filepath.Base(s.cache), s.version+"-") || !strings.HasPrefix(s.version, "v1.") {
		t.Errorf("%s is cached in %s", s.version, s.cache)
	}
	t.Chdir(t.TempDir())
	if _, err := findSource(); err == nil || !strings.Contains(err.Error(), assetsEnv) {
		t.Errorf("outside: got %v, want what to do", err)
	}
}

func TestAbandonedFolders(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	mkdir := func(name, lock string) string {
		dir := filepath.Join(tmp, name)
		if err := os.MkdirAll(filepath.Join(dir, "etcd"), 0o700); err != nil {
			t.Fatal(err)
		}
		if lock != "" {
			if err := os.WriteFile(filepath.Join(dir, lock), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	abandoned := mkdir("opreplay-cluster-1", lockName)
	unknown := mkdir("opreplay-cluster-2", "") // no lock and not empty: not of our making
	other := mkdir("another-folder", lockName)
	living, err := claimTemp()
	if err != nil {
		t.Fatal(err)
	}
	mine, err := claimDir("")
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{abandoned: false, unknown: true, other: true, living.path: true, mine.path: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", filepath.Base(dir), err == nil, want)
		}
	}
	if err := mine.release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mine.path); err == nil {
		t.Error("a released folder is still there")
	}
}

func TestReservedPortsAreDistinctAndOurs(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		p, err := reservePort()
		if err != nil {
			t.Fatal(err)
		}
		defer p.release()
		if seen[p.number] {
			t.Errorf("port %d was given twice", p.number)
		}
		seen[p.number] = true
	}
}

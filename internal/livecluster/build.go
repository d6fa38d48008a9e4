package livecluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// programs are what the module controlplane can build.
var programs = map[string]struct {
	pkg   string
	about string // time of a build from nothing, in this order, on two cores
}{
	Etcd:              {"go.etcd.io/etcd/server/v3", "about a minute"},
	APIServer:         {"k8s.io/kubernetes/cmd/kube-apiserver", "about six minutes"},
	ControllerManager: {"k8s.io/kubernetes/cmd/kube-controller-manager", "about two minutes"},
	Kubectl:           {"k8s.io/kubernetes/cmd/kubectl", "about a minute"},
}

// buildEnv and the flag -trimpath within it are those of the product's own builds, so that the packages
// that both need are compiled once. Everything else that could differ is set to its default.
func buildEnv() []string {
	return append(os.Environ(),
		"CGO_ENABLED=0",
		"GOFLAGS=-trimpath",
		"GOWORK=off",
		"GOOS="+runtime.GOOS,
		"GOARCH="+runtime.GOARCH,
	)
}

// ldflags put the version in, as Kubernetes' own build does. Without it the server says
// v0.0.0-master+$Format:%H$, at which `kubectl version` fails, and so do the user agents.
func ldflags(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	flags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range [][2]string{
			{"gitVersion", version},
			{"gitMajor", parts[0]},
			{"gitMinor", parts[1]},
			{"gitCommit", "unknown"},
			{"gitTreeState", "clean"},
		} {
			flags = append(flags, "-X "+pkg+"."+v[0]+"="+v[1])
		}
	}
	return strings.Join(flags, " ")
}

// source is the module that the programs are built from.
type source struct {
	dir     string
	version string // of Kubernetes
	cache   string // the folder of what was built from exactly this
}

// build finds or makes the programs NAMES in the cache.
func build(ctx context.Context, progress func(string, ...any), names []string) (map[string]string, error) {
	src, err := findSource()
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", strings.Join(names, ", "), err)
	}
	return src.build(ctx, progress, names)
}

// build finds or makes programs. One process builds at a time; others wait and find its work.
func (s *source) build(ctx context.Context, progress func(string, ...any), names []string) (map[string]string, error) {
	paths := map[string]string{}
	var missing []string
	for _, name := range names {
		paths[name] = filepath.Join(s.cache, name)
		if _, err := os.Stat(paths[name]); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return paths, nil
	}
	if err := os.MkdirAll(s.cache, 0o700); err != nil {
		return nil, fmt.Errorf("make the cache for %s: %w", strings.Join(missing, ", "), err)
	}
	lock, err := waitLock(ctx, progress, filepath.Join(s.cache, "build.lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	for _, name := range missing {
		if err := s.make(ctx, progress, name, paths[name]); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// findSource looks for our checkout from the current folder upwards, for that is where tests and
// `go run` are.
func findSource() (*source, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && productModule.Match(mod) {
			return openSource(filepath.Join(dir, "internal", "livecluster", "controlplane"))
		}
		if dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("%s lies in no checkout of github.com/opreplay/opreplay, whose module internal/livecluster/controlplane "+
				"they are built from: run from within one, or set %s to a folder that has them", wd, assetsEnv)
		}
	}
}

var (
	productModule     = regexp.MustCompile(`(?m)^module github\.com/opreplay/opreplay$`)
	kubernetesVersion = regexp.MustCompile(`(?m)^(?:require )?\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+\S*)`)
)

func openSource(dir string) (*source, error) {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return nil, err
	}
	match := kubernetesVersion.FindSubmatch(mod)
	if match == nil {
		return nil, fmt.Errorf("%s requires no k8s.io/kubernetes", filepath.Join(dir, "go.mod"))
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("%w: set XDG_CACHE_HOME or HOME, or %s to a folder with binaries", err, assetsEnv)
	}
	s := &source{dir: dir, version: string(match[1])}
	hash := sha256.New()
	for _, part := range [][]byte{mod, sum, []byte(ldflags(s.version)), []byte(runtime.GOOS), []byte(runtime.GOARCH)} {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	s.cache = filepath.Join(base, "opreplay", "controlplane", fmt.Sprintf("%s-%x", s.version, hash.Sum(nil)[:6]))
	return s, nil
}

// waitLock waits for the lock PATH.
func waitLock(ctx context.Context, progress func(string, ...any), path string) (*os.File, error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for told := false; ; told = true {
		lock, err := tryLock(path, os.O_CREATE)
		if lock != nil || err != nil {
			return lock, err
		}
		if !told {
			progress("waiting for another process, which builds the control plane")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another process, which builds the control plane (its lock is %s): %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// make builds the program NAME into the file PATH, which appears only when it is whole. The caller holds
// the lock.
func (s *source) make(ctx context.Context, progress func(string, ...any), name, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil // another made it while we waited
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("%s is neither in $%s nor on PATH, and to build it the Go tool is needed, which is not on PATH: "+
			"install Go from https://go.dev/dl, or set %s", name, assetsEnv, assetsEnv)
	}
	progress("building %s for Kubernetes %s from its Go module, once: %s on 2 cores, seconds if its packages are in Go's build cache", name, s.version, programs[name].about)
	began := time.Now()
	temp := path + ".new"
	_ = os.Remove(temp) // the rest of a killed build, if any: the Go tool overwrites only whole programs
	if err := s.compile(ctx, goTool, name, temp); err != nil {
		_ = os.Remove(temp)
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	progress("built %s in %v: %s", name, time.Since(began).Round(time.Second), path)
	return nil
}

// compile runs the Go tool, under a guard of its own so that a killed test leaves no build behind. What
// was compiled until then stays in Go's cache.
func (s *source) compile(ctx context.Context, goTool, name, out string) error {
	g, err := newGuard()
	if err != nil {
		return err
	}
	defer g.close()
	cmd := exec.CommandContext(ctx, goTool, "build", "-ldflags="+ldflags(s.version), "-o", out, programs[name].pkg)
	cmd.Dir = s.dir
	cmd.Env = append(buildEnv(), "PWD="+s.dir)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // the Go tool then tidies up
	cmd.WaitDelay = 10 * time.Second
	g.join(cmd)
	err = cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w before %s was built: build first, with `go run ./internal/livecluster/cmd/cluster --build-only`; "+
			"what is compiled so far is kept", context.Cause(ctx), name)
	default:
		return fmt.Errorf("build %s in %s: %w\n%s", name, s.dir, err, bytes.TrimSpace(output.Bytes()))
	}
}

package livecluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The programs of a control plane.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Kubectl           = "kubectl"
)

// assetsEnv is the folder of ready binaries, as controller-runtime's envtest has it.
const assetsEnv = "KUBEBUILDER_ASSETS"

// Binaries finds the programs NAMES: in the folder KUBEBUILDER_ASSETS, else on PATH, else in our cache,
// else by building them. PROGRESS (which may be nil) hears of builds and of binaries that are not of
// our own making.
func Binaries(ctx context.Context, progress func(format string, args ...any), names ...string) (map[string]string, error) {
	if progress == nil {
		progress = func(string, ...any) {}
	}
	found := make(map[string]string, len(names))
	var missing []string
	for _, name := range names {
		path, err := ready(name)
		if err != nil {
			return nil, err
		}
		if path == "" {
			missing = append(missing, name)
			continue
		}
		progress("using %s (%s)", path, versionOf(ctx, name, path))
		found[name] = path
	}
	if len(missing) == 0 {
		return found, nil
	}
	built, err := build(ctx, progress, missing)
	for name, path := range built {
		found[name] = path
	}
	return found, err
}

// ready finds a program that is there already, or "".
func ready(name string) (string, error) {
	if dir := os.Getenv(assetsEnv); dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return "", fmt.Errorf("%s is set to a folder that cannot be read: %w", assetsEnv, err)
		}
		path, err := exec.LookPath(filepath.Join(dir, name))
		if err == nil {
			return filepath.Abs(path)
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", nil
	}
	return filepath.Abs(path)
}

// versionOf asks a foreign program for its version: that of the servers may differ from what our tests
// were made for, and then a failing test should say so.
func versionOf(ctx context.Context, name, path string) string {
	args := []string{"--version"}
	if name == Kubectl {
		args = []string{"version", "--client"}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return "does not tell its version: " + err.Error()
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

package pins

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Kubernetes is the module whose version stands for the control plane's.
const Kubernetes = "k8s.io/kubernetes"

// Module is what the go.mod in the folder Dir requires: versions by module path.
type Module struct {
	Dir      string
	Versions map[string]string
}

// Read reads the go.mod in DIR by the Go tool.
func Read(ctx context.Context, dir string) (Module, error) {
	out, err := Go(ctx, dir, "mod", "edit", "-json")
	if err != nil {
		return Module{}, err
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return Module{}, fmt.Errorf("read go.mod in %s: %w", dir, err)
	}
	m := Module{Dir: dir, Versions: make(map[string]string, len(mod.Require))}
	for _, r := range mod.Require {
		m.Versions[r.Path] = r.Version
	}
	return m, nil
}

// Go runs the Go tool in the folder DIR.
func Go(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), dir, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// Difference is a module that two others require in different versions.
type Difference struct{ Path, A, B string }

// Differences lists the modules that A and B both require, in different versions, by path.
func Differences(a, b Module) []Difference {
	var all []Difference
	for path, va := range a.Versions {
		if vb, both := b.Versions[path]; both && va != vb {
			all = append(all, Difference{path, va, vb})
		}
	}
	slices.SortFunc(all, func(x, y Difference) int { return strings.Compare(x.Path, y.Path) })
	return all
}

// Higher is the higher of the two versions.
func (d Difference) Higher() (string, error) {
	a, err := version.ParseSemantic(d.A)
	if err != nil {
		return "", fmt.Errorf("%s: %w", d.Path, err)
	}
	b, err := version.ParseSemantic(d.B)
	if err != nil {
		return "", fmt.Errorf("%s: %w", d.Path, err)
	}
	if a.LessThan(b) {
		return d.B, nil
	}
	return d.A, nil
}

// Staging maps the modules that Kubernetes publishes from its own tree (k8s.io/api and so on), as far as
// M requires them, from M's version of Kubernetes to the version TO: v1.38.0 goes with v0.38.0.
func (m Module) Staging(to string) (map[string]string, error) {
	from, ok := m.Versions[Kubernetes]
	if !ok {
		return nil, fmt.Errorf("go.mod in %s does not require %s", m.Dir, Kubernetes)
	}
	fromMinor, ok1 := strings.CutPrefix(from, "v1.")
	toMinor, ok2 := strings.CutPrefix(to, "v1.")
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("move %s from %s to %s: want versions such as v1.38.0", Kubernetes, from, to)
	}
	moved := map[string]string{Kubernetes: to}
	for path, v := range m.Versions {
		if strings.HasPrefix(path, "k8s.io/") && v == "v0."+fromMinor {
			moved[path] = "v0." + toMinor
		}
	}
	return moved, nil
}

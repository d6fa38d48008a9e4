// Command pin keeps go.mod and internal/livecluster/controlplane/go.mod on the same versions.
//
//	go generate ./internal/livecluster                  # raise the lower of each difference
//	go run ./internal/livecluster/cmd/pin v1.38.0       # first move both to that Kubernetes
//
// It edits both files and runs go mod tidy, for which it needs a module proxy.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/opreplay/opreplay/internal/livecluster/pins"
)

// rounds bounds the tidying: raising one module may raise others.
const rounds = 10

func main() {
	if len(os.Args) > 2 {
		fmt.Fprintln(os.Stderr, "usage: pin [VERSION OF KUBERNETES]")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pin:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	gomod, err := pins.Go(ctx, ".", "env", "GOMOD")
	if err != nil {
		return err
	}
	root := filepath.Dir(strings.TrimSpace(string(gomod)))
	dirs := []string{root, filepath.Join(root, "internal", "livecluster", "controlplane")}
	if len(args) == 1 {
		for _, dir := range dirs {
			if err := move(ctx, dir, args[0]); err != nil {
				return err
			}
		}
	}
	for range rounds {
		raised, err := raise(ctx, dirs[0], dirs[1])
		if err != nil || !raised {
			return err
		}
	}
	return fmt.Errorf("the two go.mod files still differ after %d rounds", rounds)
}

// move takes the module in DIR to another version of Kubernetes.
func move(ctx context.Context, dir, version string) error {
	m, err := pins.Read(ctx, dir)
	if err != nil {
		return err
	}
	moved, err := m.Staging(version)
	if err != nil {
		return err
	}
	return require(ctx, dir, moved)
}

// raise raises the lower of each difference, and tells whether there was one.
func raise(ctx context.Context, dirA, dirB string) (bool, error) {
	a, err := pins.Read(ctx, dirA)
	if err != nil {
		return false, err
	}
	b, err := pins.Read(ctx, dirB)
	if err != nil {
		return false, err
	}
	differences := pins.Differences(a, b)
	raiseA, raiseB := map[string]string{}, map[string]string{}
	for _, d := range differences {
		higher, err := d.Higher()
		if err != nil {
			return false, err
		}
		fmt.Printf("%s: %s and %s, now %s\n", d.Path, d.A, d.B, higher)
		if d.A == higher {
			raiseB[d.Path] = higher
		} else {
			raiseA[d.Path] = higher
		}
	}
	if err := require(ctx, dirA, raiseA); err != nil {
		return false, err
	}
	return len(differences) > 0, require(ctx, dirB, raiseB)
}

// require sets versions in the go.mod in DIR and tidies it.
func require(ctx context.Context, dir string, versions map[string]string) error {
	if len(versions) == 0 {
		return nil
	}
	args := []string{"mod", "edit"}
	for path, v := range versions {
		args = append(args, "-require="+path+"@"+v)
	}
	if _, err := pins.Go(ctx, dir, args...); err != nil {
		return err
	}
	_, err := pins.Go(ctx, dir, "mod", "tidy")
	return err
}

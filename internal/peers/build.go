package peers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/opreplay/opreplay/internal/livecluster/pins"
)

// Module is a module and those of its packages whose suites are run.
type Module struct {
	Path     string
	Packages []string // below Path
}

// ControllerRuntime is what operators are built of, in the version that this project pins.
var ControllerRuntime = Module{
	Path: "sigs.k8s.io/controller-runtime",
	Packages: []string{
		"pkg/client", "pkg/cache", "pkg/controller", "pkg/controller/controllerutil",
		"pkg/finalizer", "pkg/manager", "pkg/webhook", "pkg/builder",
	},
}

// Suites are test programs that were built.
type Suites struct {
	Module
	Version string
	dir     string // of the copy; programs are in bin/, reports in a folder for each run
}

// Progress is told what takes long.
type Progress func(format string, args ...any)

// Build copies the module into the folder DIR and builds the packages' tests. It runs in our checkout.
func Build(ctx context.Context, m Module, dir string, progress Progress) (*Suites, error) {
	where, err := pins.Go(ctx, ".", "list", "-m", "-f", "{{.Dir}}\n{{.Version}}", m.Path)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(where), "\n")
	if lines[0] == "" {
		return nil, fmt.Errorf("%s is not in the module cache: run go mod download", m.Path)
	}
	s := &Suites{Module: m, Version: lines[1], dir: dir}
	if err := os.CopyFS(s.source(), os.DirFS(lines[0])); err != nil {
		return nil, fmt.Errorf("copy %s: %w", m.Path, err)
	}
	if err := s.pin(ctx); err != nil {
		return nil, err
	}
	for i, pkg := range m.Packages {
		progress("building the tests of %s %s: %s (%d of %d)", m.Path, s.Version, pkg, i+1, len(m.Packages))
		if err := s.goTool(ctx, "test", "-c", "-o", s.program(pkg), "./"+pkg); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Suites) source() string { return filepath.Join(s.dir, "src") }

func (s *Suites) program(pkg string) string {
	return filepath.Join(s.dir, "bin", strings.ReplaceAll(pkg, "/", "-")+".test")
}

// pin raises the copy's requirements to ours. Its test dependencies are in its own go.sum, ours in ours.
func (s *Suites) pin(ctx context.Context) error {
	root, err := pins.Go(ctx, ".", "env", "GOMOD")
	if err != nil {
		return err
	}
	project := filepath.Dir(strings.TrimSpace(string(root)))
	ours, err := pins.Read(ctx, project)
	if err != nil {
		return err
	}
	theirs, err := pins.Read(ctx, s.source())
	if err != nil {
		return err
	}
	edit := []string{"mod", "edit"}
	for _, d := range pins.Differences(ours, theirs) {
		higher, err := d.Higher()
		if err != nil {
			return err
		}
		edit = append(edit, "-require="+d.Path+"@"+higher)
	}
	if len(edit) > 2 {
		if err := s.goTool(ctx, edit...); err != nil {
			return err
		}
	}
	sums, err := os.ReadFile(filepath.Join(project, "go.sum"))
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(s.source(), "go.sum"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := file.Write(sums); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// goTool runs the Go tool in the copy, which may complete its go.sum.
func (s *Suites) goTool(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = s.source()
	cmd.Env = append(os.Environ(), "PWD="+cmd.Dir, "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath -mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s in the copy of %s: %w\n%s", strings.Join(args, " "), s.Path, err, bytes.TrimSpace(out))
	}
	return nil
}

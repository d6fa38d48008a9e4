package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/opreplay/opreplay"

// floors are the rooms from the top of the house to the ground. A package may import what lies on a
// lower floor and what lies in its own room, nothing else of ours.
var floors = [][]string{
	{"cmd/oprec", "cmd/opsim", "examples", "e2e"},
	{"replay", "recorder", "analysis/report"},
	{"sim", "bpf", "analysis"},
	{"internal"},
	{"traces"},
}

// room finds the room that a package path (below the module) lies in, by its longest prefix.
func room(pkg string) (name string, floor int, ok bool) {
	for f, rooms := range floors {
		for _, r := range rooms {
			if (pkg == r || strings.HasPrefix(pkg, r+"/")) && len(r) > len(name) {
				name, floor, ok = r, f, true
			}
		}
	}
	return name, floor, ok
}

type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// list runs go list over PATTERNS, which costs no compilation.
func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,TestImports,XTestImports"}, args...)...)
	cmd.Dir = "../.."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []goPackage
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("go list printed no JSON: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

// violation says what is wrong with PKG importing DEP, or "".
func violation(pkg, dep string) string {
	from, fromFloor, ok := room(pkg)
	if !ok {
		return pkg + " lies in no room of the house: give it one in floors"
	}
	to, toFloor, ok := room(dep)
	if !ok {
		return dep + " lies in no room of the house: give it one in floors"
	}
	if from == to || toFloor > fromFloor {
		return ""
	}
	return pkg + " imports " + dep + ": imports run downward only"
}

func TestImportsRunDownward(t *testing.T) {
	pkgs := list(t, "./...")
	if len(pkgs) < 10 {
		t.Fatalf("go list saw %d packages: the test looks at the wrong place", len(pkgs))
	}
	for _, p := range pkgs {
		pkg := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imp := range p.Imports {
			if dep, ours := strings.CutPrefix(imp, module+"/"); ours {
				if v := violation(pkg, dep); v != "" {
					t.Error(v)
				}
			}
		}
	}
}

func TestFloors(t *testing.T) {
	for _, c := range []struct {
		pkg, dep string
		fine     bool
	}{
		{"cmd/opsim", "replay", true},
		{"replay", "sim/store", true},
		{"sim/apiserver", "sim/store", true},
		{"analysis/report", "analysis", true},
		{"analysis", "traces", true},
		{"recorder", "internal/apicall", true},
		{"analysis", "sim/store", false},
		{"sim/store", "replay", false},
		{"traces", "internal/cli", false},
		{"replay", "recorder", false},
		{"analysis", "analysis/report", false},
		{"attic", "traces", false},
	} {
		if v := violation(c.pkg, c.dep); (v == "") != c.fine {
			t.Errorf("%s importing %s: %q", c.pkg, c.dep, v)
		}
	}
}

// Only traces may know Parquet, and only opsim may carry the API server.
func TestHeavyLibrariesStayInTheirRooms(t *testing.T) {
	for _, p := range list(t, "./...") {
		pkg := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, "github.com/parquet-go/") && pkg != "traces" {
				t.Errorf("%s imports %s: Parquet is known to traces alone", pkg, imp)
			}
		}
	}
	for _, p := range list(t, "-deps", "./cmd/oprec") {
		if strings.HasPrefix(p.ImportPath, "k8s.io/kubernetes/") {
			t.Fatalf("oprec links %s: the recorder must stay small", p.ImportPath)
		}
	}
}

package stats

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// used are the functions of this package that the analysis calls, or that one it calls does.
func used(t *testing.T) map[string]bool {
	t.Helper()
	calls := map[string][]string{} // by function of this package, "" for the analysis
	for _, pattern := range []string{"*.go", "../*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				caller := ""
				if fn, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "stats" {
					caller = fn.Name.Name
				}
				ast.Inspect(d, func(n ast.Node) bool {
					switch x := n.(type) {
					case *ast.SelectorExpr:
						if p, ok := x.X.(*ast.Ident); ok && p.Name == "stats" {
							calls[caller] = append(calls[caller], x.Sel.Name)
						}
					case *ast.CallExpr:
						if id, ok := x.Fun.(*ast.Ident); ok && caller != "" {
							calls[caller] = append(calls[caller], id.Name)
						}
					}
					return true
				})
			}
		}
	}
	out := map[string]bool{}
	var reach func(string)
	reach = func(caller string) {
		for _, name := range calls[caller] {
			if !out[name] {
				out[name] = true
				reach(name)
			}
		}
	}
	reach("")
	return out
}

// No formula is without a use in the analysis.
func TestEveryFormulaIsUsed(t *testing.T) {
	called := used(t)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.IsExported() && !called[fn.Name.Name] && !strings.HasSuffix(name, "_test.go") {
				t.Errorf("no detector and no comparison uses %s", fn.Name.Name)
			}
		}
	}
}

package otelcollector

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Only the want of modules lets a test be skipped: not here yet, and nobody to get them from.
func TestOnlyModulesMayBeMissing(t *testing.T) {
	receiver, err := source()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir string
		missing   bool
		says      string // the error
	}{
		{"no modules", receiver, true, "go.opentelemetry.io/collector/pdata@"},
		{"no such name", program(t, "import _ \"fmt\"\n\nvar x = y"), false, "undefined: y"},
		{"a module that go.mod lacks", program(t, "import _ \"example.com/none\""), false, "no required module provides package example.com/none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOMODCACHE", t.TempDir())
			t.Setenv("GOPROXY", "http://127.0.0.1:1") // where nobody is
			t.Setenv("GOSUMDB", "off")
			err := compile(t.Context(), c.dir, filepath.Join(t.TempDir(), "program"))
			if err == nil || errors.Is(err, errNoModules) != c.missing || !strings.Contains(err.Error(), c.says) {
				t.Errorf("missing is not %v, or %q is not said: %v", c.missing, c.says, err)
			}
		})
	}
}

// program is the folder of a program that needs no module.
func program(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module program\n\ngo 1.26\n", "main.go": "package main\n\n" + text + "\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

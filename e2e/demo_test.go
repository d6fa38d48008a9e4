package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/opreplay/opreplay/traces/cases"
)

// The demo names each fault with object, cause and evidence, and has nothing to say of the mended twins.
func TestDemo(t *testing.T) {
	out := filepath.Join(t.TempDir(), "runs")
	text := mustRun(t, []int{0}, "opsim", "demo", "--out", out)
	for _, c := range cases.Plain() {
		_, part, ok := strings.Cut(text, c.Name+": ")
		if !ok {
			t.Errorf("the demo does not mention %s:\n%s", c.Name, text)
			continue
		}
		faulty, fixed, ok := strings.Cut(part, "\n  fixed ")
		if !ok {
			t.Errorf("%s has no mended twin:\n%s", c.Name, text)
			continue
		}
		for _, want := range []string{"faulty  " + c.Finding, "example.com", "cause  ", "evidence  seq ", filepath.Join(out, c.Name+"-faulty.optrace")} {
			if !strings.Contains(faulty, want) {
				t.Errorf("%s lacks %q:\n%s", c.Name, want, faulty)
			}
		}
		if first, _, _ := strings.Cut(fixed, "\n"); strings.TrimSpace(first) != "no findings" {
			t.Errorf("%s, the mended twin: %s", c.Name, first)
		}
		for _, twin := range []string{"faulty", "fixed"} {
			mustRun(t, []int{0}, "oprec", "verify", filepath.Join(out, c.Name+"-"+twin+".optrace"))
		}
	}
}

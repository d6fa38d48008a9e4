package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

func smallTrace(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t.optrace")
	w, err := traces.Create(dir, traces.Manifest{Tool: "test", Source: "capture"}, traces.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := w.Append(&traces.WatchEvent{Head: traces.Head{TS: 1}, Type: string(traces.Added), Object: "{}"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// oprec runs the two commands that read traces, as main does.
func oprec(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := &cobra.Command{Use: "oprec"}
	root.AddCommand(newInspectCmd(), newVerifyCmd())
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	code = cli.Run(t.Context(), root, &errs)
	return code, out.String(), errs.String()
}

func TestInspectAndVerifyAGoodTrace(t *testing.T) {
	dir := smallTrace(t)
	code, out, errs := oprec(t, "inspect", dir)
	if code != 0 || errs != "" || !strings.Contains(out, "10 watch events") {
		t.Errorf("inspect: code %d, out %q, err %q", code, out, errs)
	}
	code, out, errs = oprec(t, "inspect", dir, "-o", "json")
	var s struct{ Rows int }
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != 0 || s.Rows != 10 {
		t.Errorf("inspect -o json: code %d, rows %d, %v, err %q", code, s.Rows, err, errs)
	}
	code, out, errs = oprec(t, "verify", dir)
	if want := dir + ": 1 file, 10 rows, all is well\n"; code != 0 || out != want || errs != "" {
		t.Errorf("verify: code %d, out %q, err %q", code, out, errs)
	}
}

func TestVerifyADamagedTrace(t *testing.T) {
	dir := smallTrace(t)
	path := filepath.Join(dir, "watch-0001.parquet")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := oprec(t, "verify", dir)
	if code != 1 || errs != "" || !strings.HasPrefix(out, "watch-0001.parquet: its bytes are not those that were written") {
		t.Errorf("verify: code %d, out %q, err %q", code, out, errs)
	}
	code, out, _ = oprec(t, "verify", dir, "-o", "json")
	var r struct{ Problems []traces.Problem }
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 || len(r.Problems) != 1 {
		t.Errorf("verify -o json: code %d, out %q, %v", code, out, err)
	}
	code, out, errs = oprec(t, "inspect", dir)
	if code != 2 || out != "" || !strings.Contains(errs, path) {
		t.Errorf("inspect: code %d, out %q, err %q", code, out, errs)
	}
}

func TestBadInputIsOneLineAndCode2(t *testing.T) {
	dir := smallTrace(t)
	for _, args := range [][]string{
		{filepath.Join(dir, "nowhere")}, {t.TempDir()}, {filepath.Join(dir, traces.ManifestName)}, {}, {dir, dir}, {dir, "-o", "xml"},
	} {
		for _, command := range []string{"inspect", "verify"} {
			code, out, errs := oprec(t, append([]string{command}, args...)...)
			lines := strings.Split(strings.TrimSuffix(errs, "\n"), "\n")
			if code != 2 || out != "" || len(lines) > 2 || len(lines) == 2 && !strings.HasPrefix(lines[1], "see ") {
				t.Errorf("%s %q: code %d, out %q, err %q", command, args, code, out, errs)
			}
		}
	}
}

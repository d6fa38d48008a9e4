package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

type formatError struct{}

func (formatError) Error() string  { return "t.optrace/manifest.json: not JSON" }
func (formatError) BadInput() bool { return true }

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		code int
		text string
	}{
		{"fine", nil, 0, ""},
		{"findings print nothing more", fmt.Errorf("two: %w", ErrFindings), 1, ""},
		{"usage", Usagef("plan.yaml:3: unknown fault %q", "hodl"), 2, "x: plan.yaml:3: unknown fault \"hodl\"\n"},
		{"usage wrapped", fmt.Errorf("replay: %w", Usagef("no such file")), 2, "x: replay: no such file\n"},
		{"another package's bad input", fmt.Errorf("open: %w", formatError{}), 2, "x: open: t.optrace/manifest.json: not JSON\n"},
		{"cannot run outranks its cause", CannotRun(Usagef("inner")), 3, "x: inner\n"},
		{"unmarked", errors.New("first\nsecond"), 3, "x: first; second\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return c.err }}
			root.SetArgs(nil)
			var stderr bytes.Buffer
			if code := Run(context.Background(), root, &stderr); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if stderr.String() != c.text {
				t.Errorf("stderr %q, want %q", stderr.String(), c.text)
			}
		})
	}
}

func TestCobraComplaintsAreUsage(t *testing.T) {
	newRoot := func() *cobra.Command {
		root := &cobra.Command{Use: "x"}
		sub := &cobra.Command{Use: "verify TRACE", Args: cobra.ExactArgs(1), RunE: func(*cobra.Command, []string) error { return nil }}
		var form string
		OutputFlag(sub, &form, "text", "json")
		play := &cobra.Command{Use: "play", RunE: func(*cobra.Command, []string) error { return nil }}
		play.Flags().String("operator", "", "")
		_ = play.MarkFlagRequired("operator")
		root.AddCommand(sub, play)
		return root
	}
	for _, c := range []struct{ args, want string }{
		{"play", `required flag(s) "operator" not set`},
		{"verify", "accepts 1 arg(s)"},
		{"verify --nope t", "unknown flag: --nope"},
		{"verify t -o xml", "must be one of text, json"},
		{"verfy t", `did you mean "verify"?`},
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(c.args))
		var stderr bytes.Buffer
		if code := Run(context.Background(), root, &stderr); code != ExitUsage {
			t.Errorf("%s: exit code %d, want %d", c.args, code, ExitUsage)
		}
		if !strings.Contains(stderr.String(), c.want) || !strings.Contains(stderr.String(), "--help") {
			t.Errorf("%s: stderr %q lacks %q or the way to the help", c.args, stderr.String(), c.want)
		}
	}
}

func TestProgressIsQuietOffTerminals(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out)
	p.Set("%d events", 3)
	p.Done()
	if out.Len() != 0 {
		t.Errorf("wrote %q to something that is no terminal", out.String())
	}
}

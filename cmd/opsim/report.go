package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/analysis"
	"github.com/opreplay/opreplay/analysis/report/html"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/traces"
)

// reportFlags are the flags of opsim report.
type reportFlags struct {
	out, reference, listen string
	live                   bool
}

func newReportCmd() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report TRACE…", // or, with --live, the folder of an exploration
		Short: "Make a page of traces and their findings, to look around in and to send",
		Long: `Report writes one HTML file that needs nothing else: it opens from disk, asks nothing of any network and prints
well. On top are the findings in words, each with its timeline and how it came about; then the whole run: objects,
calls and reconciles over time, how long they took, where the processor's time went.

Of several traces it makes one page: the findings of all in one list, the worst first, and a part for each trace.

With --reference each trace is shown beside another one, such as the unaltered run of the same trace, with the first
difference marked.

With --live nothing is written: the page is served on loopback and follows a trace that is still being recorded, or the
folder of an exploration (opsim explore --out), until ^C.

Exit code 1 means that there are findings, 0 that there are none.`,
		Example: `  opsim report run.optrace
  opsim report run.optrace -o report.html --reference unaltered.optrace
  opsim report monday.optrace tuesday.optrace -o week.html

  # while it is being recorded
  oprec run --out t.optrace -- ./manager &
  opsim report --live t.optrace

  # while timings are explored
  opsim explore t.optrace --operator ./manager --out explored &
  opsim report --live explored`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case !f.live:
				return f.write(cmd, args)
			case len(args) > 1:
				return cli.Usagef("--live follows one trace; %d are named", len(args))
			}
			return f.serve(cmd, args[0])
		},
	}
	cmd.Flags().StringVarP(&f.out, "out", "o", "", "file to write (default: the trace's name with .html, or report.html of several, in this folder)")
	cmd.Flags().StringVar(&f.reference, "reference", "", "trace to show beside it")
	cmd.Flags().BoolVar(&f.live, "live", false, "serve the page instead, and keep it up to date")
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "where to serve with --live")
	_ = cmd.MarkFlagFilename("out", "html")
	cmd.MarkFlagsMutuallyExclusive("live", "out")
	cmd.MarkFlagsMutuallyExclusive("live", "reference")
	return cmd
}

func (f *reportFlags) write(cmd *cobra.Command, dirs []string) error {
	progress := cli.NewProgress(cmd.ErrOrStderr())
	defer progress.Done()
	var runs []html.Run
	n := 0
	for _, dir := range dirs {
		trace, err := openTrace(cmd, dir)
		if err != nil {
			return err
		}
		defer trace.Close() //nolint:errcheck // only read, until the page is written
		result, err := analysis.Analyze(cmd.Context(), trace, analysis.Options{Progress: func(n int64) { progress.Set("analyzing %s: %d records", dir, n) }})
		if err != nil {
			return err
		}
		runs = append(runs, html.Run{Trace: trace, Result: result})
		n += len(result.Findings)
	}
	o := html.Options{Progress: func(t *traces.Trace, n int64) { progress.Set("drawing %s: %d records", t.Dir(), n) }}
	if f.reference != "" {
		ref, err := openTrace(cmd, f.reference)
		if err != nil {
			return err
		}
		defer ref.Close() //nolint:errcheck // only read
		o.Reference = ref
	}
	var b bytes.Buffer
	if err := html.Write(cmd.Context(), &b, o, runs...); err != nil {
		return err
	}
	out := f.file(dirs)
	if err := os.WriteFile(out, b.Bytes(), 0o600); err != nil {
		return cli.Usagef("--out %w", err)
	}
	progress.Done()
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s in %s\n", cli.Count(n, "finding"), out); err != nil {
		return err
	}
	if n > 0 {
		return cli.ErrFindings
	}
	return nil
}

// file is where the page goes.
func (f *reportFlags) file(dirs []string) string {
	switch {
	case f.out != "":
		return f.out
	case len(dirs) > 1:
		return "report.html"
	}
	return strings.TrimSuffix(filepath.Base(filepath.Clean(dirs[0])), ".optrace") + ".html"
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/opreplay/opreplay/analysis/report/export"
	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/recorder/live"
	"github.com/opreplay/opreplay/traces"
)

// exportForm is a form to export to, and how its files end.
type exportForm struct {
	suffix string
	write  func(ctx context.Context, t *traces.Trace, out string, f *exportFlags) (string, error)
}

var exportForms = map[string]exportForm{
	"pprof":    {".pb.gz", exportPprof},
	"perfetto": {".json", exportPerfetto},
	"otlp":     {".otlp.json", exportOTLP},
	"csv":      {".csv", exportCSV},
	"metrics":  {".prom", exportMetrics},
}

type exportFlags struct{ to, out, endpoint string }

func newExportCmd() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export TRACE --to pprof|perfetto|otlp|csv|metrics",
		Short: "Turn a trace into what pprof, Perfetto, OpenTelemetry, Prometheus or a spreadsheet opens",
		Long: `Export writes what a trace holds in a form that another tool reads:

  pprof     the stack samples of a recording, with labels controller, key (namespace/name) and process for the
            reconcile that each was taken in
  perfetto  the Trace Event Format, for ui.perfetto.dev: objects, calls and reconciles over time, with arrows from a
            write to its event and from an event to the reconcile that it queued
  otlp      OpenTelemetry spans: reconciles, with their calls as children and links to what caused them; to a file of
            OTLP/JSON, or to a collector with --endpoint
  csv       a folder with each table as a CSV file
  metrics   what oprec --metrics-addr would have shown at the trace's end, in Prometheus' text form`,
		Example: `  opsim export t.optrace --to pprof --out t.pb.gz
  go tool pprof -top t.pb.gz

  # of one key alone; by reconciler
  go tool pprof -top -tagfocus key=shop/cart t.pb.gz
  go tool pprof -tags t.pb.gz

  opsim export t.optrace --to perfetto --out t.json
  opsim export t.optrace --to otlp --endpoint http://127.0.0.1:4318
  opsim export t.optrace --to csv --out tables`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			form, known := exportForms[f.to]
			if !known {
				return cli.Usagef("--to %s: want pprof, perfetto, otlp, csv or metrics", f.to)
			}
			if f.endpoint != "" && f.to != "otlp" {
				return cli.Usagef("--endpoint is for --to otlp")
			}
			t, err := openTrace(cmd, args[0])
			if err != nil {
				return err
			}
			defer t.Close() //nolint:errcheck // only read
			out := f.out
			if out == "" {
				out = strings.TrimSuffix(filepath.Base(filepath.Clean(args[0])), ".optrace") + form.suffix
			}
			said, err := form.write(cmd.Context(), t, out, &f)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
			return err
		},
	}
	cmd.Flags().StringVar(&f.to, "to", "pprof", "the form: pprof, perfetto, otlp, csv or metrics")
	cmd.Flags().StringVar(&f.out, "out", "", "file to write, for csv a folder (default: the trace's name with the form's ending, in this folder)")
	cmd.Flags().StringVar(&f.endpoint, "endpoint", "", "for otlp: send to the collector at this URL, e.g. http://127.0.0.1:4318, and write no file")
	cli.Complete(cmd, "to", "pprof", "perfetto", "otlp", "csv", "metrics")
	_ = cmd.MarkFlagFilename("out")
	return cmd
}

func save(out string, b *bytes.Buffer) error {
	if err := os.WriteFile(out, b.Bytes(), 0o600); err != nil {
		return cli.Usagef("--out %w", err)
	}
	return nil
}

func exportPprof(ctx context.Context, t *traces.Trace, out string, _ *exportFlags) (string, error) {
	var b bytes.Buffer
	periods, err := export.Pprof(ctx, t, &b)
	if errors.Is(err, export.ErrNoSamples) {
		return "", cli.Usagef("%s: %w", t.Dir(), err)
	} else if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d samples in %s; see them with\n  go tool pprof -http=: %s", periods, out, out), save(out, &b)
}

func exportPerfetto(ctx context.Context, t *traces.Trace, out string, _ *exportFlags) (string, error) {
	var b bytes.Buffer
	n, err := export.Perfetto(ctx, t, &b)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d watch events, %d requests and %d reconciles in %s; ui.perfetto.dev opens it", n.Events, n.Requests, n.Reconciles, out), save(out, &b)
}

func exportOTLP(ctx context.Context, t *traces.Trace, out string, f *exportFlags) (string, error) {
	spans, n, err := export.OTLP(ctx, t)
	if err != nil {
		return "", err
	}
	said := fmt.Sprintf("spans of %d reconciles and %d requests", n.Reconciles, n.Requests)
	if f.endpoint != "" {
		return said + " sent to " + f.endpoint, cli.CannotRun(export.SendOTLP(ctx, f.endpoint, spans))
	}
	var b bytes.Buffer
	if err := export.OTLPJSON(&b, spans); err != nil {
		return "", err
	}
	return said + " in " + out, save(out, &b)
}

func exportMetrics(ctx context.Context, t *traces.Trace, out string, _ *exportFlags) (string, error) {
	var b bytes.Buffer
	rows, err := live.Summary(ctx, t, &b)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("metrics of %d rows in %s", rows, out), save(out, &b)
}

func exportCSV(ctx context.Context, t *traces.Trace, out string, _ *exportFlags) (string, error) {
	rows, err := export.CSV(ctx, t, out)
	if broken, ok := errors.AsType[*fs.PathError](err); ok {
		return "", cli.Usagef("--out %w", broken)
	} else if err != nil {
		return "", err
	}
	var list []string
	for _, table := range traces.Tables() {
		if n := rows[table]; n > 0 {
			list = append(list, fmt.Sprintf("%s.csv (%d rows)", table, n))
		}
	}
	return fmt.Sprintf("in folder %s: %s", out, strings.Join(list, ", ")), nil
}

package live

import (
	"context"
	"io"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/opreplay/opreplay/traces"
)

// Summary writes the metrics of a trace as they stood at its end, in Prometheus' text form, which node_exporter's
// textfile collector and promtool read. Rates are those of the trace's own time. It returns the rows that it read.
func Summary(ctx context.Context, t *traces.Trace, w io.Writer) (rows int64, err error) {
	var now int64
	m := New(Options{
		Process: func(int) string { return "" }, // a trace does not say which process a number was
		Lost:    func() map[string]int64 { return lost(t.Manifest()) },
		Now:     func() time.Time { return time.Unix(0, now) },
	})
	for r, err := range t.Records(ctx, traces.Range{
		Tables: []traces.Table{traces.TableWatch, traces.TableRequests, traces.TableReconciles, traces.TableKernelEvents, traces.TableSamples},
		Columns: []string{
			"group", "resource", "namespace", "name", "process", "start", "verb", "code", "controller", "outcome", "kind", "pid", "address", "port", "count", "weight", "subresource", "query",
		},
	}) {
		if err != nil {
			return rows, err
		}
		now = max(now, r.Header().TS)
		m.Row(r)
		rows++
	}
	families, err := m.registry.Gather()
	if err != nil {
		return rows, err
	}
	e := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := e.Encode(f); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// lost is the trace's losses by source; what is not known to be how much counts as one.
func lost(m *traces.Manifest) map[string]int64 {
	all := map[string]int64{}
	for _, l := range m.Losses {
		all[l.Source] += max(1, l.Count)
	}
	return all
}

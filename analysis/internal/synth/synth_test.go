package synth

import (
	"encoding/json"
	"testing"

	"github.com/opreplay/opreplay/traces"
)

// The rows are in order, refer to rows that there are, and their bodies are objects.
func TestRecords(t *testing.T) {
	rows := map[int64]traces.Record{}
	last := int64(0)
	kinds := map[traces.Table]int{}
	for r := range Records(Options{Rows: 5000, Alive: 20}) {
		h := r.Header()
		if h.Seq != last+1 {
			t.Fatalf("row %d follows %d", h.Seq, last)
		}
		last = h.Seq
		rows[h.Seq] = r
		kinds[r.Table()]++
	}
	for _, r := range rows {
		switch x := r.(type) {
		case *traces.WatchEvent:
			if !json.Valid([]byte(x.Object)) {
				t.Fatal(x.Object)
			}
		case *traces.Request:
			if p, ok := rows[x.ReconcileID].(*traces.Reconcile); !ok || p.Start > x.Start || p.TS < x.TS {
				t.Fatalf("row %d is in reconcile %d: %+v", x.Seq, x.ReconcileID, p)
			}
		case *traces.Reconcile:
			if e, ok := rows[x.Trigger].(*traces.WatchEvent); !ok || e.Name != x.Name || e.TS > x.Start {
				t.Fatalf("reconcile %d was queued by %+v", x.Seq, e)
			}
		}
	}
	if kinds[traces.TableWatch] < 2000 || kinds[traces.TableReconciles] < 500 || len(kinds) < 7 {
		t.Error(kinds)
	}
}

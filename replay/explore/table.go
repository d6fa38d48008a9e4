package explore

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opreplay/opreplay/internal/cli"
	"github.com/opreplay/opreplay/replay"
	"github.com/opreplay/opreplay/replay/trial"
	"github.com/opreplay/opreplay/traces"
)

// Row is one plan of an exploration and what came of it.
type Row struct {
	Index    int32  `parquet:"index" json:"index"`
	Kind     string `parquet:"kind,dict" json:"kind"`
	Plan     string `parquet:"plan" json:"plan"` // its text, seed included
	Threads  string `parquet:"threads,dict" json:"threads"`
	Procs    int32  `parquet:"procs" json:"procs"`
	Replicas int32  `parquet:"replicas" json:"replicas"`
	// Verdict is fine, alarms or failed.
	Verdict string `parquet:"verdict,dict" json:"verdict"`
	// Alarms are what was found, a JSON list of {oracle, object, field, expected, got, what}; "" for nothing.
	Alarms string `parquet:"alarms" json:"alarms,omitempty"`
	// Unmatched says how many of the plan's selectors met nothing.
	Unmatched int32 `parquet:"unmatched" json:"unmatched"`
	// Skipped is how many of the outsiders' changes did not fit any more, Endless that the plan's fault waited in
	// vain for its end: then the end was not compared.
	Skipped int32 `parquet:"skipped" json:"skipped"`
	Endless bool  `parquet:"endless" json:"endless"`
	// Strayed is how many fields that outsiders wrote differ and were not compared, since their changes met another
	// incarnation.
	Strayed int32  `parquet:"strayed" json:"strayed,omitempty"`
	Error   string `parquet:"error" json:"error,omitempty"`
	Hash    string `parquet:"hash" json:"hash"`
	// VirtualNanos is how long the run took by its own clock.
	VirtualNanos int64 `parquet:"virtual_nanos" json:"virtualNanos"`
}

// planRow is the row of a plan of which nothing came yet.
func planRow(p Planned) Row {
	return Row{
		Index: int32(p.Index), Kind: string(p.Kind), Plan: p.Try.Plan.String(), Threads: string(cmp.Or(p.Try.Threads, replay.ThreadsFIFO)),
		Procs: int32(max(p.Try.Procs, 1)), Replicas: int32(max(p.Try.Replicas, 1)),
	}
}

// of says whether the row is that of a plan.
func (r *Row) of(p Planned) bool {
	x := planRow(p)
	return r.Index == x.Index && r.Plan == x.Plan && r.Threads == x.Threads && r.Procs == x.Procs && r.Replicas == x.Replicas
}

func newRow(p Planned, o *trial.Outcome) (Row, error) {
	r := planRow(p)
	r.Verdict, r.Error, r.Hash, r.VirtualNanos = string(o.Verdict), o.Error, o.Hash, int64(o.Took)
	r.Unmatched, r.Skipped, r.Endless = int32(len(o.Unmatched)), int32(o.Skipped), o.Endless
	r.Strayed = int32(o.Strayed)
	if len(o.Alarms) > 0 {
		text, err := json.Marshal(o.Alarms)
		if err != nil {
			return r, err
		}
		r.Alarms = string(text)
	}
	return r, nil
}

// found are the row's alarms.
func (r *Row) found() (all []trial.Alarm, err error) {
	if r.Alarms == "" {
		return nil, nil
	}
	return all, json.Unmarshal([]byte(r.Alarms), &all)
}

// TableName is the table's file in the folder of an exploration.
const TableName = "results.parquet"

// WriteTable writes rows in the order of their index. The same rows give the same bytes.
func WriteTable(file string, rows []Row) error {
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Index, b.Index) })
	return cli.CannotRun(traces.WriteRows(file, rows))
}

// ReadTable reads the table of an exploration: its file, or its folder.
func ReadTable(path string) ([]Row, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, TableName)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("%s: no such file; name the folder of an exploration, or its %s", path, TableName)
	}
	rows, err := traces.ReadRows[Row](path)
	if err != nil {
		return nil, cli.Usagef("%s: no table of an exploration: %w", path, err)
	}
	return rows, nil
}

// Merge makes one table of those of the shards of an exploration.
func Merge(paths []string) ([]Row, error) {
	if err := sameExploration(paths); err != nil {
		return nil, err
	}
	byIndex := map[int32]Row{}
	from := map[int32]string{}
	for _, path := range paths {
		rows, err := ReadTable(path)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if old, ok := byIndex[r.Index]; ok && old != r {
				return nil, cli.Usagef("%s and %s are not of one exploration: plan %d differs", from[r.Index], path, r.Index)
			}
			byIndex[r.Index], from[r.Index] = r, path
		}
	}
	all := make([]Row, 0, len(byIndex))
	for _, r := range byIndex {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Row) int { return cmp.Compare(a.Index, b.Index) })
	return all, nil
}

// faults is the number of faults of the row's plan.
func (r *Row) faults() int { return strings.Count(r.Plan, "\n- ") }

// KindTally counts what came of the plans of one kind.
type KindTally struct {
	Kind                 string
	Fine, Alarms, Failed int
}

// Tally counts what came of plans, in the order in which their kinds first come.
func Tally(rows []Row) []KindTally {
	var list []KindTally
	at := map[string]int{}
	for i := range rows {
		r := &rows[i]
		n, known := at[r.Kind]
		if !known {
			n = len(list)
			at[r.Kind] = n
			list = append(list, KindTally{Kind: r.Kind})
		}
		switch trial.Verdict(r.Verdict) {
		case trial.Fine:
			list[n].Fine++
		case trial.Alarms:
			list[n].Alarms++
		case trial.Failed:
			list[n].Failed++
		}
	}
	return list
}

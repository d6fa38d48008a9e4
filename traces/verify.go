package traces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Problem is one thing that Verify found wrong.
type Problem struct {
	File   string `json:"file"`
	Detail string `json:"detail"`
}

// maxProblems of one file are told one by one.
const maxProblems = 20

// Verify reads everything: sizes, SHA-256, row counts, seq order and ranges, the order inside row
// groups, each object's JSON and hash, and that every reference to an object can be followed. It
// returns what is wrong, each with file and place, in the order of the manifest's files; an error only
// when it could not look. A trace that was not closed in order is a problem; a loss that the manifest
// admits is not.
func (t *Trace) Verify(ctx context.Context) ([]Problem, error) {
	v := &verifier{trace: t, told: map[string]int{}}
	if !t.manifest.Complete {
		v.problem(ManifestName, "the trace was not closed in order (or is still being written): its last rows may be missing, and oprec repair brings back what its journal has of them")
	}
	for _, f := range t.manifest.Files {
		ok, err := v.file(ctx, f)
		if err != nil {
			return nil, err
		}
		if ok {
			v.good = append(v.good, f)
		}
	}
	if err := v.strays(); err != nil {
		return nil, err
	}
	if err := v.whole(ctx); err != nil {
		return nil, err
	}
	for _, f := range slices.Sorted(maps.Keys(v.told)) {
		if more := v.told[f] - maxProblems; more > 0 {
			v.problems = append(v.problems, Problem{File: f, Detail: fmt.Sprintf("and %d more problems", more)})
		}
	}
	return v.problems, nil
}

type verifier struct {
	trace    *Trace
	problems []Problem
	told     map[string]int
	good     []File // whose rows can be read
}

func (v *verifier) problem(file, format string, args ...any) {
	if v.told[file]++; v.told[file] <= maxProblems {
		v.problems = append(v.problems, Problem{File: file, Detail: fmt.Sprintf(format, args...)})
	}
}

// readError makes a problem of an error that says that the trace is bad, and returns any other.
func (v *verifier) readError(err error) error {
	var bad *FormatError
	if errors.As(err, &bad) {
		v.problem(filepath.Base(bad.Path), "%s", bad.Detail)
		return nil
	}
	return err
}

// file checks one file by itself, and says whether its rows can be read.
func (v *verifier) file(ctx context.Context, f File) (ok bool, err error) {
	v.trace.distrust(f.Name)
	if err := v.trace.trust(ctx, &f); err != nil {
		return false, v.readError(err)
	}
	k := kindOf(f.Table)
	if k < 0 {
		if m := v.trace.manifest.Format; m.Minor <= FormatMinor {
			v.problem(f.Name, "table %q is none of format %d.%d", f.Table, m.Major, m.Minor)
		}
		return false, nil
	}
	seen := File{Name: f.Name, Table: f.Table, Bytes: f.Bytes, SHA256: f.SHA256}
	err = v.trace.eachGroup(ctx, f, (&Range{}).selection(), func(g *group) error {
		if g.number == 0 {
			v.columns(g)
		}
		rows, err := g.stored((&Range{}).selection())
		if err != nil {
			return err
		}
		v.group(g, rows)
		for _, r := range rows {
			extend(&seen, r.Header())
		}
		return nil
	})
	if err != nil {
		return false, v.readError(err)
	}
	if seen.Rows == 0 {
		seen.FirstSeq, seen.LastSeq, seen.FirstTS, seen.LastTS = f.FirstSeq, f.LastSeq, f.FirstTS, f.LastTS
	}
	if seen != f {
		v.problem(f.Name, "holds %s, and %s says %s", describe(seen), ManifestName, describe(f))
	}
	return true, nil
}

// extend counts a row in a file's ranges.
func extend(f *File, h *Head) {
	if f.Rows == 0 {
		f.FirstSeq, f.LastSeq, f.FirstTS, f.LastTS = h.Seq, h.Seq, h.TS, h.TS
	}
	f.Rows++
	f.FirstSeq, f.LastSeq = min(f.FirstSeq, h.Seq), max(f.LastSeq, h.Seq)
	f.FirstTS, f.LastTS = min(f.FirstTS, h.TS), max(f.LastTS, h.TS)
}

func describe(f File) string {
	const form = "2006-01-02T15:04:05.999999999Z"
	return fmt.Sprintf("%d rows, seq %d to %d, %s to %s", f.Rows, f.FirstSeq, f.LastSeq, nanos(f.FirstTS).Format(form), nanos(f.LastTS).Format(form))
}

// columns checks that a file of this version has all columns of this version.
func (v *verifier) columns(g *group) {
	if v.trace.manifest.Format.Minor < FormatMinor {
		return // an older file may lack some
	}
	for _, path := range kinds[g.file.kind].schema().Columns() {
		if _, ok := g.rg.Schema().Lookup(path...); !ok {
			v.problem(g.file.Name, "column %s is missing", strings.Join(path, "."))
		}
	}
}

// group checks the rows of one row group, in the order of the file.
func (v *verifier) group(g *group, rows []Record) {
	at := func(i int) string {
		return fmt.Sprintf("row group %d, row %d (seq %d)", g.number, i, rows[i].Header().Seq)
	}
	for i, r := range rows {
		h := r.Header()
		if i > 0 && !kinds[g.file.kind].inOrder(rows[i-1], r) {
			v.problem(g.file.Name, "%s: not sorted: it belongs before the row above", at(i))
		}
		if h.Seq < g.firstSeq || h.Seq > g.lastSeq || h.TS < g.firstTS || h.TS > g.lastTS {
			v.problem(g.file.Name, "%s: outside of the row group's statistics", at(i))
		}
		if h.Seq < 1 {
			v.problem(g.file.Name, "%s: seq counts from 1", at(i))
		}
		if wrong := checkRow(r); wrong != "" {
			v.problem(g.file.Name, "%s: %s", at(i), wrong)
		}
	}
}

// checkRow says what is wrong with a row by itself.
func checkRow(r Record) string {
	switch r := r.(type) {
	case *WatchEvent:
		switch EventType(r.Type) {
		case Added, Modified, Deleted, Bookmark, Error, Sync:
		default:
			return fmt.Sprintf("event type %q is none of a watch's", r.Type)
		}
		if r.ObjectHash != HashObject(r.Object) {
			return fmt.Sprintf("object_hash is %q, and the object's is %q", r.ObjectHash, HashObject(r.Object))
		}
		if r.Object != "" && !json.Valid([]byte(r.Object)) {
			return "the object is not JSON"
		}
	case *Request:
		if r.ResponseBody != "" && r.ResponseHash != HashObject(r.ResponseBody) {
			return fmt.Sprintf("response_hash is %q, and the response_body's is %q", r.ResponseHash, HashObject(r.ResponseBody))
		}
		if r.StartSeq >= r.Seq {
			return fmt.Sprintf("the call started at seq %d, after it ended", r.StartSeq)
		}
	}
	return ""
}

// strays tells of files that no manifest lists.
func (v *verifier) strays() error {
	entries, err := os.ReadDir(v.trace.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		listed := slices.ContainsFunc(v.trace.manifest.Files, func(f File) bool { return f.Name == e.Name() })
		switch {
		case listed || e.Name() == ManifestName:
		case strings.HasPrefix(e.Name(), ".") && strings.HasSuffix(e.Name(), ".tmp"):
			v.problem(e.Name(), "left by a writer that did not finish (or is still at work)")
		case strings.HasSuffix(e.Name(), ".parquet"):
			v.problem(e.Name(), "%s does not list this file: its rows are not part of the trace", ManifestName)
		}
	}
	return nil
}

// whole checks the trace across files: that no seq was given twice, and that references resolve.
func (v *verifier) whole(ctx context.Context) error {
	m := *v.trace.manifest
	m.Files = v.good
	good := &Trace{dir: v.trace.dir, manifest: &m, trusted: map[string]error{}}
	for _, f := range v.good {
		good.trusted[f.Name] = nil
	}
	var last Record
	for r, err := range good.Records(ctx, Range{Columns: []string{columnSeq}}) {
		if err != nil {
			return v.readError(err)
		}
		if last != nil && last.Header().Seq == r.Header().Seq {
			v.problem(ManifestName, "seq %d was given twice: to a row of %s and to one of %s", r.Header().Seq, last.Table(), r.Table())
		}
		last = r
	}
	if admitted := slices.ContainsFunc(m.Losses, func(l Loss) bool { return l.Source == lossOfBodies }); admitted {
		return nil
	}
	return v.references(ctx, good)
}

// references checks that each call's answer can be found.
func (v *verifier) references(ctx context.Context, good *Trace) error {
	wanted := map[bodyKey]int64{} // and by which seq first
	for r, err := range Rows[Request](ctx, good, Range{Columns: []string{"uid", "resource_version", "response_body", "response_hash"}}) {
		if err != nil {
			return v.readError(err)
		}
		if r.ResponseBody == "" && r.ResponseHash != "" {
			k, _ := keyOf(r.UID, r.ResourceVersion, r.ResponseHash)
			if _, ok := wanted[k]; !ok {
				wanted[k] = r.Seq
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	for r, err := range Rows[WatchEvent](ctx, good, Range{Columns: []string{"uid", "resource_version", "object_hash"}}) {
		if err != nil {
			return v.readError(err)
		}
		k, _ := keyOf(r.UID, r.ResourceVersion, r.ObjectHash)
		delete(wanted, k)
	}
	missing := make([]int64, 0, len(wanted))
	for _, seq := range wanted {
		missing = append(missing, seq)
	}
	slices.Sort(missing)
	for _, seq := range missing {
		v.problem("requests", "the answer of the request with seq %d refers to an object that no readable watch row holds", seq)
	}
	return nil
}

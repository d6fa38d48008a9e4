package traces

import (
	"context"
	"fmt"
	"iter"
	"math"
	"os"
	"sync"
)

// Trace is an open trace folder. It is safe for concurrent use.
type Trace struct {
	dir      string
	manifest *Manifest
	sha256   string // of the manifest

	mu      sync.Mutex
	trusted map[string]error // of each file that was hashed: what is wrong with it

	bodies bodyIndex
}

// Open reads DIR's manifest and checks that this package can read it and that each file's size is right.
// What is not a trace, or is damaged, is a *FormatError that names the file, the place and what to do.
func Open(dir string) (*Trace, error) {
	m, sum, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	t := &Trace{dir: dir, manifest: m, sha256: sum, trusted: map[string]error{}}
	for _, f := range m.Files {
		info, err := os.Stat(t.path(f.Name))
		switch {
		case err != nil:
			return nil, fileError(t.path(f.Name), err)
		case info.Size() != f.Bytes:
			return nil, wrongSize(t.path(f.Name), info.Size(), f.Bytes)
		}
	}
	return t, nil
}

// Dir is the folder that was opened.
func (t *Trace) Dir() string { return t.dir }

// Manifest is the trace's manifest; it must not be changed.
func (t *Trace) Manifest() *Manifest { return t.manifest }

// SHA256 is the SHA-256 of manifest.json in hex, as it was when the trace was opened. The manifest has
// the SHA-256 of each file, so it stands for all that the trace holds.
func (t *Trace) SHA256() string { return t.sha256 }

// Close releases the memory that a Trace holds. Files are open only while they are being read.
func (t *Trace) Close() error {
	t.bodies.forget()
	return nil
}

// Range narrows a read. The zero value reads everything.
type Range struct {
	Tables         []Table  // for Records: which tables; nil means all
	FromSeq, ToSeq int64    // inclusive; ToSeq 0 means to the end
	FromTS, ToTS   int64    // nanoseconds, inclusive; ToTS 0 means to the end
	Columns        []string // nil means all; others are left zero. seq and ts always come
	Omit           []string // of those, columns of any table that are left zero all the same
	Reuse          *Reuse   // nil: rows and their texts are the caller's for good; else until Reuse.Done, see there
}

func (r *Range) selection() *selection {
	s := &selection{columns: r.Columns, omit: r.Omit, fromSeq: r.FromSeq, toSeq: r.ToSeq, fromTS: r.FromTS, toTS: r.ToTS}
	if s.toSeq == 0 {
		s.toSeq = math.MaxInt64
	}
	if s.toTS == 0 {
		s.toTS = math.MaxInt64
	}
	if s.fromTS == 0 {
		s.fromTS = math.MinInt64
	}
	return s
}

// Records yields the rows of all tables in the order of Seq. Memory is bounded by one row group a file
// that overlaps, and with Reuse by some more that wait for Done. An error is yielded once, with a nil record, and is the end.
func (t *Trace) Records(ctx context.Context, r Range) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, table := range r.Tables {
			if kindOf(table) < 0 {
				yield(nil, fmt.Errorf("traces: no table %q", table))
				return
			}
		}
		for _, column := range r.Columns {
			if !columnExists(r.Tables, column) {
				yield(nil, fmt.Errorf("traces: no column %q", column))
				return
			}
		}
		for _, column := range r.Omit {
			if !columnExists(nil, column) {
				yield(nil, fmt.Errorf("traces: no column %q", column))
				return
			}
		}
		m := newMerge(ctx, t, &r)
		defer m.close()
		for {
			rec, err := m.next()
			if rec == nil && err == nil {
				return
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// Rows yields one table in the order of Seq, e.g. Rows[traces.WatchEvent](ctx, t, traces.Range{}). The
// Tables of the range are ignored. An error is yielded once, with a nil row, and is the end.
func Rows[T any](ctx context.Context, t *Trace, r Range) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		rec, ok := any(new(T)).(Record)
		if !ok {
			yield(nil, fmt.Errorf("traces: %T is not a row of a table", *new(T)))
			return
		}
		r.Tables = []Table{rec.Table()}
		for rec, err := range t.Records(ctx, r) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(any(rec).(*T), nil) {
				return
			}
		}
	}
}

// columnExists says whether one of the tables (nil: any) has the column.
func columnExists(tables []Table, name string) bool {
	for _, k := range kinds {
		if tables != nil && !containsTable(tables, k.table()) {
			continue
		}
		for _, f := range k.schema().Fields() {
			if f.Name() == name {
				return true
			}
		}
	}
	return false
}

func containsTable(tables []Table, t Table) bool {
	for _, x := range tables {
		if x == t {
			return true
		}
	}
	return false
}

package traces

import (
	"context"
	"iter"
)

// Trace is an open trace folder.
type Trace struct{}

// Open reads DIR's manifest and checks that this package can read it and that each file's size is right.
func Open(dir string) (*Trace, error) { panic("skeleton") }

// Dir is the folder that was opened.
func (t *Trace) Dir() string { panic("skeleton") }

// Manifest is the trace's manifest; it must not be changed.
func (t *Trace) Manifest() *Manifest { panic("skeleton") }

// Close releases the files.
func (t *Trace) Close() error { panic("skeleton") }

// Range narrows a read. The zero value reads everything.
type Range struct {
	Tables         []Table  // for Records: which tables; nil means all
	FromSeq, ToSeq int64    // inclusive; ToSeq 0 means to the end
	FromTS, ToTS   int64    // nanoseconds, inclusive; ToTS 0 means to the end
	Columns        []string // nil means all; others are left zero. seq and ts always come
}

// Records yields the rows of all tables in the order of Seq. Memory is bounded by one row group a file that overlaps.
func (t *Trace) Records(ctx context.Context, r Range) iter.Seq2[Record, error] { panic("skeleton") }

// Rows yields one table in the order of Seq, e.g. Rows[traces.WatchEvent](ctx, t, traces.Range{}).
func Rows[T any](ctx context.Context, t *Trace, r Range) iter.Seq2[*T, error] { panic("skeleton") }

// Verify reads everything: sizes, SHA-256, row counts, seq order and ranges. It returns what is wrong, each with file and place.
func (t *Trace) Verify(ctx context.Context) ([]Problem, error) { panic("skeleton") }

// Problem is one thing that Verify found wrong.
type Problem struct {
	File   string `json:"file"`
	Detail string `json:"detail"`
}

// HashObject is the content hash of an object's JSON text: the first 8 bytes of its SHA-256, in hex.
func HashObject(json string) string { panic("skeleton") }

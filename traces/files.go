package traces

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
)

// openFile is one Parquet file that is being read.
type openFile struct {
	File
	path string
	kind int
	os   *os.File
	pq   *parquet.File
}

// group is one row group, with the range of its rows as far as the file tells.
type group struct {
	file              *openFile
	number            int // from 0
	rg                parquet.RowGroup
	firstSeq, lastSeq int64
	firstTS, lastTS   int64
}

// trust checks a file against the manifest, once. A Parquet footer has no checksum of its own, and a
// damaged one can make a reader allocate without bound: nothing of a file is looked at before this.
func (t *Trace) trust(ctx context.Context, f *File) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err, known := t.trusted[f.Name]
	if known {
		return err
	}
	err = t.hash(ctx, f)
	if ctx.Err() == nil {
		t.trusted[f.Name] = err
	}
	return err
}

// distrust has a file checked anew.
func (t *Trace) distrust(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.trusted, name)
}

func (t *Trace) hash(ctx context.Context, f *File) error {
	path := t.path(f.Name)
	in, err := os.Open(path)
	if err != nil {
		return fileError(path, err)
	}
	defer in.Close() //nolint:errcheck // only read
	h := sha256.New()
	n, err := io.Copy(h, &contextReader{ctx: ctx, r: in})
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case n != f.Bytes:
		return wrongSize(path, n, f.Bytes)
	case hex.EncodeToString(h.Sum(nil)) != f.SHA256:
		return &FormatError{Path: path, Detail: "its bytes are not those that were written (SHA-256 differs from " + ManifestName + ")", Hint: "copy the trace again from its source"}
	}
	return nil
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

func fileError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &FormatError{Path: path, Detail: ManifestName + " lists this file, and it is missing", Hint: "copy the whole folder"}
	}
	return &FormatError{Path: path, Detail: cause(err), Hint: "check your permissions"}
}

func wrongSize(path string, have, want int64) error {
	detail := fmt.Sprintf("has %d bytes, and %s says %d", have, ManifestName, want)
	if have < want {
		detail = fmt.Sprintf("is cut off: it has %d of %d bytes", have, want)
	}
	return &FormatError{Path: path, Detail: detail, Hint: "copy the trace again from its source"}
}

func (t *Trace) path(name string) string { return filepath.Join(t.dir, name) }

// open opens a file that is trusted.
func (t *Trace) open(ctx context.Context, f File) (_ *openFile, err error) {
	if err := t.trust(ctx, &f); err != nil {
		return nil, err
	}
	o := &openFile{File: f, path: t.path(f.Name), kind: kindOf(f.Table)}
	if o.os, err = os.Open(o.path); err != nil {
		return nil, fileError(o.path, err)
	}
	err = guard(func() (err error) {
		o.pq, err = parquet.OpenFile(o.os, f.Bytes, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(64<<10))
		return err
	})
	switch {
	case err != nil:
		err = &FormatError{Path: o.path, Detail: "not a Parquet file: " + err.Error(), Hint: "the trace is damaged"}
	case o.pq.NumRows() != f.Rows:
		err = &FormatError{Path: o.path, Detail: fmt.Sprintf("holds %d rows, and %s says %d", o.pq.NumRows(), ManifestName, f.Rows), Hint: "the trace is damaged"}
	}
	if err != nil {
		_ = o.os.Close()
		return nil, err
	}
	return o, nil
}

func (o *openFile) close() error { return o.os.Close() }

// groups are the file's row groups that may hold rows of sel.
func (o *openFile) groups(sel *selection) (gs []*group, err error) {
	err = guard(func() error {
		for i, rg := range o.pq.RowGroups() {
			g := &group{file: o, number: i, rg: rg}
			g.firstSeq, g.lastSeq = bounds(rg, columnSeq)
			g.firstTS, g.lastTS = bounds(rg, columnTS)
			if g.firstSeq <= sel.toSeq && g.lastSeq >= sel.fromSeq && g.firstTS <= sel.toTS && g.lastTS >= sel.fromTS {
				gs = append(gs, g)
			}
		}
		return nil
	})
	if err != nil {
		return nil, &FormatError{Path: o.path, Detail: err.Error(), Hint: "the trace is damaged"}
	}
	return gs, nil
}

// bounds are the least and greatest value of an int64 column; all there are when the file has no
// statistics.
func bounds(rg parquet.RowGroup, name string) (first, last int64) {
	first, last = math.MinInt64, math.MaxInt64
	leaf, ok := rg.Schema().Lookup(name)
	if !ok || leaf.Node.Type().Kind() != parquet.Int64 {
		return first, last
	}
	if c, ok := rg.ColumnChunks()[leaf.ColumnIndex].(*parquet.FileColumnChunk); ok {
		if lo, hi, ok := c.Bounds(); ok {
			return lo.Int64(), hi.Int64()
		}
	}
	return first, last
}

// read gives the rows of the group that sel wants, nil if it wants none.
func (g *group) read(sel *selection, r *reading) (rows batch, err error) {
	err = guard(func() (err error) {
		rows, err = kinds[g.file.kind].decode(g.rg, sel, r)
		return err
	})
	if err != nil {
		return nil, &FormatError{Path: g.file.path, Detail: fmt.Sprintf("row group %d: %v", g.number, err), Hint: "the trace is damaged, or was written by something else"}
	}
	return rows, nil
}

// stored gives the rows of the group that sel wants, in the order of the file.
func (g *group) stored(sel *selection) ([]Record, error) {
	rows, err := g.read(sel, newReading(nil))
	if rows == nil {
		return nil, err
	}
	return rows.stored(), nil
}

// eachGroup opens a file for as long as f looks at its row groups.
func (t *Trace) eachGroup(ctx context.Context, file File, sel *selection, f func(*group) error) error {
	o, err := t.open(ctx, file)
	if err != nil {
		return err
	}
	defer o.close() //nolint:errcheck // only read
	gs, err := o.groups(sel)
	if err != nil {
		return err
	}
	for _, g := range gs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(g); err != nil {
			return err
		}
	}
	return nil
}

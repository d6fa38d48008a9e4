package traces

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// What the Parquet files look like. Measured over 28,640 watch events of a real cluster: rows sorted
// by object, pages of 1 MiB and row groups of 5,000 rows take 82 bytes an event; the library's own
// page of 256 KiB takes 95, time order 138.
const (
	pageBytes = 1 << 20
	// maxRowGroups a file is far below what Parquet's 16-bit ordinals can count.
	maxRowGroups = 1000
)

func newCodec() *zstd.Codec { return &zstd.Codec{Level: zstd.SpeedDefault, Concurrency: 1} }

// output is what a table's file is written to: an *os.File, or a test's broken disk.
type output interface {
	io.Writer
	Sync() error
	Close() error
}

func createFile(path string) (output, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// encoder writes rows of one table as row groups.
type encoder interface {
	writeGroup([]Record) error
	Close() error
}

// fileWriter is one Parquet file in the making, under a temporary name.
type fileWriter struct {
	dir    string
	file   File // rows and ranges so far; Bytes too
	tmp    string
	out    output
	buf    *bufio.Writer // of out
	sum    hash.Hash
	enc    encoder
	groups int
	// needs is how many watch rows must be in finished files before this one may be seen: its
	// response bodies refer to them.
	needs int64
}

func tempName(name string) string { return "." + name + ".tmp" }

func newFileWriter(dir, name string, k kind, codec *zstd.Codec, create func(string) (output, error)) (*fileWriter, error) {
	w := &fileWriter{
		dir:  dir,
		tmp:  filepath.Join(dir, tempName(name)),
		file: File{Name: name, Table: k.table(), FirstSeq: math.MaxInt64, FirstTS: math.MaxInt64, LastTS: math.MinInt64},
		sum:  sha256.New(),
	}
	var err error
	if w.out, err = create(w.tmp); err != nil {
		return nil, err
	}
	w.buf = bufio.NewWriterSize(w.out, 128<<10)
	w.enc = k.encoder(w, codec)
	return w, nil
}

// Write implements io.Writer for the encoder. The buffer is here and not the encoder's, so that the
// size is known after each row group.
func (w *fileWriter) Write(p []byte) (int, error) {
	w.sum.Write(p)
	w.file.Bytes += int64(len(p))
	return w.buf.Write(p)
}

// group writes sorted rows as one row group.
func (w *fileWriter) group(rows []Record) error {
	for _, r := range rows {
		h := r.Header()
		w.file.FirstSeq, w.file.LastSeq = min(w.file.FirstSeq, h.Seq), max(w.file.LastSeq, h.Seq)
		w.file.FirstTS, w.file.LastTS = min(w.file.FirstTS, h.TS), max(w.file.LastTS, h.TS)
	}
	w.file.Rows += int64(len(rows))
	w.groups++
	return w.enc.writeGroup(rows)
}

// finish makes the file durable under its own name. The folder is not yet synced.
func (w *fileWriter) finish() (File, error) {
	if err := w.enc.Close(); err != nil {
		return File{}, err
	}
	if err := w.buf.Flush(); err != nil {
		return File{}, err
	}
	if err := w.out.Sync(); err != nil {
		return File{}, err
	}
	if err := w.out.Close(); err != nil {
		return File{}, err
	}
	w.file.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	return w.file, os.Rename(w.tmp, filepath.Join(w.dir, w.file.Name))
}

// abort gives up the file, and its space on a full disk.
func (w *fileWriter) abort() error {
	return errors.Join(w.out.Close(), os.Remove(w.tmp))
}

// rowEncoder is an encoder for rows of type T.
type rowEncoder[T any, P interface {
	*T
	Record
}] struct {
	w     *parquet.GenericWriter[T]
	batch []T
}

func (s *spec[T, P]) encoder(out *fileWriter, codec *zstd.Codec) encoder {
	options := []parquet.WriterOption{
		parquet.CreatedBy("opreplay", "1", "traces"),
		parquet.Compression(codec),
		parquet.PageBufferSize(pageBytes),
		parquet.WriteBufferSize(0),
	}
	for _, c := range s.bodies {
		// Both: without the first the bounds stand in the page index, without the second in each
		// page's header, whole objects each time.
		options = append(options, parquet.SkipPageBounds(c), parquet.SkipPageStatistics(c))
	}
	var by []parquet.SortingColumn
	for _, c := range append(s.sorting[:len(s.sorting):len(s.sorting)], columnSeq) {
		by = append(by, parquet.Ascending(c))
	}
	options = append(options, parquet.SortingWriterConfig(parquet.SortingColumns(by...)))
	return &rowEncoder[T, P]{w: parquet.NewGenericWriter[T](out, options...), batch: make([]T, 0, 64)}
}

func (e *rowEncoder[T, P]) writeGroup(rows []Record) error {
	for len(rows) > 0 {
		n := min(len(rows), cap(e.batch))
		e.batch = e.batch[:0]
		for _, r := range rows[:n] {
			e.batch = append(e.batch, *(*T)(r.(P)))
		}
		if _, err := e.w.Write(e.batch); err != nil {
			return err
		}
		clear(e.batch)
		rows = rows[n:]
	}
	return e.w.Flush()
}

func (e *rowEncoder[T, P]) Close() error { return e.w.Close() }

package traces

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Repaired says what Repair did.
type Repaired struct {
	// Rows is how many rows the journal brought back.
	Rows int64 `json:"rows"`
	// Torn is how many bytes at the journal's end were not whole: what was being written when the recorder was killed.
	Torn int64 `json:"tornBytes"`
	// Untouched is set where there was nothing to do.
	Untouched bool `json:"untouched"`
}

// Repair completes a trace whose writer was killed: the rows that stand in its journal alone become files, and the
// manifest states what is lost, which is what was not synced yet. It may be killed itself and begun anew. A trace that
// is still being written is a *FormatError.
func Repair(ctx context.Context, dir string) (*Repaired, error) {
	return repairWith(ctx, dir, WriterOptions{RotateAge: -1})
}

func repairWith(ctx context.Context, dir string, o WriterOptions) (*Repaired, error) {
	if _, _, err := readManifest(dir); err != nil { // what is no trace is not locked
		return nil, err
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	r := &repair{ctx: ctx, dir: dir, listed: map[int64]bool{}}
	m, err := r.look()
	switch {
	case err != nil:
		return nil, errors.Join(err, lock.release())
	case m.Complete:
		return &Repaired{Untouched: len(r.names) == 0}, errors.Join(removeJournals(dir), lock.release())
	}
	if err := r.prepare(m); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	w, err := newWriter(dir, *m, o, lock)
	if err != nil {
		return nil, err
	}
	return r.replay(w)
}

// look reads what there is. The folder is locked: before, the writer, or another Repair, may still have been at it.
func (r *repair) look() (*Manifest, error) {
	m, _, err := readManifest(r.dir)
	if err != nil {
		return nil, err
	}
	if r.names, err = journals(r.dir); err != nil {
		return nil, err
	}
	t, err := Open(r.dir) // which looks at the files' sizes
	if err != nil {
		return nil, err
	}
	return m, t.Close()
}

type repair struct {
	ctx    context.Context
	dir    string
	names  []string       // of the journal's files
	listed map[int64]bool // seqs of rows that the manifest's files have
	done   Repaired
	last   int64 // the latest time of a row
}

// prepare clears away what no manifest lists, and learns what is listed. A whole file's rows are in the journal; without
// one it is all that there is of them, and stays.
func (r *repair) prepare(m *Manifest) error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		listed := slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == e.Name() })
		whole := strings.HasSuffix(e.Name(), ".parquet") && len(r.names) > 0
		if !listed && (whole || strings.HasSuffix(e.Name(), ".tmp") && strings.HasPrefix(e.Name(), ".")) {
			if err := os.Remove(filepath.Join(r.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for _, f := range m.Files {
		r.last = max(r.last, f.LastTS)
	}
	t, err := Open(r.dir)
	if err != nil {
		return err
	}
	defer t.Close() //nolint:errcheck // only read
	for row, err := range t.Records(r.ctx, Range{Columns: []string{columnSeq}}) {
		if err != nil {
			return err
		}
		r.listed[row.Header().Seq] = true
	}
	return nil
}

// replay appends what is in the journal alone, and ends the trace.
func (r *repair) replay(w *Writer) (*Repaired, error) {
	var err error
	for _, name := range r.names {
		if err = r.segment(name, w); err != nil {
			break
		}
	}
	if err == nil {
		err = w.Rotate()
	}
	if err != nil {
		return nil, errors.Join(err, w.abandon())
	}
	w.Lose(r.loss())
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &r.done, removeJournals(r.dir)
}

// abandon ends the writing as a kill would, for another attempt: what stands in no finished file is in the journal.
func (w *Writer) abandon() error {
	close(w.jobs)
	w.encoding.Wait()
	for k := range w.seg.open {
		w.seg.giveUp(k)
	}
	return w.lock.release()
}

// loss is what the kill cost.
func (r *repair) loss() Loss {
	l := Loss{Source: "trace", From: nanos(r.last), To: nanos(r.last).Add(time.Second), Count: -1}
	switch {
	case len(r.names) == 0: // a row waits for so long until it stands in a file: WriterOptions.RotateAge
		l.To = nanos(r.last).Add(time.Minute)
		l.Reason = "the recorder was killed and left no journal: what stood in no finished file is missing"
	case r.done.Torn > 0:
		l.Reason = fmt.Sprintf("the recorder was killed: what it had not synced to its journal is missing; of that, %d bytes were written in part", r.done.Torn)
	default:
		l.Reason = "the recorder was killed: what it had not synced to its journal is missing"
	}
	return l
}

// segment replays one file of the journal.
func (r *repair) segment(path string, w *Writer) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	codec := &zstd.Codec{}
	var tables []journalTable
	for first := true; len(b) > 0; first = false {
		payload, n := block(codec, b)
		if payload == nil {
			r.done.Torn += int64(len(b))
			return nil
		}
		b = b[n:]
		if first {
			if err := json.Unmarshal(payload, &tables); err != nil {
				return &FormatError{Path: path, Detail: "its header is none: " + err.Error(), Hint: "was it written by oprec?"}
			}
			continue
		}
		rows, err := unpackRows(payload, tables)
		if err != nil {
			return &FormatError{Path: path, Detail: err.Error(), Hint: "was it written by another release?"}
		}
		if err := r.append(rows, w); err != nil {
			return err
		}
	}
	return nil
}

// block is the payload of the block that B begins with, and its length in all; nil where it is not whole.
func block(codec *zstd.Codec, b []byte) (payload []byte, n int) {
	if len(b) < blockHead {
		return nil, 0
	}
	n = blockHead + int(binary.LittleEndian.Uint32(b))
	if n < blockHead || n > len(b) {
		return nil, 0
	}
	packed := b[blockHead:n]
	if crc32.Checksum(packed, castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, 0
	}
	payload, err := codec.Decode(nil, packed)
	if err != nil || payload == nil {
		return nil, 0
	}
	return payload, n
}

// append appends the rows that no file has.
func (r *repair) append(rows []Record, w *Writer) error {
	for _, row := range rows {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		h := row.Header()
		if r.listed[h.Seq] {
			continue
		}
		r.last = max(r.last, h.TS)
		if err := w.Append(row); err != nil {
			return err
		}
		r.done.Rows++
	}
	return nil
}

// unpackRows are the rows of a block.
func unpackRows(payload []byte, tables []journalTable) (rows []Record, err error) {
	u := &unpacker{b: payload}
	for len(u.b) > 0 {
		n := u.uvarint()
		if u.err != nil || n >= uint64(len(tables)) {
			return nil, errJournalRow
		}
		k := kindOf(tables[n].Table)
		if k < 0 {
			return nil, fmt.Errorf("rows of a table %s, which this release does not know", tables[n].Table)
		}
		row := kinds[k].unpack(u, tables[n].Columns)
		if u.err != nil {
			return nil, u.err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
